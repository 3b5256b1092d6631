//===- runtime/join_products.cpp - products of a Plan, issued together ------------------------===//

#include "runtime/join_products.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

bool needsProcessor(const Command &command) {
  return command.kind == CommandKind::Matmul || command.kind == CommandKind::Add ||
         (command.kind == CommandKind::Copy && command.endpoint == kNone);
}

Status checkStreams(const Plan &plan) {
  const Command *first = nullptr;
  for (const Command &command : plan.commands) {
    if (!needsProcessor(command))
      continue;
    if (first && command.stream != first->stream)
      return Status(StatusCode::BadInput,
                    fmt::format("--products joined: expected products, sums and copies within the "
                                "rank on one stream, got {} on {} and {} on {}",
                                describeOrigin(plan, first->origin), plan.streams[first->stream],
                                describeOrigin(plan, command.origin),
                                plan.streams[command.stream]));
    first = first ? first : &command;
  }
  return Status::ok();
}

bool differInRowsOnly(const PlanMatmul &a, const PlanMatmul &b) {
  return a.dtype == b.dtype && a.n == b.n && a.k == b.k && a.transposeB == b.transposeB &&
         a.b == b.b && a.bias == b.bias;
}

/// Indices of the commands of one stream from `first` on that can be joined; the last is a matmul.
/// A buffer's end must not come before what moves behind it.
std::vector<uint32_t> findRun(const Plan &plan, uint32_t first) {
  const Command &begin = plan.commands[first];
  std::vector<uint32_t> run = {first};
  size_t upToLastMatmul = 1;
  for (uint32_t i = first + 1; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    if (llvm::any_of(plan.releases, [&](const PlanRelease &r) { return r.beforeCommand == i; }))
      break;
    if (command.stream != begin.stream)
      continue;
    const bool isMatmul = command.kind == CommandKind::Matmul;
    if (!isMatmul && command.kind != CommandKind::Await)
      break;
    if (isMatmul &&
        !differInRowsOnly(plan.matmuls[begin.matmul], plan.matmuls[command.matmul]))
      break;
    run.push_back(i);
    if (isMatmul)
      upToLastMatmul = run.size();
  }
  run.resize(upToLastMatmul);
  return run;
}

/// Behind all that is between them, in the order that they have.
void bringTogether(std::vector<Command> &commands, const std::vector<uint32_t> &run) {
  std::vector<Command> others, moved;
  for (uint32_t i = run.front(); i <= run.back(); ++i)
    (std::binary_search(run.begin(), run.end(), i) ? moved : others).push_back(commands[i]);
  std::copy(moved.begin(), moved.end(),
            std::copy(others.begin(), others.end(), commands.begin() + run.front()));
}

} // namespace

Status joinProducts(Plan &plan) {
  if (Status status = checkStreams(plan); !status.isOk())
    return status;
  plan.joinsProducts = true;
  for (PlanMatmul &product : plan.matmuls)
    product.isJoined = true;
  for (uint32_t i = 0; i < plan.commands.size();) {
    if (plan.commands[i].kind != CommandKind::Matmul) {
      ++i;
      continue;
    }
    const std::vector<uint32_t> run = findRun(plan, i);
    bringTogether(plan.commands, run);
    i = run.back() + 1;
  }
  return Status::ok();
}

uint32_t countJoined(const Plan &plan, uint32_t first) {
  if (!plan.joinsProducts)
    return 1;
  const std::vector<uint32_t> run = findRun(plan, first);
  uint32_t count = 1;
  while (count < run.size() && run[count] == first + count)
    ++count;
  return count;
}

PlanMatmul wholeProduct(const Plan &plan, uint32_t first, uint32_t count) {
  PlanMatmul whole = plan.matmuls[plan.commands[first].matmul];
  for (uint32_t i = first + 1; i < first + count; ++i)
    if (plan.commands[i].kind == CommandKind::Matmul)
      whole.m += plan.matmuls[plan.commands[i].matmul].m;
  return whole;
}

std::vector<PlanMatmul> productsToCost(const Plan &plan) {
  if (!plan.joinsProducts)
    return plan.matmuls;
  std::vector<PlanMatmul> wholes;
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    if (plan.commands[i].kind != CommandKind::Matmul)
      continue;
    const uint32_t count = countJoined(plan, i);
    wholes.push_back(wholeProduct(plan, i, count));
    i += count - 1;
  }
  return wholes;
}

} // namespace braid
