//===- runtime/execute/pending_report.cpp - what a run that stands still waits for, in words --===//

#include "runtime/execute/pending_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace braid {

namespace {

bool waitsForPeer(const Command &command) {
  return (command.kind == CommandKind::Await && command.endpoint != kNone) ||
         command.kind == CommandKind::Group || command.kind == CommandKind::Collective;
}

/// "ranks 1, 3", without this one.
std::string peersText(const Plan &plan, std::set<int64_t> peers) {
  peers.erase(plan.rank);
  return fmt::format("{} {}", peers.size() == 1 ? "rank" : "ranks", fmt::join(peers, ", "));
}

/// The stream that records the event which `wait` waits for: the last record before it, as the Plan
/// is issued from its first command to its last.
std::string recordingStream(const Plan &plan, uint32_t wait) {
  for (uint32_t i = wait; i-- > 0;)
    if (plan.commands[i].kind == CommandKind::Record &&
        plan.commands[i].event == plan.commands[wait].event)
      return fmt::format("its stream '{}'", plan.streams[plan.commands[i].stream]);
  return "an event of an earlier run";
}

std::string waitedFor(const Plan &plan, uint32_t index) {
  const Command &command = plan.commands[index];
  if (command.kind == CommandKind::Collective) {
    const std::vector<int64_t> &team = plan.collectives[command.collective].team;
    return peersText(plan, {team.begin(), team.end()});
  }
  if (command.kind == CommandKind::Group) {
    std::set<int64_t> peers;
    for (const PlanMessage &message : plan.groups[command.group])
      peers.insert(message.peer);
    return peersText(plan, std::move(peers));
  }
  if (waitsForPeer(command))
    return fmt::format("rank {}", plan.endpoints[command.endpoint].peer);
  if (command.kind == CommandKind::WaitEvent)
    return recordingStream(plan, index);
  return "a flag";
}

} // namespace

std::string commandText(const Plan &plan, uint32_t command, uint32_t run) {
  const uint32_t origin = plan.commands[command].origin;
  return fmt::format("{}, run {}",
                     origin < plan.origins.size() ? describeOrigin(plan, origin)
                                                  : fmt::format("command {}", command),
                     run);
}

std::string describe(const Tag &tag) {
  if (tag.plan && tag.command < tag.plan->commands.size())
    return commandText(*tag.plan, tag.command, tag.run);
  return fmt::format("a command of no plan, run {}", tag.run);
}

std::string waitText(const Plan &plan, uint32_t command, uint32_t run) {
  return waitedFor(plan, command) + " in " + commandText(plan, command, run);
}

std::string stallText(std::string headline, std::vector<BlockedHead> heads,
                      const std::vector<std::string> &notes) {
  // A head that moves while it is read may have the command of one Plan and the number of another.
  std::erase_if(heads, [](const BlockedHead &head) {
    const Tag &tag = head.wait.tag;
    return !tag.plan || tag.command >= tag.plan->commands.size();
  });
  // Waits for peers are where to look first: waits for a stream of the same rank only follow.
  std::stable_partition(heads.begin(), heads.end(), [](const BlockedHead &head) {
    return waitsForPeer(head.wait.tag.plan->commands[head.wait.tag.command]);
  });
  std::string text = std::move(headline);
  for (size_t i = 0; i < std::min(heads.size(), kMaxReportedWaits); ++i) {
    const Tag &tag = heads[i].wait.tag;
    text += fmt::format("\n  rank {} waits for {}", heads[i].rank,
                        waitText(*tag.plan, tag.command, tag.run));
  }
  if (heads.size() > kMaxReportedWaits)
    text += fmt::format("\n  and {} more waits", heads.size() - kMaxReportedWaits);
  for (const std::string &note : notes)
    text += "\n  " + note;
  return text;
}

} // namespace braid
