//===- ir/verify/verify_requests.cpp - every request is waited for exactly once ---------------===//
//
// A request is visible only in the block that posts it and in nested blocks, so every path through
// that block must wait for it exactly once: in both branches of an `if` or in neither, and not
// inside a loop if it was posted outside the loop. A single walk in source order records where each
// visible request was waited for. It discards the waits in one branch before it walks the other
// branch, and then compares the waits of both branches.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/verify/verify.h"

#include "llvm/ADT/DenseSet.h"

namespace braid {
namespace {

class RequestVerifier {
public:
  explicit RequestVerifier(Diagnostics &diags) : diags_(diags) {}
  void verifyBlock(const Block &block);

private:
  struct Request {
    int loopDepth = 0;            ///< number of loops that enclose the posting node
    const Op *waitedAt = nullptr; ///< null if not yet waited for on the current path
  };
  using Waits = std::vector<std::pair<const Value *, const Op *>>;

  void verifyOps(const Block &block);
  void verifyOp(const Op &op);
  void post(const Value &request);
  void wait(const WaitOp &op);
  void verifyBranches(const IfOp &op);
  Waits walkBranch(const Block &block);
  static Waits without(const Waits &some, const Waits &others);

  Diagnostics &diags_;
  llvm::DenseMap<const Value *, Request> requests_;
  std::vector<const Value *> order_; ///< the visible requests, in source order
  Waits trail_;                      ///< the waits on the current path, in order
  int loopDepth_ = 0;
};

void RequestVerifier::verifyBlock(const Block &block) {
  size_t before = order_.size();
  verifyOps(block);
  for (size_t i = before; i < order_.size(); ++i)
    if (!requests_[order_[i]].waitedAt)
      diags_.error(order_[i]->location)
          << "request " << ref(order_[i]) << " is never waited for; expected one 'wait "
          << ref(order_[i]) << "' in the same block";
  for (size_t i = before; i < order_.size(); ++i)
    requests_.erase(order_[i]);
  order_.resize(before);
}

void RequestVerifier::verifyOps(const Block &block) {
  for (const Op &op : block)
    verifyOp(op);
}

void RequestVerifier::verifyOp(const Op &op) {
  if (const Value *result = resultOf(op); result && result->kind == ValueKind::Request)
    return post(*result);
  if (const auto *group = llvm::dyn_cast<GroupOp>(&op))
    return verifyOps(group->body); // the requests belong to the enclosing block
  if (const auto *wait = llvm::dyn_cast<WaitOp>(&op))
    return this->wait(*wait);
  if (const auto *branch = llvm::dyn_cast<IfOp>(&op))
    return verifyBranches(*branch);
  if (const auto *loop = llvm::dyn_cast<ForOp>(&op)) {
    ++loopDepth_;
    verifyBlock(loop->body);
    --loopDepth_;
  }
}

void RequestVerifier::post(const Value &request) {
  if (requests_.try_emplace(&request, Request{loopDepth_, nullptr}).second)
    order_.push_back(&request);
}

void RequestVerifier::wait(const WaitOp &op) {
  auto found = requests_.find(op.request);
  if (found == requests_.end())
    return; // not a visible request, which is reported elsewhere
  Request &request = found->second;
  if (request.waitedAt) {
    diags_.error(op.location()).note(request.waitedAt->location(), "first waited for here")
        << "request " << ref(op.request) << " is waited for twice";
    return;
  }
  if (request.loopDepth != loopDepth_)
    diags_.error(op.location()).note(op.request->location, "posted here")
        << "request " << ref(op.request)
        << " is waited for in a loop, but was posted outside the loop";
  request.waitedAt = &op;
  trail_.emplace_back(op.request, &op);
}

/// Walks a block as if it were the only branch. Removes the block's waits for outer requests from
/// the trail, and returns them.
RequestVerifier::Waits RequestVerifier::walkBranch(const Block &block) {
  size_t before = trail_.size();
  verifyBlock(block);
  Waits waits;
  for (size_t i = before; i < trail_.size(); ++i) {
    auto found = requests_.find(trail_[i].first);
    if (found == requests_.end())
      continue; // posted within the branch
    found->second.waitedAt = nullptr;
    waits.push_back(trail_[i]);
  }
  trail_.resize(before);
  return waits;
}

void RequestVerifier::verifyBranches(const IfOp &op) {
  Waits thenWaits = walkBranch(op.thenBlock);
  Waits elseWaits = walkBranch(op.elseBlock);
  Waits onlyThen = without(thenWaits, elseWaits);
  Waits onlyElse = without(elseWaits, thenWaits);
  for (const Waits *waits : {&onlyThen, &onlyElse})
    for (const auto &[request, at] : *waits)
      diags_.error(op.location()).note(at->location(), "waited for here")
          << "request " << ref(request) << " is waited for in only one branch of this 'if'";
  // Treat the request as waited for in both branches, so that it causes only one error.
  for (const Waits *waits : {&thenWaits, &onlyElse}) {
    for (const auto &[request, at] : *waits) {
      requests_[request].waitedAt = at;
      trail_.emplace_back(request, at);
    }
  }
}

/// Returns the waits in `some` for requests that have no wait in `others`.
RequestVerifier::Waits RequestVerifier::without(const Waits &some, const Waits &others) {
  llvm::DenseSet<const Value *> excluded;
  for (const auto &[request, at] : others)
    excluded.insert(request);
  Waits rest;
  for (const auto &wait : some)
    if (!excluded.contains(wait.first))
      rest.push_back(wait);
  return rest;
}

} // namespace

void verifyRequests(const Program &program, Diagnostics &diags) {
  RequestVerifier(diags).verifyBlock(program.body());
}

} // namespace braid
