//===- api/pairs/pair_programs.cpp - programs that move blocks between ranks ------------------===//

#include "api/pairs/pair_programs.h"

#include "api/calibrate/calibration_programs.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

bool areMessages(const BlockTransfers &transfers) { return transfers.path == Path::Messages; }

/// Memory, and in the loop over transfers: %x, what is sent, and %y, where it arrives.
std::string head(const BlockTransfers &transfers) {
  const BlockShape &shape = transfers.shape;
  const Protocol protocol = recipeOf(transfers.path).protocol.value_or(Protocol::Put);
  return fmt::format("program @blocks mesh [0 .. {0}) () -> () {{\n"
                     "  %all = allocate symmetric f32[2, {1}, {2}]\n"
                     "  %h = share_mem_handles {3} %all\n"
                     "  %mine = select %all[0]\n  %theirs = select %all[1]\n"
                     "  %main = get_current_stream\n"
                     "  for %i in 0 .. {4} {{\n"
                     "    %a = select %mine[%i mod {1}]\n    %x = slice %a[0 .. {5}]\n"
                     "    %b = select %theirs[%i mod {1}]\n    %y = slice %b[0 .. {5}]\n",
                     transfers.ranks, shape.slots, shape.stride / 4, name(protocol).str(),
                     transfers.count, shape.bytes / 4);
}

/// `number` keeps the names of several apart.
std::string send(const std::string &to, int number) {
  return fmt::format("    %s{0} = p2p send %x to {1} via %h\n    wait %s{0}\n", number, to);
}
std::string receive(const std::string &from, int number) {
  return fmt::format("    %r{0} = p2p recv %y from {1} via %h\n    wait %r{0}\n", number, from);
}

/// `text` on no rank of `ranks`.
std::string unlessRank(const std::vector<int64_t> &ranks, std::string text) {
  for (int64_t rank : ranks)
    text = fmt::format("    if rank != {} {{\n{}    }}\n", rank, text);
  return text;
}

Result<std::vector<Plan>> plansOf(const BlockTransfers &transfers, const std::string &body) {
  return calibration::plansOf(head(transfers) + body + "  }\n}\n",
                              areMessages(transfers) ? Transport::Messages : Transport::PeerMemory);
}

/// Says that a transfer may begin, or waits for that; the other signals say that it is over.
bool isOfBeginning(const Endpoint &endpoint, CommandKind kind) {
  const bool copies =
      (endpoint.protocol == Protocol::Put) == (endpoint.direction == Direction::Send);
  return copies == (kind == CommandKind::Await);
}

/// Takes out signals and the awaits of them, unless `isKept`; they go on both sides or on none.
void keepSignals(Plan &plan,
                 llvm::function_ref<bool(const Endpoint &, bool isOfBeginning)> isKept) {
  llvm::erase_if(plan.commands, [&](const Command &command) {
    if (command.kind != CommandKind::Signal && command.kind != CommandKind::Await)
      return false;
    const Endpoint &endpoint = plan.endpoints[command.endpoint];
    return !isKept(endpoint, isOfBeginning(endpoint, command.kind));
  });
}

/// The first transfer waits until it may begin, and the last one says that all are over.
void keepOuterSignals(std::vector<Plan> &plans, int64_t count) {
  for (Plan &plan : plans)
    keepSignals(plan, [&](const Endpoint &endpoint, bool begins) {
      return endpoint.sequence == (begins ? 0 : static_cast<uint32_t>(count - 1));
    });
}

} // namespace

Result<std::vector<Plan>> oneWayPlans(const BlockTransfers &transfers, int64_t source,
                                      int64_t destination) {
  std::string body = fmt::format("    if rank == {0} {{\n{2}    }}\n    if rank == {1} {{\n{3}    }}\n",
                                 source, destination, send(std::to_string(destination), 0),
                                 receive(std::to_string(source), 0));
  Result<std::vector<Plan>> plans = plansOf(transfers, body);
  if (plans)
    keepOuterSignals(*plans, transfers.count);
  return plans;
}

/// What was put has to be announced, what can be got likewise. The rest follows from the order of
/// the turns; but nobody may begin before the other one is there.
Result<std::vector<Plan>> thereAndBackPlans(const BlockTransfers &transfers, int64_t source,
                                            int64_t destination) {
  const std::string from = std::to_string(source), to = std::to_string(destination);
  std::string body = fmt::format("    if rank == {} {{\n{}{}    }} else {{\n{}{}    }}\n", source,
                                 send(to, 0), receive(to, 0), receive(from, 1), send(from, 1));
  Result<std::vector<Plan>> plans = plansOf(transfers, body);
  if (!plans)
    return plans;
  const bool gets = recipeOf(transfers.path).protocol == Protocol::Get;
  for (Plan &plan : *plans) {
    // The first transfer from `source` on, seen from either side.
    const Direction there = plan.rank == source ? Direction::Send : Direction::Receive;
    keepSignals(plan, [&](const Endpoint &endpoint, bool begins) {
      const bool isFirst = endpoint.sequence == 0 && endpoint.direction == there;
      return gets ? begins : !begins || isFirst;
    });
  }
  return plans;
}

Result<std::vector<Plan>> ringPlans(const BlockTransfers &transfers, int64_t shift,
                                    const std::vector<int64_t> &silent) {
  const std::string to = fmt::format("(rank + {}) mod {}", shift, transfers.ranks);
  const std::string from = fmt::format("(rank - {}) mod {}", shift, transfers.ranks);
  std::vector<int64_t> unheard; // whose sources are silent
  for (int64_t rank : silent)
    unheard.push_back((rank + shift) % transfers.ranks);
  std::string body;
  if (areMessages(transfers)) {
    body = fmt::format("    group {{\n      %s = p2p send %x to {} via %h\n"
                       "      %r = p2p recv %y from {} via %h\n    }}\n"
                       "    wait %s\n    wait %r\n",
                       to, from);
    return plansOf(transfers, body);
  }
  const bool gets = recipeOf(transfers.path).protocol == Protocol::Get;
  const std::string sends = unlessRank(silent, send(to, 0));
  const std::string receives = unlessRank(unheard, receive(from, 1));
  body = "    set_current_stream stream(1)\n" + (gets ? sends : receives) +
         "    set_current_stream %main\n" + (gets ? receives : sends);
  Result<std::vector<Plan>> plans = plansOf(transfers, body);
  if (plans)
    keepOuterSignals(*plans, transfers.count);
  return plans;
}

} // namespace braid
