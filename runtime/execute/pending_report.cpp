//===- runtime/execute/pending_report.cpp - what a run that stands still waits for, in words --===//

#include "runtime/execute/pending_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace braid {

namespace {

/// Null if the tag names no command of a Plan.
const Command *commandOf(const Tag &tag) {
  if (!tag.plan || tag.command >= tag.plan->commands.size())
    return nullptr;
  return &tag.plan->commands[tag.command];
}

bool waitsForPeer(const Command &command) {
  return (command.kind == CommandKind::Await && command.endpoint != kNone) ||
         command.kind == CommandKind::Group || command.kind == CommandKind::Collective;
}

/// "ranks 1, 3", without this one.
std::string peersText(const Plan &plan, const std::set<int64_t> &ranks) {
  std::set<int64_t> peers = ranks;
  peers.erase(plan.rank);
  return fmt::format("{} {}", peers.size() == 1 ? "rank" : "ranks", fmt::join(peers, ", "));
}

std::string streamName(const Plan &plan, uint32_t stream) {
  if (stream < plan.streams.size())
    return fmt::format("'{}'", plan.streams[stream]);
  return fmt::format("{}", stream);
}

/// The stream that records the event which `wait` waits for: the last record before it, as the Plan
/// is issued from its first command to its last.
std::string recordingStream(const Plan &plan, uint32_t wait) {
  for (uint32_t i = wait; i-- > 0;)
    if (plan.commands[i].kind == CommandKind::Record &&
        plan.commands[i].event == plan.commands[wait].event)
      return "its stream " + streamName(plan, plan.commands[i].stream);
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
    return peersText(plan, peers);
  }
  if (waitsForPeer(command))
    return fmt::format("rank {}", plan.endpoints[command.endpoint].peer);
  if (command.kind == CommandKind::WaitEvent)
    return recordingStream(plan, index);
  return "a flag";
}

std::string where(const Plan &plan, const Command &command) {
  if (command.origin >= plan.origins.size())
    return "a command without a node";
  return describeOrigin(plan, command.origin);
}

} // namespace

std::string describe(const BlockedHead &head) {
  const Tag &tag = head.wait.tag;
  const Command *command = commandOf(tag);
  if (!command)
    return fmt::format("rank {} waits on stream {}, in a command of no plan", head.rank,
                       head.wait.stream);
  return fmt::format("rank {} waits for {} in {}, run {}", head.rank,
                     waitedFor(*tag.plan, tag.command), where(*tag.plan, *command), tag.run);
}

std::string str(const StallReport &report) {
  // Waits for peers are where to look first: waits for a stream of the same rank only follow.
  auto key = [](const BlockedHead &head) {
    const Command *command = commandOf(head.wait.tag);
    return std::tuple(command && waitsForPeer(*command) ? 0 : 1, head.rank, head.wait.stream);
  };
  std::vector<BlockedHead> heads = report.heads;
  std::stable_sort(heads.begin(), heads.end(),
                   [&](const BlockedHead &a, const BlockedHead &b) { return key(a) < key(b); });
  std::string text = report.headline;
  for (size_t i = 0; i < std::min(heads.size(), kMaxReportedWaits); ++i)
    text += "\n  " + describe(heads[i]);
  if (heads.size() > kMaxReportedWaits)
    text += fmt::format("\n  and {} more waits", heads.size() - kMaxReportedWaits);
  for (const std::string &note : report.notes)
    text += "\n  " + note;
  return text;
}

} // namespace braid
