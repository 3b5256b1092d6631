//===- api/pairs/block_plans.cpp - programs that move blocks from one rank to the other -------===//

#include "api/pairs/block_plans.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

bool isGet(Path path) { return path == Path::GetEngine || path == Path::GetKernel; }

std::string programText(const BlockTransfers &transfers) {
  const std::string send = "      %s = p2p send %x to 1 - rank via %h\n      wait %s\n";
  const std::string receive = "      %r = p2p recv %y from 1 - rank via %h\n      wait %r\n";
  return fmt::format("program @blocks mesh [0 .. 2) () -> () {{\n"
                     "  %all = allocate symmetric f32[2, {slots}, {length}]\n"
                     "  %h = share_mem_handles {protocol} %all\n"
                     "  %sent = select %all[0]\n"
                     "  %received = select %all[1]\n"
                     "  for %i in 0 .. {count} {{\n"
                     "    %x = select %sent[%i mod {slots}]\n"
                     "    %y = select %received[%i mod {slots}]\n"
                     "    if rank == {source} {{\n{there}    }} else {{\n{back}    }}\n"
                     "  }}\n}}\n",
                     fmt::arg("slots", transfers.slots), fmt::arg("length", transfers.bytes / 4),
                     fmt::arg("protocol", isGet(transfers.path) ? "get" : "put"),
                     fmt::arg("count", transfers.count), fmt::arg("source", transfers.source),
                     fmt::arg("there", transfers.andBack ? send + receive : send),
                     fmt::arg("back", transfers.andBack ? receive + send : receive));
}

/// Returns true if a signal or await must be kept. One-way runs keep the first ready signal and the
/// last completion signal. Round trips keep the ready signals of gets, or the completion signals of
/// puts and the first put's ready signal; the order of the trips makes the others redundant.
bool isKept(const BlockTransfers &transfers, int64_t rank, const Endpoint &endpoint,
            CommandKind kind) {
  const bool isSend = endpoint.direction == Direction::Send;
  const bool copies = (endpoint.protocol == Protocol::Put) == isSend;
  const bool isReady = copies == (kind == CommandKind::Await); // else a completion
  if (!transfers.andBack)
    return endpoint.sequence == (isReady ? 0 : transfers.count - 1);
  if (isGet(transfers.path))
    return isReady;
  return !isReady || (endpoint.sequence == 0 && isSend == (rank == transfers.source));
}

} // namespace

Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers) {
  const Transport transport =
      transfers.path == Path::Messages ? Transport::Messages : Transport::PeerMemory;
  std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(programText(transfers), transport));
  for (Plan &plan : plans)
    llvm::erase_if(plan.commands, [&](const Command &command) {
      const bool isSignal =
          command.kind == CommandKind::Signal || command.kind == CommandKind::Await;
      return isSignal &&
             !isKept(transfers, plan.rank, plan.endpoints[command.endpoint], command.kind);
    });
  return plans;
}

} // namespace braid
