//===- runtime/plan/specialize_transfers.cpp - p2p nodes, groups and waits --------------------===//

#include "ir/failure.h"
#include "runtime/plan/specializer.h"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace braid {

bool Specializer::visitShareMemHandles(const ShareMemHandlesOp &op) {
  channels_.try_emplace(&op.result, static_cast<uint32_t>(channels_.size()));
  return true;
}

bool Specializer::peerOf(const P2POp &op, int64_t &peer) {
  if (!evaluate(op, op.peer, "the peer", peer))
    return false;
  if (peer < 0 || peer >= plan_.ranks)
    return error(op) << "peer " << op.peer->str() << " is " << peer
                     << ", but the mesh has ranks 0 to " << plan_.ranks - 1 << trips();
  if (peer == plan_.rank)
    return error(op) << "peer " << op.peer->str() << " is the rank itself" << trips();
  return true;
}

uint32_t Specializer::addEndpoint(Endpoint endpoint) {
  endpoint.flag = static_cast<uint32_t>(plan_.endpoints.size());
  endpoint.sequence = sequences_[{endpoint.direction, endpoint.peer, endpoint.channel}]++;
  plan_.endpoints.push_back(endpoint);
  return endpoint.flag;
}

/// Adds the endpoint and the request for a transfer that is being posted. An empty transfer has no
/// endpoint on either rank, so the sequence numbers of both ranks still match.
bool Specializer::addEndpoint(const P2POp &op, int64_t peer) {
  auto shared = channels_.find(op.handles);
  if (shared == channels_.end())
    return error(op) << "the handles %" << op.handles->name << " have not been shared" << trips();
  Request request{.stream = current_};
  if (op.gemm && !gemmOf(op, request.gemm.emplace()))
    return false;
  if (const View &tensor = view(op.tensor); !tensor.isEmpty())
    request.endpoint = addEndpoint({.direction = op.direction,
                                    .protocol = op.protocol(),
                                    .peer = peer,
                                    .channel = shared->second,
                                    .range = tensor.range(),
                                    .dtype = tensor.dtype,
                                    .origin = originOf(op)});
  requests_[&op.result] = request;
  return true;
}

bool Specializer::visitP2P(const P2POp &op) {
  if (!post(op))
    return false;
  if (!plan_.mayHaveMessages())
    endGroup();
  return true;
}

/// Posts a transfer. The passive side signals readiness immediately, a message is added to the
/// current group, and the active side of a copy is issued after that group.
bool Specializer::post(const P2POp &op) {
  int64_t peer = 0;
  if (!peerOf(op, peer))
    return false;
  if (plan_.sendsMessagesTo(peer))
    return postMessage(op, peer);
  if (!addEndpoint(op, peer))
    return false;
  const Request &request = requests_[&op.result];
  if (request.endpoint == kNone)
    return true;
  if (isPassive(op.direction, op.protocol()))
    append(commandOf(CommandKind::Signal, request.endpoint));
  else
    delayed_.push_back({request, &op.result});
  return true;
}

/// Issues ready signals first, so that none of them is queued after a command that waits for a
/// peer. Then issues all messages as one group, then all awaits of ready signals, so that the
/// copies run back to back. plan.h explains this order.
bool Specializer::visitGroup(const GroupOp &op) {
  endGroup();
  for (const Op &inner : op.body) {
    const auto *p2p = llvm::dyn_cast<P2POp>(&inner);
    if (!p2p) // checked by the verifier, which may not have run
      return error(inner) << "expected only 'p2p' in 'group'";
    if (!post(*p2p))
      return false;
  }
  endGroup(/*awaitsAllFirst=*/true);
  return true;
}

//===- Messages -------------------------------------------------------------------------------===//

bool Specializer::postMessage(const P2POp &op, int64_t peer) {
  if (op.gemm) {
    const std::string why =
        plan_.isSameHost(peer)
            ? "this backend sends messages"
            : fmt::format("ranks {} and {} are on different hosts", plan_.rank, peer);
    unsupported_ =
        unsupported("{}: sending a computed value requires memory that peers can access, but {}",
                    diags_.place(op.location()), why);
    return false;
  }
  requests_[&op.result] = {.stream = current_};
  if (const View &tensor = view(op.tensor); !tensor.isEmpty())
    posted_.push_back(
        {{op.direction, peer, tensor.range(), tensor.dtype, originOf(op)}, &op.result, current_});
  return true;
}

/// Issues the posted messages as a group, then the delayed active sides of transfers.
void Specializer::endGroup(bool awaitsAllFirst) {
  if (posted_.empty() && delayed_.empty())
    return;
  const std::vector<Posted> posted = std::exchange(posted_, {});
  std::vector<Delayed> delayed = std::exchange(delayed_, {});
  const uint32_t current = current_;
  if (!posted.empty())
    issueGroup(posted);
  for (const Delayed &each : delayed) {
    current_ = each.request.stream;
    emit(commandOf(CommandKind::Await, each.request.endpoint));
    if (!awaitsAllFirst)
      moveAndSignal(each);
  }
  for (const Delayed &each : delayed)
    if (current_ = each.request.stream; awaitsAllFirst)
      moveAndSignal(each);
  current_ = current;
}

/// Issues the group on the last post's stream, after all work on the streams of the other posts.
void Specializer::issueGroup(llvm::ArrayRef<Posted> posted) {
  const uint32_t current = std::exchange(current_, posted.back().stream);
  const uint32_t origin = posted.back().message.origin;
  std::set<uint32_t> others;
  PlanGroup group;
  for (const Posted &each : posted) {
    group.push_back(each.message);
    if (each.stream != current_ && others.insert(each.stream).second)
      emit({.kind = CommandKind::WaitEvent, .origin = origin, .event = eventBehind(each.stream)});
  }
  const auto number = static_cast<uint32_t>(plan_.groups.size());
  plan_.groups.push_back(std::move(group));
  emitInOrder({.kind = CommandKind::Group, .origin = origin, .group = number});
  for (const Posted &each : posted)
    if (auto request = requests_.find(each.request); request != requests_.end())
      request->second = {.stream = current_, .event = lastMessages_};
  current_ = current;
}

/// Issues a group or collective after the previous one, because all ranks must use the same order.
void Specializer::emitInOrder(Command command) {
  if (lastMessages_ != kNone && messageStream_ != current_)
    emit({.kind = CommandKind::WaitEvent, .origin = command.origin, .event = lastMessages_});
  emit(command);
  lastMessages_ = eventBehind(current_);
  messageStream_ = current_;
}

//===- Peer memory ----------------------------------------------------------------------------===//

bool Specializer::isPassive(Direction direction, Protocol protocol) {
  return (protocol == Protocol::Get) == (direction == Direction::Send);
}

Command Specializer::commandOf(CommandKind kind, uint32_t endpoint) const {
  return {.kind = kind, .origin = plan_.endpoints[endpoint].origin, .endpoint = endpoint};
}

/// Issues the active side: a copy or a GEMM on the current stream, and a signal to the peer.
void Specializer::moveAndSignal(const Delayed &delayed) {
  Request request = delayed.request;
  const Command signal = commandOf(CommandKind::Signal, request.endpoint);
  // The signal publishes the data that the GEMM has written to peer memory. A command that waits
  // for the send may signal other ranks, so it must also wait for this signal.
  if (request.gemm) {
    emitGemm(*request.gemm, signal.origin, request.endpoint);
    emit(signal);
    request.event = eventBehind(current_);
  } else {
    copy(request.endpoint);
    request.event = eventBehind(current_);
    emit(signal);
  }
  if (auto known = requests_.find(delayed.name);
      known != requests_.end() && known->second.endpoint == request.endpoint)
    known->second = request;
}

void Specializer::copy(uint32_t number) {
  const Endpoint &endpoint = plan_.endpoints[number];
  const Range peerSide{kPeerBuffer, 0, endpoint.range.bytes};
  const bool pulls = endpoint.direction == Direction::Receive;
  Command copy = commandOf(CommandKind::Copy, number);
  copy.dst = pulls ? endpoint.range : peerSide;
  copy.src = pulls ? peerSide : endpoint.range;
  emit(copy);
}

bool Specializer::visitWait(const WaitOp &op) {
  endGroup();
  auto found = requests_.find(op.request);
  if (found == requests_.end())
    return error(op) << "%" << op.request->name << " has already been waited for" << trips();
  const Request request = found->second;
  requests_.erase(found);
  if (request.event != kNone) // on the same stream, stream order suffices
    return request.stream == current_ ||
           emit({.kind = CommandKind::WaitEvent, .origin = originOf(op), .event = request.event});
  if (request.endpoint == kNone)
    return true;
  return emit({.kind = CommandKind::Await, .origin = originOf(op), .endpoint = request.endpoint});
}

} // namespace braid
