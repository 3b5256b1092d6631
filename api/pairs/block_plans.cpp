//===- api/pairs/block_plans.cpp - programs that move blocks from one rank to the other -------===//

#include "api/pairs/block_plans.h"

#include "api/compile/compile.h"
#include "api/compile/plans.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

bool isGet(Path path) { return path == Path::GetEngine || path == Path::GetKernel; }

/// Returns the source text of a send or receive, followed by its wait. `name` names the request.
std::string transfer(const char *name, bool isSend, int64_t peer) {
  return fmt::format("      %{0} = p2p {1} via %h\n      wait %{0}\n", name,
                     isSend ? fmt::format("send %x to {}", peer)
                            : fmt::format("recv %y from {}", peer));
}

std::string programText(const BlockTransfers &transfers) {
  const int64_t source = transfers.source, destination = 1 - source;
  std::string there = transfer("s", true, destination), back = transfer("r", false, source);
  if (transfers.andBack) {
    there += transfer("t", false, destination);
    back += transfer("u", true, source);
  }
  return fmt::format("program @blocks mesh [0 .. 2) () -> () {{\n"
                     "  %all = allocate symmetric f32[2, {slots}, {length}]\n"
                     "  %h = share_mem_handles {protocol} %all\n"
                     "  %sent = select %all[0]\n"
                     "  %received = select %all[1]\n"
                     "  for %i in 0 .. {count} {{\n"
                     "    %x = select %sent[%i mod {slots}]\n"
                     "    %y = select %received[%i mod {slots}]\n"
                     "    if rank == {source} {{\n{there}    }}\n"
                     "    if rank == {destination} {{\n{back}    }}\n"
                     "  }}\n}}\n",
                     fmt::arg("slots", transfers.slots), fmt::arg("length", transfers.bytes / 4),
                     fmt::arg("protocol", isGet(transfers.path) ? "get" : "put"),
                     fmt::arg("count", transfers.count), fmt::arg("source", source),
                     fmt::arg("destination", destination), fmt::arg("there", there),
                     fmt::arg("back", back));
}

/// Returns true for a ready signal or its await, false for a completion signal or its await.
bool isReady(const Endpoint &endpoint, CommandKind kind) {
  const bool copies =
      (endpoint.protocol == Protocol::Put) == (endpoint.direction == Direction::Send);
  return copies == (kind == CommandKind::Await);
}

/// Returns true if a signal must be kept. One-way runs keep the first ready signal and the last
/// completion. In round trips, puts need completions and gets need ready signals. The order of the
/// round trips makes other signals redundant, except that the first put must wait for the peer.
bool isKept(const BlockTransfers &transfers, int64_t rank, const Endpoint &endpoint, bool ready) {
  const auto last = static_cast<uint32_t>(transfers.count - 1);
  if (!transfers.andBack)
    return endpoint.sequence == (ready ? 0 : last);
  if (isGet(transfers.path))
    return ready;
  const Direction there = rank == transfers.source ? Direction::Send : Direction::Receive;
  return !ready || (endpoint.sequence == 0 && endpoint.direction == there);
}

void dropSignals(Plan &plan, const BlockTransfers &transfers) {
  llvm::erase_if(plan.commands, [&](const Command &command) {
    if (command.kind != CommandKind::Signal && command.kind != CommandKind::Await)
      return false;
    const Endpoint &endpoint = plan.endpoints[command.endpoint];
    return !isKept(transfers, plan.rank, endpoint, isReady(endpoint, command.kind));
  });
}

} // namespace

Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers) {
  const Transport transport =
      transfers.path == Path::Messages ? Transport::Messages : Transport::PeerMemory;
  std::unique_ptr<Source> source = parseSource("blocks", programText(transfers));
  const Compiled compiled = BRAID_TRY(compile(*source, {.transport = transport}));
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  for (Plan &plan : plans)
    dropSignals(plan, transfers);
  return plans;
}

} // namespace braid
