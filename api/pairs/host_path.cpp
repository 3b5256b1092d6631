//===- api/pairs/host_path.cpp - blocks through memory of the host ----------------------------===//

#include "api/pairs/host_path.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kPart = int64_t(4) << 20;
constexpr int64_t kParts = 2; ///< on their way at once
// An area: free[0], free[1], full[0], full[1], then the parts.
constexpr int64_t kFree = 0, kFull = kParts * kFlagStride, kData = 4096;
constexpr int64_t kAreaBytes = kData + kParts * kPart;

// Commands of the Plan that names them.
enum : uint32_t { kAwaitFree, kWrite, kSignalFull, kAwaitFull, kRead, kSignalFree };

int64_t partsOf(int64_t bytes) { return (bytes + kPart - 1) / kPart; }
char *flag(char *area, int64_t first, int64_t slot) { return area + first + slot * kFlagStride; }
char *part(char *area, int64_t slot) { return area + kData + slot * kPart; }

/// A Plan that is never run: so that whoever looks at a command sees what it belongs to. Endpoint 0
/// sends, endpoint 1 receives.
Plan namingPlan(int64_t rank, int64_t ranks, uint32_t firstCommand) {
  constexpr CommandKind kKinds[] = {CommandKind::Await, CommandKind::Copy, CommandKind::Signal,
                                    CommandKind::Await, CommandKind::Copy, CommandKind::Signal};
  static_assert(std::size(kKinds) == HostPath::kCommands);
  Plan plan;
  plan.program = "through_host";
  plan.rank = rank;
  plan.ranks = ranks;
  plan.firstCommand = firstCommand;
  plan.streams = {"the caller's", "stream(1)"};
  plan.sites = {{Location(), "a block through memory of the host"}};
  plan.origins = {{0, 0, 0}};
  for (CommandKind kind : kKinds) {
    Command command{};
    command.kind = kind;
    plan.commands.push_back(command);
  }
  for (Direction direction : {Direction::Send, Direction::Receive}) {
    Endpoint endpoint{};
    endpoint.direction = direction;
    endpoint.protocol = Protocol::Put;
    endpoint.dtype = DType::F32;
    plan.endpoints.push_back(endpoint);
  }
  plan.commands[kWrite].endpoint = 0;
  plan.commands[kRead].endpoint = 1;
  return plan;
}

} // namespace

HostPath::HostPath(Device &device, int64_t rank, int64_t ranks)
    : device_(device), rank_(rank), areas_(static_cast<size_t>(ranks)) {}

Result<std::unique_ptr<HostPath>> HostPath::create(Cluster &cluster, int64_t rank,
                                                   uint32_t firstCommand) {
  std::unique_ptr<HostPath> path(new HostPath(cluster.device(rank), rank, cluster.ranks()));
  for (int64_t each = 0; each < cluster.ranks(); ++each)
    path->plans_.push_back(namingPlan(each, cluster.ranks(), firstCommand));
  BRAID_TRY(path->open(cluster.control(rank)));
  cluster.setPlans(path->plans_);
  return path;
}

Status HostPath::open(ControlPlane &control) {
  PeerMemory &memory = *device_.peerMemory();
  BRAID_TRY(device_.reserveStreams(2));
  void *own = BRAID_TRY(device_.allocate(ArenaKind::Flags, kAreaBytes));
  const std::string handle = BRAID_TRY(memory.exportMemory(own));
  const std::vector<std::string> handles = BRAID_TRY(control.allGather(handle));
  for (size_t rank = 0; rank < handles.size(); ++rank) {
    void *area = own;
    if (static_cast<int64_t>(rank) != rank_)
      area = BRAID_TRY(memory.open(static_cast<int64_t>(rank), handles[rank]));
    areas_[rank] = static_cast<char *>(area);
  }
  return device_.registerPlan(plans_[static_cast<size_t>(rank_)], {});
}

void HostPath::issue(const Turn &turn, const BlockShape &shape, int64_t count, const char *mine,
                     char *theirs) {
  using Order = Turn::Order;
  Plan &named = plans_[static_cast<size_t>(rank_)];
  named.endpoints[0].peer = turn.to.value_or(rank_);
  named.endpoints[1].peer = turn.from.value_or(rank_);
  const int64_t first = epoch_ + 1;
  const uint32_t apart = turn.order == Order::AtOnce ? 1 : 0;
  // One after the other: block by block, there and back.
  const int64_t atOnce = turn.order == Order::AtOnce ? count : 1;
  for (int64_t done = 0; done < count; done += atOnce) {
    const int64_t value = first + 2 * done * partsOf(shape.bytes);
    const int64_t answer = value + (apart == 0 ? atOnce * partsOf(shape.bytes) : 0);
    const bool receivesFirst = turn.order == Order::ReceiveFirst;
    if (turn.from && receivesFirst)
      receive(0, *turn.from, shape, value, atOnce, theirs + done % shape.slots * shape.stride);
    if (turn.to)
      send(0, *turn.to, shape, receivesFirst ? answer : value, atOnce,
           mine + done % shape.slots * shape.stride);
    if (turn.from && !receivesFirst)
      receive(apart, *turn.from, shape, answer, atOnce,
              theirs + done % shape.slots * shape.stride);
  }
  epoch_ += static_cast<uint32_t>(2 * count * partsOf(shape.bytes));
}

/// Ends when the last parts have been read, so that a time until then is that of whole transfers.
void HostPath::send(uint32_t stream, int64_t to, const BlockShape &shape, int64_t first,
                    int64_t count, const char *mine) {
  char *own = areas_[static_cast<size_t>(rank_)], *peer = areas_[static_cast<size_t>(to)];
  const int64_t ofBlock = partsOf(shape.bytes), all = count * ofBlock;
  auto awaitFree = [&](int64_t number) {
    one(stream, kAwaitFree, static_cast<uint32_t>(first + number),
        {CommandKind::Await, 0, flag(own, kFree, number % kParts), nullptr, nullptr, 0});
  };
  for (int64_t number = 0; number < all; ++number) {
    const auto value = static_cast<uint32_t>(first + number);
    const int64_t at = number % ofBlock * kPart, slot = number / ofBlock % shape.slots;
    if (number >= kParts)
      awaitFree(number - kParts);
    one(stream, kWrite, value,
        {CommandKind::Copy, 0, nullptr, part(own, number % kParts), mine + slot * shape.stride + at,
         std::min(kPart, shape.bytes - at)});
    one(stream, kSignalFull, value,
        {CommandKind::Signal, 0, flag(peer, kFull, number % kParts), nullptr, nullptr, 0});
  }
  for (int64_t number = std::max<int64_t>(all - kParts, 0); number < all; ++number)
    awaitFree(number);
}

void HostPath::receive(uint32_t stream, int64_t from, const BlockShape &shape, int64_t first,
                       int64_t count, char *theirs) {
  char *own = areas_[static_cast<size_t>(rank_)], *peer = areas_[static_cast<size_t>(from)];
  const int64_t ofBlock = partsOf(shape.bytes), all = count * ofBlock;
  for (int64_t number = 0; number < all; ++number) {
    const auto value = static_cast<uint32_t>(first + number);
    const int64_t at = number % ofBlock * kPart, slot = number / ofBlock % shape.slots;
    one(stream, kAwaitFull, value,
        {CommandKind::Await, 0, flag(own, kFull, number % kParts), nullptr, nullptr, 0});
    one(stream, kRead, value,
        {CommandKind::Copy, 0, nullptr, theirs + slot * shape.stride + at,
         part(peer, number % kParts), std::min(kPart, shape.bytes - at)});
    one(stream, kSignalFree, value,
        {CommandKind::Signal, 0, flag(peer, kFree, number % kParts), nullptr, nullptr, 0});
  }
}

void HostPath::one(uint32_t stream, uint32_t command, uint32_t value, const BatchedCommand &step) {
  BatchedCommand named = step;
  named.command = command;
  const Tag tag{&plans_[static_cast<size_t>(rank_)], command, value};
  device_.peerMemory()->issueBatch(stream, tag, named, /*areDisjoint=*/true, {});
}

} // namespace braid
