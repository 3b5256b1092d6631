//===- runtime/check/describe_race.cpp - describes two accesses that are not ordered ----------===//

#include "runtime/check/races.h"

#include "runtime/check/access.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>

#include <utility>

namespace braid::checker {
namespace {

//===- A wait that would order the accesses ---------------------------------------------------===//

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

/// Formats an event, for example "matmul of "..." (trip 0) at a.braid:24:5". For a signal or an
/// await, returns only the name of the node.
std::string textOf(const History &history, EventId id, bool withRun) {
  const CheckedEvent event = history.describe(id);
  llvm::StringRef what = llvm::StringRef(event.text).split(": ").second;
  if (!what.consume_front("await of "))
    what.consume_front("signal of ");
  return withRun ? fmt::format("{} in run {}", what.str(), event.run) : what.str();
}

/// The intended order of two unordered accesses to a rank's memory, and a wait that would enforce
/// it. The intended order is the rank's issue order, in which a peer's access is represented by the
/// signal that permits it and the await for its end.
struct MissingOrder {
  bool isSwapped = false; ///< the second access is intended to run first
  /// For example "on rank 1, main has to synchronize with stream(0) after ... and before ...".
  std::string wait;
};

/// Returns the missing order of two events that access memory of `rank`, or nullopt if the rank has
/// no signal or await for one of the accesses.
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

//===- The accesses and their consequences ----------------------------------------------------===//

/// Two accesses to the same bytes.
struct Conflict {
  Place bytes;
  bool firstWrites, secondWrites;

  /// Returns the event (1 or 2) that only reads, or 0 if both write.
  int reader() const { return firstWrites && secondWrites ? 0 : firstWrites ? 2 : 1; }
};

Conflict conflictOf(const History &history, EventId first, EventId second) {
  const Accesses earlier = accessesOf(history, history.event(first));
  for (const Access &b : accessesOf(history, history.event(second)))
    for (const Access &a : llvm::reverse(earlier)) // writes first
      if (const std::optional<Place> bytes = common(a.place, b.place);
          bytes && (a.isWrite || b.isWrite))
        return {*bytes, a.isWrite, b.isWrite};
  llvm_unreachable("the accesses conflict");
}

/// Describes, for either order, the data that a read returns or that two writes leave behind.
/// `first` is the event, 1 or 2, that is intended to run first.
void sayOrders(Violation &race, int reader, int first) {
  const int second = 3 - first;
  race.staleIfFirst = static_cast<size_t>(second) - 1;
  if (reader == 0) {
    race.stale = fmt::format("{} overwrites the data of {}, leaving stale data", first, second);
    race.otherwise = fmt::format("{} overwrites the data of {}", second, first);
    return;
  }
  const int writer = 3 - reader;
  const bool isRunBefore = race.events[0].run != race.events[1].run;
  const std::string before =
      fmt::format("{} reads the data that {} has not replaced yet", reader, writer);
  const std::string after = fmt::format("{} reads the data that {} has written", reader, writer);
  race.stale = reader == second ? before + ", which is stale"
                                : after + (isRunBefore ? ", which belongs to a later run"
                                                       : ", instead of the earlier data");
  race.otherwise = reader == second ? after : before;
}

/// Describes both orders of a use and `end`, the event (1 or 2) that ends the buffer's lifetime.
void sayOrdersOfEnd(Violation &use, int end) {
  use.rule = CheckRule::Lifetime;
  use.summary = "a memory access is not ordered with respect to the deallocation of its buffer";
  use.staleIfFirst = static_cast<size_t>(end) - 1;
  use.stale = fmt::format("{} uses memory that may belong to another buffer", 3 - end);
  use.otherwise = fmt::format("{} uses its buffer before the deallocation", 3 - end);
}

/// Guesses which event is intended to run first if no signal determines it: the event of the
/// earlier run, else the writer, else the event that was visited first.
int meantFirst(const Violation &race, int reader) {
  const uint32_t first = race.events[0].run, second = race.events[1].run;
  if (first != second)
    return first < second ? 1 : 2;
  return reader == 0 ? 1 : 3 - reader;
}

} // namespace

Violation describeRace(const History &history, EventId a, EventId b) {
  const Conflict conflict = conflictOf(history, a, b);
  const int reader = conflict.reader();
  const char *what = reader == 0   ? "two writes"
                     : reader == 2 ? "a write and a read"
                                   : "a read and a write";
  Violation race{CheckRule::Race,
                 fmt::format("{} are not ordered", what),
                 {history.describe(a), history.describe(b)},
                 {"both touch " + str(history, conflict.bytes)}};
  const auto missing = findMissingOrder(history, a, b, conflict.bytes.memory.rank);
  if (missing)
    race.notes.push_back("missing: " + missing->wait);
  sayOrders(race, reader, missing ? (missing->isSwapped ? 2 : 1) : meantFirst(race, reader));
  for (EventId id : {a, b})
    if (history.event(id).kind == EventKind::Release)
      sayOrdersOfEnd(race, id == a ? 1 : 2);
  return race;
}

} // namespace braid::checker
