//===- runtime/plan/specialize_collectives.cpp - collectives, whole or expanded ---------------===//
//
// A collective over peer memory, and therefore within one host, is an exchange of parts. Each
// member signals that its buffers are ready or that its parts may be read, copies parts, and awaits
// the other members' copies. All of this happens on one stream, so the collective is complete when
// the stream continues. Sums add members' parts in team order. In an allreduce, each member sums
// one block before all blocks are distributed, so results are bitwise identical on all members.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/plan/specializer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace braid {

bool Specializer::visitCollective(const CollectiveOp &op) {
  PlanCollective collective{};
  if (!collectiveOf(op, collective))
    return false;
  Request &request = requests_[&op.result] = {.stream = current_};
  const bool isWhole = staysWhole(collective);
  // All ranks execute this code, including ranks outside the team.
  if (!isWhole)
    channels_.try_emplace(nullptr, static_cast<uint32_t>(channels_.size()));
  else if (!llvm::is_contained(plan_.teams, collective.team))
    plan_.teams.push_back(collective.team);
  const bool isMember = llvm::is_contained(collective.team, plan_.rank);
  if (!isMember || (collective.src.bytes == 0 && collective.dst.bytes == 0))
    return true;
  if (isWhole)
    emitWhole(op, std::move(collective));
  else if (!exchange(op, collective))
    return false;
  request.event = eventBehind(current_);
  return true;
}

void Specializer::emitWhole(const CollectiveOp &op, PlanCollective collective) {
  const auto number = static_cast<uint32_t>(plan_.collectives.size());
  plan_.collectives.push_back(std::move(collective));
  emitInOrder({.kind = CommandKind::Collective, .origin = originOf(op), .collective = number});
}

bool Specializer::staysWhole(const PlanCollective &collective) const {
  const int64_t host = plan_.hostOf(collective.team.front());
  return plan_.transport == Transport::Messages ||
         llvm::any_of(collective.team, [&](int64_t rank) { return plan_.hostOf(rank) != host; });
}

bool Specializer::collectiveOf(const CollectiveOp &op, PlanCollective &collective) {
  const View &dst = view(op.dst), &src = view(op.src);
  collective = {op.collective, op.reduction, src.dtype, {}, -1, dst.range(), src.range()};
  for (const Scalar *member : op.team)
    collective.team.push_back(member->value());
  if (op.team.empty())
    for (int64_t rank = 0; rank < plan_.ranks; ++rank)
      collective.team.push_back(rank);
  if (op.root) {
    if (!evaluate(op, op.root, "the root", collective.root))
      return false;
    if (!llvm::is_contained(collective.team, collective.root))
      return error(op) << "the root " << op.root->str() << " is " << collective.root
                       << ", expected a member of team ["
                       << fmt::format("{}", fmt::join(collective.team, ", ")) << "]" << trips();
  }
  return checkDistinct(op, dst, {&src}) && checkCounts(op, collective);
}

/// Checks that the sizes of dst and src match, and that the team evenly divides distributed data.
bool Specializer::checkCounts(const CollectiveOp &op, const PlanCollective &collective) {
  const View &dst = view(op.dst), &src = view(op.src);
  const int64_t members = collective.members();
  const CollectiveRow &row = rowOf(op.collective);
  const bool gathers = row.splitsDst() && !row.splitsSrc();
  const bool scatters = row.splitsSrc() && !row.splitsDst();
  if (src.bytes() * (gathers ? members : 1) != dst.bytes() * (scatters ? members : 1))
    return error(op) << name(op.collective).str() << " of " << str(src) << " into " << str(dst)
                     << " among " << members << " ranks: expected the destination to have "
                     << (gathers    ? std::to_string(members) + " times as many elements as"
                         : scatters ? "1/" + std::to_string(members) + " as many elements as"
                                    : "as many elements as")
                     << " the source" << trips();
  if (row.splitsSrc() && row.splitsDst() && src.bytes() / sizeOf(src.dtype) % members != 0)
    return error(op) << name(op.collective).str() << " of " << str(src) << " among " << members
                     << " ranks: expected the same number of elements for each rank" << trips();
  return true;
}

//===- Over peer memory -----------------------------------------------------------------------===//

/// Sets `range` to scratch memory that peers can access. Each stream has separate scratch memory,
/// so collectives that share scratch memory run one after another.
bool Specializer::scratch(const CollectiveOp &op, llvm::StringRef name, int64_t bytes,
                          Range &range) {
  auto [entry, isNew] = scratch_.try_emplace({name.str(), current_}, 0);
  if (isNew || plan_.buffers[entry->second].bytes < bytes) {
    const int64_t offset = symmetric_.allocate(bytes, current_);
    if (offset < 0)
      return error(op) << "the buffers of a rank exceed a 64-bit address space";
    entry->second = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({BufferKind::Symmetric, bytes, offset, name.str()});
  }
  range = {entry->second, 0, bytes};
  return true;
}

bool Specializer::exchange(const CollectiveOp &op, const PlanCollective &collective) {
  if (collective.reduction && *collective.reduction != ReductionOperator::Sum) {
    unsupported_ = unsupported("{}: collective {} {} requires a backend that sends messages; over "
                               "peer memory, only sums are available",
                               diags_.place(op.location()), name(op.collective).str(),
                               name(*collective.reduction).str());
    return false;
  }
  if (!rowOf(op.collective).adds)
    return moveParts(op, collective);
  if (op.collective == CollectiveKind::AllReduce)
    return sumAndGather(op, collective);
  return sumParts(op, collective, collective.dst.bytes, collective.dst);
}

bool Specializer::moveParts(const CollectiveOp &op, PlanCollective collective) {
  const Protocol protocol = isSymmetric(collective.dst) ? Protocol::Put : Protocol::Get;
  if (protocol == Protocol::Get && !isSymmetric(collective.src)) {
    const Range src = collective.src;
    if (!scratch(op, "collective_source", src.bytes, collective.src))
      return false;
    if (rowOf(collective.kind).root != CollectiveRow::Root::Sends || plan_.rank == collective.root)
      copyHere(op, collective.src, src);
  }
  exchangeParts(op, partsOf(collective, plan_.rank), protocol);
  return true;
}

/// Receives `bytes` bytes from each member and sums these parts, on every member or only on the
/// root.
bool Specializer::sumParts(const CollectiveOp &op, const PlanCollective &collective, int64_t bytes,
                           Range sum) {
  const bool hasRoot = collective.root >= 0;
  const int64_t members = collective.members();
  Range all;
  if (!scratch(op, "collective_parts", members * bytes, all))
    return false;
  auto sent = [&](int64_t member) {
    const int64_t begin = hasRoot ? 0 : std::min(member * bytes, collective.src.bytes);
    return cut(collective.src, begin, std::min(bytes, collective.src.bytes - begin));
  };
  auto received = [&](int64_t member) { return cut(all, member * bytes, sum.bytes); };
  exchangeParts(op, partsOf(collective, plan_.rank, sent, received), Protocol::Put);
  if ((hasRoot && plan_.rank != collective.root) || sum.bytes == 0)
    return true;
  all.bytes = (members - 1) * bytes + sum.bytes;
  const DType dtype = collective.dtype;
  return emitSum({dtype, dtype, members, bytes, sum, all, Range{}, dtype}, originOf(op));
}

/// Implements an allreduce, in which member m sums block m. Only the last block may be smaller.
bool Specializer::sumAndGather(const CollectiveOp &op, const PlanCollective &collective) {
  const int64_t size = sizeOf(collective.dtype), members = collective.members();
  const int64_t all = collective.dst.bytes;
  const int64_t bytes = (all / size + members - 1) / members * size;
  auto block = [&](int64_t member) {
    const int64_t begin = std::min(member * bytes, all);
    return cut(collective.dst, begin, std::min(bytes, all - begin));
  };
  Range sum;
  if (!scratch(op, "collective_sums", bytes, sum))
    return false;
  sum.bytes = block(memberOf(collective, plan_.rank)).bytes;
  if (!sumParts(op, collective, bytes, sum))
    return false;
  exchangeParts(op,
                partsOf(
                    collective, plan_.rank, [&](int64_t) { return sum; }, block),
                Protocol::Get);
  return true;
}

bool Specializer::isSymmetric(const Range &range) const {
  return plan_.buffers[range.buffer].kind == BufferKind::Symmetric;
}

void Specializer::copyHere(const CollectiveOp &op, Range dst, Range src) {
  if (dst.bytes > 0)
    emit({.kind = CommandKind::Copy, .origin = originOf(op), .dst = dst, .src = src});
}

/// Copies the local part, which comes first in `parts`. Then the passive sides signal readiness,
/// the active sides copy, and all sides wait for completion.
void Specializer::exchangeParts(const CollectiveOp &op, llvm::ArrayRef<CollectivePart> parts,
                                Protocol protocol) {
  endGroup();
  if (const CollectivePart &own = parts.front(); own.send.bytes > 0)
    copyHere(op, own.receive, own.send);
  std::vector<uint32_t> passive;
  for (const CollectivePart &part : parts.drop_front())
    for (Direction direction : {Direction::Send, Direction::Receive}) {
      const Range &range = direction == Direction::Send ? part.send : part.receive;
      if (range.bytes == 0)
        continue;
      const uint32_t endpoint = addEndpoint({.direction = direction,
                                             .protocol = protocol,
                                             .peer = part.peer,
                                             .channel = channels_.find(nullptr)->second,
                                             .range = range,
                                             .dtype = view(op.src).dtype,
                                             .origin = originOf(op)});
      if (isPassive(direction, protocol)) {
        passive.push_back(endpoint);
        append(commandOf(CommandKind::Signal, endpoint));
      } else {
        delayed_.push_back({{.endpoint = endpoint, .stream = current_}, nullptr});
      }
    }
  endGroup(/*awaitsAllFirst=*/true);
  for (uint32_t endpoint : passive)
    emit(commandOf(CommandKind::Await, endpoint));
}

} // namespace braid
