//===- runtime/job/flight_page.cpp - the records of a job's ranks on one page -----------------===//

#include "runtime/job/flight_page.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "ir/text_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <list>
#include <map>
#include <unordered_map>

namespace braid {

namespace {

constexpr size_t kTimelineLength = 20;
/// Ranks that differ do so within this many runs of the slowest one.
constexpr uint64_t kRunsAhead = 2;

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }
double msBetween(uint64_t from, uint64_t to) { return to >= from ? ms(to - from) : -ms(from - to); }

// -- One record. --

/// "\"%r = p2p recv ...\" (trip 1) at ring.braid:13:5"
std::string nodeText(const FlightRecord &record, const FlightCommand &command) {
  if (command.node >= record.nodes.size())
    return fmt::format("command {}", command.index);
  const FlightNode &node = record.nodes[command.node];
  std::string trips;
  if (!command.trips.empty())
    trips = fmt::format(" (trip {})", fmt::join(command.trips, ", "));
  return fmt::format("\"{}\"{} at {}", node.text, trips, node.place);
}

std::string commandText(const FlightRecord &record, CommandId id) {
  const FlightCommand *command = record.find(id.command);
  if (!command)
    return fmt::format("command {}, run {}", id.command, id.run);
  const char *direction = command->kind == "signal" ? " to" : " from";
  const bool isFlag = command->kind == "signal" || command->kind == "await";
  const bool hasPeer = command->peer >= 0 && isFlag;
  return fmt::format("{}{} of {}, run {}", command->kind,
                     hasPeer ? fmt::format("{} rank {}", direction, command->peer) : "",
                     nodeText(record, *command), id.run);
}

const char *hostText(const RankSnapshot &rank) {
  switch (rank.activity) {
  case HostActivity::OwnCode:
    return "its own code";
  case HostActivity::Preparing:
    return "preparing";
  case HostActivity::InAllGather:
    return "a gathering of all ranks";
  case HostActivity::InSynchronize:
    return "waiting for its device";
  case HostActivity::Committing:
    return "waiting for all ranks to be done";
  }
  return "its own code";
}

FlightRow rowOf(const FlightRecord &record) {
  FlightRow row;
  row.rank = record.rank;
  row.state = kStateNames[static_cast<size_t>(record.state.state)];
  row.run = record.state.runs;
  row.issued = record.state.issued;
  for (const QueueSnapshot &queue : record.state.queues)
    row.completed += queue.completed;
  const QueueSnapshot *queue = leadingQueue(record.state, [&](CommandId id) {
    const FlightCommand *command = record.find(id.command);
    return command && command->kind == "wait_event";
  });
  uint64_t since = queue ? queue->sinceNs : record.state.activitySinceNs;
  if (queue)
    row.current = queue->current;
  row.in = queue ? commandText(record, *queue->current) : hostText(record.state);
  if (since != 0 && since <= record.recordedNs)
    row.forMs = msBetween(since, record.recordedNs);
  const FlightCommand *command = queue ? record.find(queue->current->command) : nullptr;
  if (queue && queue->isWaiting && (!command || command->kind == "await"))
    row.flag = std::pair(queue->flagValue, queue->wantedValue);
  return row;
}

// -- Where ranks differ. --

/// A rank's points: which of its commands make each up. The same node in the same trip is the same
/// point on all ranks, known by its text.
class Track {
public:
  Track(const FlightRecord &record, TextNumbers &points) : record_(record) {
    for (const FlightCommand &command : record.commands) {
      if (command.node >= record.nodes.size())
        continue;
      const uint32_t point = points.number(nodeText(record, command));
      auto [known, isNew] = commands_.try_emplace(point);
      if (isNew)
        points_.push_back(point);
      known->second.push_back(&command);
    }
  }

  const FlightRecord &record() const { return record_; }
  /// In the order in which they are issued.
  const std::vector<uint32_t> &points() const { return points_; }

  /// The latest run of which every queue with commands has completed something, or 1.
  uint64_t slowestRun() const {
    std::optional<uint64_t> slowest;
    for (const FlightCommand &command : record_.commands)
      if (const QueueSnapshot *queue = queueOfCommand(command)) {
        const uint64_t run = queue->lastDone ? queue->lastDone->run : 1;
        slowest = std::min(slowest.value_or(run), run);
      }
    return slowest.value_or(1);
  }

  /// Nothing if the rank does not have the point, or nobody can tell.
  std::optional<FlightStanding> standing(uint32_t point, uint32_t run) const {
    auto found = commands_.find(point);
    if (found == commands_.end())
      return std::nullopt;
    size_t done = 0, known = 0;
    FlightStanding standing{record_.rank, PointState::NotBegun, "", std::nullopt};
    for (const FlightCommand *command : found->second) {
      const CommandId id{run, command->index};
      const QueueSnapshot *queue = queueOfCommand(*command);
      if (!queue)
        continue;
      ++known;
      done += queue->lastDone && hasReached(*queue->lastDone, id);
      if (queue->current == id) {
        standing.state = PointState::In;
        standing.in = commandText(record_, id);
      }
    }
    if (known == 0)
      return std::nullopt;
    if (done == known)
      standing.state = PointState::Completed;
    else if (done > 0)
      standing.state = PointState::In;
    return standing;
  }

  /// The ring's entries of a point.
  std::vector<const FlightSnapshot *> flightOf(uint32_t point, uint32_t run) const {
    std::vector<const FlightSnapshot *> entries;
    auto found = commands_.find(point);
    for (const FlightSnapshot &entry : record_.flight)
      if (found != commands_.end() && entry.id.run == run &&
          llvm::is_contained(found->second, record_.find(entry.id.command)))
        entries.push_back(&entry);
    return entries;
  }

private:
  const QueueSnapshot *queueOfCommand(const FlightCommand &command) const {
    std::optional<uint32_t> queue = queueOf(command.stream, record_.state.queues.size());
    return queue ? &record_.state.queues[*queue] : nullptr;
  }

  const FlightRecord &record_;
  std::vector<uint32_t> points_;
  std::unordered_map<uint32_t, std::vector<const FlightCommand *>> commands_;
};

/// All points of all ranks, in an order that agrees with that of the first rank, and puts what it
/// lacks behind what comes before it on other ranks.
std::vector<uint32_t> allPoints(const std::vector<Track> &tracks, size_t count) {
  std::list<uint32_t> order;
  std::vector<std::optional<std::list<uint32_t>::iterator>> places(count);
  for (const Track &track : tracks) {
    auto at = order.begin();
    for (uint32_t point : track.points()) {
      if (!places[point])
        places[point] = order.insert(at, point);
      at = std::next(*places[point]);
    }
  }
  return {order.begin(), order.end()};
}

/// A difference, and the number of its point.
struct Found {
  uint32_t point;
  FlightDifference difference;
};

std::optional<Found> differenceAt(const std::vector<Track> &tracks, uint32_t point, uint32_t run) {
  Found found{point, {run, "", {}}};
  bool anyDone = false, anyNot = false;
  for (const Track &track : tracks)
    if (std::optional<FlightStanding> standing = track.standing(point, run)) {
      (standing->state == PointState::Completed ? anyDone : anyNot) = true;
      found.difference.standings.push_back(*standing);
    }
  if (!anyDone || !anyNot)
    return std::nullopt;
  return found;
}

std::optional<Found> firstDifference(const std::vector<Track> &tracks, const TextNumbers &points) {
  uint64_t first = tracks.front().slowestRun(), last = 0;
  for (const Track &track : tracks) {
    first = std::min(first, track.slowestRun());
    for (const QueueSnapshot &queue : track.record().state.queues)
      if (queue.lastDone)
        last = std::max<uint64_t>(last, queue.lastDone->run);
  }
  const std::vector<uint32_t> order = allPoints(tracks, points.texts().size());
  for (uint64_t run = first; run <= std::min(last, first + kRunsAhead); ++run)
    for (uint32_t point : order)
      if (auto found = differenceAt(tracks, point, static_cast<uint32_t>(run))) {
        found->difference.node = points.texts()[point];
        return found;
      }
  return std::nullopt;
}

// -- When. --

struct Began {
  const FlightRecord *record;
  const FlightSnapshot *entry;
};

/// The last commands that had begun when the last rank was at the difference.
std::vector<Began> lastBegun(const std::vector<Track> &tracks, const std::optional<Found> &found) {
  uint64_t until = 0;
  if (found)
    for (const Track &track : tracks)
      for (const FlightSnapshot *entry : track.flightOf(found->point, found->difference.run))
        until = std::max(until, entry->beginNs);
  std::vector<Began> begun;
  for (const Track &track : tracks)
    for (const FlightSnapshot &entry : track.record().flight)
      if (until == 0 || entry.beginNs <= until)
        begun.push_back({&track.record(), &entry});
  std::stable_sort(begun.begin(), begun.end(), [](const Began &a, const Began &b) {
    return a.entry->beginNs < b.entry->beginNs;
  });
  if (begun.size() > kTimelineLength)
    begun.erase(begun.begin(), begun.end() - kTimelineLength);
  return begun;
}

FlightMoment momentOf(const Began &began, uint64_t startNs) {
  const FlightRecord &record = *began.record;
  const FlightSnapshot &entry = *began.entry;
  FlightMoment moment;
  moment.rank = record.rank;
  moment.atMs = msBetween(startNs, entry.beginNs);
  if (entry.endNs != 0)
    moment.tookMs = msBetween(entry.beginNs, entry.endNs);
  const FlightCommand *command = record.find(entry.id.command);
  moment.stream = command ? record.streams[command->stream] : fmt::format("queue {}", entry.queue);
  moment.command = commandText(record, entry.id);
  moment.flag = entry.flagValue;
  return moment;
}

/// When each rank completed or began the point, as far as its ring says.
void addTimes(Found &found, const std::vector<Track> &tracks, uint64_t startNs) {
  for (FlightStanding &standing : found.difference.standings)
    for (const Track &track : tracks) {
      if (track.record().rank != standing.rank)
        continue;
      std::optional<uint64_t> at;
      for (const FlightSnapshot *entry : track.flightOf(found.point, found.difference.run))
        at = standing.state == PointState::Completed
                 ? std::max(at.value_or(0), entry->endNs)
                 : std::min(at.value_or(entry->beginNs), entry->beginNs);
      if (at && *at != 0)
        standing.sinceMs = msBetween(startNs, *at);
    }
}

// -- Records that belong together. --

Status refuse(const std::string &name, const std::string &message) {
  return badInput("{}: {}", name, message);
}

Status checkTogether(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names) {
  std::map<int64_t, size_t> seen;
  std::optional<size_t> planned; // the first record that knows its program
  for (size_t i = 0; i < records.size(); ++i) {
    const FlightRecord &record = records[i], &first = records.front();
    if (record.job != first.job || record.ranks != first.ranks)
      return refuse(names[i], fmt::format("expected a record of job '{}' with {} ranks, as in {}, "
                                          "got one of job '{}' with {} ranks",
                                          printable(first.job), first.ranks, names.front(),
                                          printable(record.job), record.ranks));
    auto [known, isNew] = seen.try_emplace(record.rank, i);
    if (!isNew)
      return refuse(names[i], fmt::format("expected a record of another rank, got one of rank {}, "
                                          "as in {}",
                                          record.rank, names[known->second]));
    if (record.program.empty())
      continue;
    if (!planned)
      planned = i;
    const FlightRecord &other = records[*planned];
    if (record.program != other.program || record.fingerprint != other.fingerprint)
      return refuse(names[i],
                    fmt::format("expected a record of program @{} ({:016x}), as in {}, "
                                "got one of @{} ({:016x})",
                                printable(other.program), other.fingerprint, names[*planned],
                                printable(record.program), record.fingerprint));
  }
  return Status::ok();
}

FlightPage headOf(const std::vector<const FlightRecord *> &records) {
  FlightPage page;
  page.job = records.front()->job;
  page.ranks = records.front()->ranks;
  for (const FlightRecord *record : records) {
    if (page.program.empty()) {
      page.program = record->program;
      page.source = record->source;
    }
    page.committed = std::max(page.committed, record->committed);
    if (!page.cause)
      page.cause = record->cause;
    if (record->cause && *record->cause != *page.cause)
      page.otherCauses.push_back(record->rank);
    page.present.push_back(record->rank);
    page.rows.push_back(rowOf(*record));
  }
  for (int64_t rank = 0; rank < page.ranks; ++rank)
    if (!std::binary_search(page.present.begin(), page.present.end(), rank))
      page.missing.push_back(rank);
  return page;
}

// -- For people. --

const char *failureText(StatusCode code) {
  switch (code) {
  case StatusCode::WrongResult:
    return "wrong result";
  case StatusCode::BadInput:
    return "bad input";
  case StatusCode::Rejected:
    return "rejected";
  case StatusCode::Unsupported:
    return "unsupported";
  case StatusCode::PeerFailed:
    return "a peer failed";
  case StatusCode::TimedOut:
    return "timed out";
  case StatusCode::Ok:
  case StatusCode::Internal:
    break;
  }
  return "internal error";
}

class PageWriter {
public:
  explicit PageWriter(const FlightPage &page) : page_(page) {}

  std::string write() {
    writeHead();
    writeCause();
    writeRows();
    writeDifference();
    writeTimeline();
    return std::move(text_);
  }

private:
  template <class... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void writeHead() {
    line("job {}, {}", printable(page_.job), counted(page_.ranks, "rank"));
    if (page_.committed == 0)
      line("no results were committed: the job ended before all ranks had finished");
    else
      line("results were committed {}, when all ranks had finished",
           counted(page_.committed, "time"));
    if (page_.program.empty())
      line("program: none yet");
    else
      line("program @{} in {}", printable(page_.program), printable(page_.source));
    line("records of {}; {}", rangesText(page_.present),
         page_.missing.empty() ? "none is missing" : "missing: " + rangesText(page_.missing));
  }

  void writeCause() {
    if (!page_.cause)
      return line("\nfirst cause: none, the job was not aborted");
    line("\nfirst cause: {}, exit code {}{}", failureText(page_.cause->code),
         static_cast<int>(page_.cause->code),
         page_.cause->rank < 0 ? "" : fmt::format(", by rank {}", page_.cause->rank));
    constexpr size_t kLongestLine = 1000;
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(page_.cause->text).split(lines, '\n');
    for (llvm::StringRef each : lines)
      line("  {}", printable(each, kLongestLine));
    if (!page_.otherCauses.empty())
      line("records of {} have another first cause: they may be of another run, or of a host that "
           "was cut off",
           rangesText(page_.otherCauses));
  }

  void writeRows() {
    line("\n{:>5}  {:<6}  {:>6}  {:>13}  {:>13}  {:>11}  in", "rank", "state", "run", "done/issued",
         "flag/awaited", "for");
    for (const FlightRow &row : page_.rows)
      line("{:>5}  {:<6}  {:>6}  {:>13}  {:>13}  {:>11}  {}", row.rank, row.state, row.run,
           fmt::format("{}/{}", row.completed, row.issued),
           row.flag ? fmt::format("{}/{}", row.flag->first, row.flag->second) : "-",
           row.forMs ? fmt::format("{:.1f} ms", *row.forMs) : "-", printable(row.in));
    writeLegend();
  }

  void writeLegend() {
    line("\n{:>13}: the last run that the rank has begun to issue", "run");
    line("{:>13}: commands of the rank that are complete, of those issued, over all runs",
         "done/issued");
    line("{:>13}: of a rank that waits for a signal, the signal flag's value as last seen, and the "
         "value that ends the wait",
         "flag/awaited");
    line("{:>13}: how long the rank has been in what the last column says", "for");
    line("{:>13}: the command that the rank executes or waits in; \"its own code\" says that no "
         "command is under way and that its host thread, which waits for nobody, issues commands "
         "or runs the caller's code",
         "in");
  }

  void writeDifference() {
    if (!page_.difference)
      return line("\nno point in the program that one of these ranks has completed and another "
                  "has not");
    const FlightDifference &difference = *page_.difference;
    line("\nthe first point where ranks differ: {}, run {}", printable(difference.node),
         difference.run);
    for (const FlightStanding &standing : difference.standings)
      line("{:>5}  {}", standing.rank, standingText(standing));
  }

  static std::string standingText(const FlightStanding &standing) {
    auto at = [&](const char *before) {
      return standing.sinceMs ? fmt::format("{}{:.3f} ms", before, *standing.sinceMs) : "";
    };
    switch (standing.state) {
    case PointState::Completed:
      return "has completed it" + at(", at ");
    case PointState::In:
      return fmt::format("is in it{}{}", at(", since "),
                         standing.in.empty() ? "" : ": " + printable(standing.in));
    case PointState::NotBegun:
      break;
    }
    return "has not begun it";
  }

  void writeTimeline() {
    if (page_.timeline.empty())
      return;
    line("\nthe last {} that began{}, in ms after the first of them",
         counted(static_cast<int64_t>(page_.timeline.size()), "command"),
         page_.difference ? " until then" : "");
    for (const FlightMoment &moment : page_.timeline)
      line("{:>12.3f}  rank {:<3}  {:<10}  {:>13}  {}", moment.atMs, moment.rank,
           printable(moment.stream, 40),
           moment.tookMs ? fmt::format("took {:.3f}", *moment.tookMs) : "has not ended",
           printable(moment.command));
  }

  const FlightPage &page_;
  std::string text_;
};

// -- For tools. --

using Json = nlohmann::ordered_json;

template <class T> Json orNull(const std::optional<T> &value) {
  return value ? Json(*value) : Json();
}

Json json(const FlightRow &row) {
  Json json = {{"rank", row.rank},           {"state", row.state},   {"run", row.run},
               {"completed", row.completed}, {"issued", row.issued}, {"in", row.in},
               {"for_ms", orNull(row.forMs)}};
  json["flag"] = row.flag ? Json(row.flag->first) : Json();
  json["wanted"] = row.flag ? Json(row.flag->second) : Json();
  return json;
}

Json json(const FlightStanding &standing) {
  // By the values of PointState.
  static constexpr const char *kNames[] = {"completed", "in", "not begun"};
  Json json = {{"rank", standing.rank}, {"state", kNames[static_cast<size_t>(standing.state)]}};
  if (!standing.in.empty())
    json["in"] = standing.in;
  json["since_ms"] = orNull(standing.sinceMs);
  return json;
}

Json json(const FlightMoment &moment) {
  return {
      {"rank", moment.rank},     {"at_ms", moment.atMs},      {"took_ms", orNull(moment.tookMs)},
      {"stream", moment.stream}, {"command", moment.command}, {"flag", moment.flag}};
}

template <class T> Json listOf(const std::vector<T> &values) {
  Json list = Json::array();
  for (const T &value : values)
    list.push_back(json(value));
  return list;
}

} // namespace

Result<FlightPage> merge(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names) {
  BRAID_TRY(checkTogether(records, names));
  std::vector<const FlightRecord *> sorted;
  for (const FlightRecord &record : records)
    sorted.push_back(&record);
  std::sort(sorted.begin(), sorted.end(),
            [](const FlightRecord *a, const FlightRecord *b) { return a->rank < b->rank; });
  FlightPage page = headOf(sorted);
  TextNumbers points;
  std::vector<Track> tracks;
  for (const FlightRecord *record : sorted)
    tracks.emplace_back(*record, points);
  std::optional<Found> found = firstDifference(tracks, points);
  const std::vector<Began> begun = lastBegun(tracks, found);
  const uint64_t startNs = begun.empty() ? 0 : begun.front().entry->beginNs;
  for (const Began &each : begun)
    page.timeline.push_back(momentOf(each, startNs));
  if (found && !begun.empty())
    addTimes(*found, tracks, startNs);
  if (found)
    page.difference = std::move(found->difference);
  return page;
}

std::string rangesText(llvm::ArrayRef<int64_t> ranks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    ranges.push_back(last == i ? fmt::format("{}", ranks[i])
                               : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranges, ", "));
}

std::string str(const FlightPage &page) { return PageWriter(page).write(); }

std::string toJson(const FlightPage &page) {
  Json json = {{"job", page.job},
               {"program", page.program},
               {"source", page.source},
               {"ranks", page.ranks},
               {"committed", page.committed},
               {"present", page.present},
               {"missing", page.missing},
               {"cause", nullptr},
               {"other_causes", page.otherCauses}};
  if (page.cause)
    json["cause"] = {{"code", static_cast<int>(page.cause->code)},
                     {"rank", page.cause->rank},
                     {"text", page.cause->text}};
  json["rows"] = listOf(page.rows);
  json["difference"] = nullptr;
  if (page.difference)
    json["difference"] = {{"run", page.difference->run},
                          {"node", page.difference->node},
                          {"standings", listOf(page.difference->standings)}};
  json["timeline"] = listOf(page.timeline);
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

} // namespace braid
