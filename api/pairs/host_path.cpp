//===- api/pairs/host_path.cpp - blocks through memory of the host ----------------------------===//

#include "api/pairs/host_path.h"

#include "ir/failure.h"

#include <algorithm>
#include <iterator>

namespace braid {
namespace {

constexpr int64_t kParts = 2; ///< on their way at once
// An area: free[0], free[1], full[0], full[1], then the parts.
constexpr int64_t kFree = 0, kFull = kParts * kFlagStride, kData = 4096;

// What is issued for a part, in the Plan that names it: six commands for each peer.
enum : uint32_t { kAwaitFree, kWrite, kSignalFull, kAwaitFull, kRead, kSignalFree };
constexpr CommandKind kKinds[] = {CommandKind::Await, CommandKind::Copy, CommandKind::Signal,
                                  CommandKind::Await, CommandKind::Copy, CommandKind::Signal};

/// A Plan that is never run: so that whoever looks at a command sees what it belongs to.
Plan namingPlan(int64_t rank, int64_t ranks, uint32_t firstCommand) {
  Plan plan;
  plan.program = "through_host";
  plan.rank = rank;
  plan.ranks = ranks;
  plan.firstCommand = firstCommand;
  plan.streams.resize(static_cast<size_t>(2 * ranks));
  plan.sites = {{Location(), "a block through memory of the host"}};
  plan.origins = {{0, 0, 0}};
  for (Direction direction : {Direction::Send, Direction::Receive})
    for (int64_t peer = 0; peer < ranks; ++peer) {
      Endpoint endpoint{};
      endpoint.direction = direction;
      endpoint.protocol = Protocol::Put;
      endpoint.peer = peer;
      endpoint.dtype = DType::F32;
      plan.endpoints.push_back(endpoint);
    }
  for (int64_t peer = 0; peer < ranks; ++peer)
    for (uint32_t kind = 0; kind < std::size(kKinds); ++kind) {
      Command command{};
      command.kind = kKinds[kind];
      if (command.kind == CommandKind::Copy)
        command.endpoint = static_cast<uint32_t>(kind == kWrite ? peer : ranks + peer);
      plan.commands.push_back(command);
    }
  return plan;
}

char *flag(char *area, int64_t first, int64_t number) {
  return area + first + number % kParts * kFlagStride;
}

} // namespace

HostPath::HostPath(Cluster &cluster, int64_t rank, llvm::ArrayRef<Plan> plans)
    : device_(cluster.device(rank)), rank_(rank), ranks_(cluster.ranks()),
      partBytes_(int64_t(ranks_ == 2 ? 4 : 1) << 20), plans_(plans),
      bases_(static_cast<size_t>(ranks_)) {}

std::vector<Plan> HostPath::namingPlans(int64_t ranks, uint32_t firstCommand) {
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < ranks; ++rank)
    plans.push_back(namingPlan(rank, ranks, firstCommand));
  return plans;
}

Result<std::unique_ptr<HostPath>> HostPath::create(Cluster &cluster, int64_t rank,
                                                   llvm::ArrayRef<Plan> plans) {
  std::unique_ptr<HostPath> path(new HostPath(cluster, rank, plans));
  BRAID_TRY(path->open(cluster.control(rank)));
  if (cluster.hosted() == 1)
    cluster.setPlans(plans);
  return path;
}

int64_t HostPath::areaBytes() const { return kData + kParts * partBytes_; }

char *HostPath::area(int64_t owner, int64_t peer) const {
  return bases_[static_cast<size_t>(owner)] + peer * areaBytes();
}

Status HostPath::open(ControlPlane &control) {
  PeerMemory &memory = *device_.peerMemory();
  BRAID_TRY(device_.reserveStreams(static_cast<uint32_t>(2 * ranks_)));
  void *own = BRAID_TRY(device_.allocate(ArenaKind::Flags, ranks_ * areaBytes()));
  const std::string handle = BRAID_TRY(memory.exportMemory(own));
  const std::vector<std::string> handles = BRAID_TRY(control.allGather(handle));
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    void *base = own;
    if (rank != rank_)
      base = BRAID_TRY(memory.open(rank, handles[static_cast<size_t>(rank)]));
    bases_[static_cast<size_t>(rank)] = static_cast<char *>(base);
  }
  return device_.registerPlan(plan(), {});
}

void HostPath::issue(const Moves &moves, const BlockShape &shape, int64_t count, char *mine,
                     char *theirs) {
  const int64_t parts = count * partsOf(shape.bytes);
  if (moves.kind == Moves::Kind::ThereAndBack) {
    issueTurns(moves, shape, count, mine, theirs);
    epoch_ += 2 * parts;
    return;
  }
  const bool isTogether = moves.kind == Moves::Kind::Together;
  auto streamOf = [&](int64_t shift, int64_t base) {
    return isTogether ? static_cast<uint32_t>(base + shift) : 0;
  };
  std::vector<Blocks> received, sent;
  for (const Moves::End &end : moves.receivesOf(rank_, ranks_))
    received.push_back({streamOf((rank_ + ranks_ - end.peer) % ranks_, ranks_), end.peer, shape,
                        epoch_ + 1, theirs + end.row * shape.allBytes()});
  for (const Moves::End &end : moves.sendsOf(rank_, ranks_))
    sent.push_back({streamOf((end.peer + ranks_ - rank_) % ranks_, 0), end.peer, shape, epoch_ + 1,
                    mine + end.row * shape.allBytes()});
  issueParts(received, sent, parts);
  epoch_ += parts;
}

int64_t HostPath::mostAhead(const BlockShape &shape) const {
  // An await and a signal are two or three operations on memory each; there and back is twice.
  constexpr int64_t kOfPart = 12;
  constexpr int64_t kMostOperations = 512;
  return kMostOperations / (partsOf(shape.bytes) * kOfPart);
}

/// Part by part in all directions: two ranks that first issued all that they receive would wait for
/// each other (mostAhead()).
void HostPath::issueParts(llvm::ArrayRef<Blocks> received, llvm::ArrayRef<Blocks> sent,
                          int64_t parts) {
  for (int64_t number = 0; number < parts; ++number) {
    for (const Blocks &blocks : received)
      receive(blocks, number);
    for (const Blocks &blocks : sent)
      send(blocks, number);
  }
  for (const Blocks &blocks : sent)
    finishSending(blocks, parts);
}

/// Block by block: one to the destination, one back.
void HostPath::issueTurns(const Moves &moves, const BlockShape &shape, int64_t count, char *mine,
                          char *theirs) {
  const int64_t parts = partsOf(shape.bytes);
  for (int64_t turn = 0; turn < count; ++turn) {
    const int64_t there = epoch_ + 1 + 2 * turn * parts, back = there + parts;
    const int64_t at = turn % shape.slots * shape.stride;
    if (rank_ == moves.source) {
      issueParts({}, {{0, moves.destination, shape, there, mine + at}}, parts);
      issueParts({{0, moves.destination, shape, back, theirs + at}}, {}, parts);
    } else if (rank_ == moves.destination) {
      issueParts({{0, moves.source, shape, there, theirs + at}}, {}, parts);
      issueParts({}, {{0, moves.source, shape, back, mine + at}}, parts);
    }
  }
}

void HostPath::send(const Blocks &blocks, int64_t number) {
  char *own = area(rank_, blocks.peer), *peer = area(blocks.peer, rank_);
  const BlockShape &shape = blocks.shape;
  const int64_t ofBlock = partsOf(shape.bytes);
  const int64_t at = number % ofBlock * partBytes_, slot = number / ofBlock % shape.slots;
  if (number >= kParts)
    one(blocks, kAwaitFree, number - kParts, flag(own, kFree, number), nullptr, 0);
  one(blocks, kWrite, number, own + kData + number % kParts * partBytes_,
      blocks.row + slot * shape.stride + at, std::min(partBytes_, shape.bytes - at));
  one(blocks, kSignalFull, number, flag(peer, kFull, number), nullptr, 0);
}

/// Ends when the last parts have been read, so that a time until then is that of whole transfers.
void HostPath::finishSending(const Blocks &blocks, int64_t parts) {
  for (int64_t number = std::max<int64_t>(parts - kParts, 0); number < parts; ++number)
    one(blocks, kAwaitFree, number, flag(area(rank_, blocks.peer), kFree, number), nullptr, 0);
}

void HostPath::receive(const Blocks &blocks, int64_t number) {
  char *own = area(rank_, blocks.peer), *peer = area(blocks.peer, rank_);
  const BlockShape &shape = blocks.shape;
  const int64_t ofBlock = partsOf(shape.bytes);
  const int64_t at = number % ofBlock * partBytes_, slot = number / ofBlock % shape.slots;
  one(blocks, kAwaitFull, number, flag(own, kFull, number), nullptr, 0);
  one(blocks, kRead, number, blocks.row + slot * shape.stride + at,
      peer + kData + number % kParts * partBytes_, std::min(partBytes_, shape.bytes - at));
  one(blocks, kSignalFree, number, flag(peer, kFree, number), nullptr, 0);
}

/// `dst` is the flag, of what is no copy.
void HostPath::one(const Blocks &blocks, uint32_t kind, int64_t number, void *dst, const void *src,
                   int64_t bytes) {
  const bool isCopy = kKinds[kind] == CommandKind::Copy;
  const auto command =
      static_cast<uint32_t>(blocks.peer * static_cast<int64_t>(std::size(kKinds)) + kind);
  const BatchedCommand step{kKinds[kind],           command, isCopy ? nullptr : dst,
                            isCopy ? dst : nullptr, src,     bytes};
  const Tag tag{&plan(), command, static_cast<uint32_t>(blocks.first + number)};
  device_.peerMemory()->issueBatch(blocks.stream, tag, step, /*areDisjoint=*/true, {});
}

} // namespace braid
