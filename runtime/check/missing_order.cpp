//===- runtime/check/missing_order.cpp - finds a wait that would order two accesses -----------===//

#include "runtime/check/missing_order.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <utility>

namespace braid::checker {
namespace {

/// Events on the rank whose memory is accessed: the access runs after `begin` and before `end`. For
/// a local access, both are the access itself.
struct Anchors {
  EventId begin, end;
};

Anchors anchorsOf(const History &history, EventId id, uint32_t rank) {
  const Event &event = history.event(id);
  if (event.rank == rank)
    return {id, id};
  const uint32_t endpoint = history.command(event).endpoint;
  return {history.signalFor(event.rank, endpoint, event.run),
          history.awaitOf(rank, history.partner(event.rank, endpoint), event.run)};
}

/// Formats an event, for example "matmul of "..." (trip 0) at a.braid:24:5". Names only the node of
/// a signal or an await.
std::string textOf(const History &history, EventId id, bool withRun) {
  const CheckedEvent event = history.describe(id);
  llvm::StringRef what = llvm::StringRef(event.text).split(": ").second;
  if (!what.consume_front("await of "))
    what.consume_front("signal of ");
  return withRun ? fmt::format("{} in run {}", what.str(), event.run) : what.str();
}

} // namespace

std::optional<MissingOrder> findMissingOrder(const History &history, EventId first, EventId second,
                                             uint32_t rank) {
  Anchors a = anchorsOf(history, first, rank), b = anchorsOf(history, second, rank);
  if (a.begin == kNone || b.begin == kNone)
    return std::nullopt;
  const bool isSwapped = b.begin < a.begin; // a rank's events are numbered in issue order
  if (isSwapped)
    std::swap(a, b);
  if (a.end == kNone)
    return std::nullopt;
  const Event &end = history.event(a.end), &begin = history.event(b.begin);
  const std::vector<std::string> &streams = history.plans()[rank].streams;
  const bool withRuns = end.run != begin.run;
  const std::string after = textOf(history, a.end, withRuns),
                    before = textOf(history, b.begin, withRuns);
  const std::string &waits = streams[begin.stream], &awaited = streams[end.stream];
  MissingOrder missing{isSwapped, {}};
  if (a.end > b.begin)
    missing.wait = fmt::format(
        "on rank {}, {} has to come before {}{}", rank, after, before,
        end.stream == begin.stream
            ? ""
            : fmt::format(", and {} has to synchronize with {} in between", waits, awaited));
  else if (end.stream != begin.stream)
    missing.wait = fmt::format("on rank {}, {} has to synchronize with {} after {} and before {}",
                               rank, waits, awaited, after, before);
  else
    return std::nullopt; // the stream orders them, so the missing order is between the ranks
  return missing;
}

} // namespace braid::checker
