//===- api/pairs/pair_programs.cpp - programs that move blocks between ranks ------------------===//

#include "api/pairs/pair_programs.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

bool areMessages(const BlockTransfers &transfers) { return transfers.path == Path::Messages; }

/// Memory, and the loop over transfers.
std::string head(const BlockTransfers &transfers, int64_t rows) {
  const BlockShape &shape = transfers.shape;
  const Protocol protocol = recipeOf(transfers.path).protocol.value_or(Protocol::Put);
  return fmt::format("program @blocks mesh [0 .. {0}) () -> () {{\n"
                     "  %all = allocate symmetric f32[2, {1}, {2}, {3}]\n"
                     "  %h = share_mem_handles {4} %all\n"
                     "  %mine = select %all[0]\n  %theirs = select %all[1]\n"
                     "  for %i in 0 .. {5} {{\n",
                     transfers.ranks, rows, shape.slots, shape.stride / 4, name(protocol).str(),
                     transfers.count);
}

/// One block of a row of %mine or %theirs, sent or received. `number` keeps names apart.
struct OneTransfer {
  bool isSend;
  std::string peer, row;
  int64_t number;

  std::string view(const BlockShape &shape) const {
    return fmt::format("    %a{0} = select %{1}[{2}]\n    %b{0} = select %a{0}[%i mod {3}]\n"
                       "    %x{0} = slice %b{0}[0 .. {4}]\n",
                       number, isSend ? "mine" : "theirs", row, shape.slots, shape.bytes / 4);
  }
  std::string post() const {
    return fmt::format("    %r{0} = p2p {1} %x{0} {2} {3} via %h\n", number,
                       isSend ? "send" : "recv", isSend ? "to" : "from", peer);
  }
  std::string wait() const { return fmt::format("    wait %r{0}\n", number); }
  std::string str(const BlockShape &shape) const { return view(shape) + post() + wait(); }
};

OneTransfer sending(int64_t peer, int64_t number) {
  return {true, std::to_string(peer), "0", number};
}
OneTransfer receiving(int64_t peer, int64_t number) {
  return {false, std::to_string(peer), "0", number};
}

/// `text` on no rank of `ranks`.
std::string unlessRank(const std::vector<int64_t> &ranks, std::string text) {
  for (int64_t rank : ranks)
    text = fmt::format("    if rank != {} {{\n{}    }}\n", rank, text);
  return text;
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

std::string oneWay(const BlockTransfers &transfers, const Moves &moves) {
  return fmt::format("    if rank == {} {{\n{}    }}\n    if rank == {} {{\n{}    }}\n",
                     moves.source, sending(moves.destination, 0).str(transfers.shape),
                     moves.destination, receiving(moves.source, 1).str(transfers.shape));
}

std::string thereAndBack(const BlockTransfers &transfers, const Moves &moves) {
  const BlockShape &shape = transfers.shape;
  return fmt::format("    if rank == {} {{\n{}{}    }}\n    if rank == {} {{\n{}{}    }}\n",
                     moves.source, sending(moves.destination, 0).str(shape),
                     receiving(moves.destination, 1).str(shape), moves.destination,
                     receiving(moves.source, 2).str(shape), sending(moves.source, 3).str(shape));
}

/// What a rank does with the one `shift` further on, and with the one as far behind.
std::string bothNeighbours(const BlockTransfers &transfers, const Moves &moves, int64_t shift) {
  const int64_t ranks = transfers.ranks;
  const std::string to = fmt::format("(rank + {}) mod {}", shift, ranks);
  const std::string from = fmt::format("(rank - {}) mod {}", shift, ranks);
  const OneTransfer send{true, to, to, 2 * shift}, receive{false, from, from, 2 * shift + 1};
  std::vector<int64_t> silent, unheard; // who does not send, who does not receive
  for (const auto &[source, destination] : moves.without)
    if ((source + shift) % ranks == destination) {
      silent.push_back(source);
      unheard.push_back(destination);
    }
  if (areMessages(transfers)) // in a group, for neither gets on without the other
    return send.view(transfers.shape) + receive.view(transfers.shape) + "    group {\n" +
           send.post() + receive.post() + "    }\n" + send.wait() + receive.wait();
  return fmt::format("    set_current_stream stream({})\n{}    set_current_stream stream({})\n{}",
                     shift, unlessRank(silent, send.str(transfers.shape)), ranks + shift,
                     unlessRank(unheard, receive.str(transfers.shape)));
}

std::string together(const BlockTransfers &transfers, const Moves &moves) {
  std::string body;
  for (int64_t shift = 1; shift < transfers.ranks; ++shift)
    body += bothNeighbours(transfers, moves, shift);
  return body;
}

/// What was put has to be announced, what can be got likewise. The rest follows from the order of
/// the turns; but nobody may begin before the other one is there.
void keepSignalsOfTurns(Plan &plan, Path path, int64_t source) {
  const bool gets = recipeOf(path).protocol == Protocol::Get;
  // The first transfer from `source` on, seen from either side.
  const Direction there = plan.rank == source ? Direction::Send : Direction::Receive;
  keepSignals(plan, [&](const Endpoint &endpoint, bool begins) {
    const bool isFirst = endpoint.sequence == 0 && endpoint.direction == there;
    return gets ? begins : !begins || isFirst;
  });
}

} // namespace

Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers, const Moves &moves) {
  using Kind = Moves::Kind;
  const std::string body = moves.kind == Kind::Together ? together(transfers, moves)
                           : moves.kind == Kind::OneWay ? oneWay(transfers, moves)
                                                        : thereAndBack(transfers, moves);
  std::vector<Plan> plans = BRAID_TRY(
      calibration::plansOf(head(transfers, moves.rows(transfers.ranks)) + body + "  }\n}\n",
                           areMessages(transfers) ? Transport::Messages : Transport::PeerMemory));
  if (moves.kind != Kind::ThereAndBack)
    keepOuterSignals(plans, transfers.count);
  else
    for (Plan &plan : plans)
      keepSignalsOfTurns(plan, transfers.path, moves.source);
  return plans;
}

} // namespace braid
