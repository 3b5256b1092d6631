//===- tests/runtime/trace_test.cpp - parses the JSON output of a trace -----------------------===//
#include "runtime/execute/trace.h"
#include "tests/support/json.h"

#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace braid;
using test::Json;

namespace {

/// The Plans of two ranks: rank 0 sends 64 bytes to rank 1. Command 0 copies locally on stream 0.
/// The transfer is on stream 1, and a command of kind `move` transfers its data.
class TwoRanks {
public:
  explicit TwoRanks(Protocol protocol, CommandKind move = CommandKind::Copy)
      : protocol_(protocol), move_(move) {
    for (int64_t rank = 0; rank < 2; ++rank)
      plans_.push_back(makePlan(rank));
    add(0, CommandKind::Copy, false);
    add(1, CommandKind::Copy, false);
    const bool get = protocol == Protocol::Get;
    add(get ? 0 : 1, CommandKind::Signal, true);
    add(get ? 1 : 0, CommandKind::Await, true);
    add(get ? 1 : 0, move, true);
    add(get ? 1 : 0, CommandKind::Signal, true);
    add(get ? 0 : 1, CommandKind::Await, true);
  }

  Plan &plan(int64_t rank) { return plans_[rank]; }

  /// Returns two runs of both ranks. Commands take 1.5 microseconds, and streams do not overlap.
  std::vector<RankTrace> traces() const {
    std::vector<RankTrace> traces;
    for (const Plan &plan : plans_) {
      RankTrace trace{&plan, {}};
      int64_t at = 1000000 + 100 * plan.rank;
      for (uint32_t run = 1; run <= 2; ++run)
        for (uint32_t i = 0; i < plan.commands.size(); ++i, at += 1500)
          trace.spans.push_back({{&plan, i, run}, plan.commands[i].stream, at, at + 1500});
      traces.push_back(trace);
    }
    return traces;
  }

private:
  Plan makePlan(int64_t rank) const {
    Plan plan;
    plan.program = "p";
    plan.sourceName = "two.braid";
    plan.rank = rank;
    plan.ranks = 2;
    plan.buffers = {{BufferKind::Symmetric, 64, 0, "x"}};
    plan.streams = {"%main", "stream(0) \"quoted\"\\\n"};
    plan.sites = {{{3, 5}, "set %x, %y"}, {{7, 9}, "%r = p2p recv \"%x\" from 0 via %h"}};
    plan.trips = {4, 2};
    plan.origins = {{0, 0, 0}, {1, 0, 2}};
    plan.endpoints = {{rank == 0 ? Direction::Send : Direction::Receive,
                       protocol_,
                       1 - rank,
                       0,
                       0,
                       {rank == 0 && move_ != CommandKind::Copy ? kPeerBuffer : 0, 0, 64},
                       DType::F32,
                       0,
                       1}};
    plan.matmuls = {{DType::F32, 4, 4, 4, false, {0, 0, 64}, {0, 0, 64}, {kPeerBuffer, 0, 64}, {}}};
    return plan;
  }

  void add(int64_t rank, CommandKind kind, bool transfers) {
    Command command;
    command.kind = kind;
    command.stream = command.origin = transfers ? 1 : 0;
    command.endpoint = transfers ? 0 : kNone;
    command.dst = command.src = {0, 0, 64};
    command.matmul = kind == CommandKind::Matmul ? 0 : kNone;
    if (transfers && kind == CommandKind::Copy)
      (protocol_ == Protocol::Get ? command.src : command.dst) = {kPeerBuffer, 0, 0};
    plans_[rank].commands.push_back(command);
  }

  Protocol protocol_;
  CommandKind move_;
  std::vector<Plan> plans_;
};

std::string textOf(llvm::ArrayRef<RankTrace> traces) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTrace(traces, os);
  return os.str();
}

std::vector<Json> eventsOf(llvm::ArrayRef<RankTrace> traces, const std::string &phase) {
  std::vector<Json> events;
  for (const Json &event : Json::parse(textOf(traces))["traceEvents"].elements())
    if (event["ph"] == phase)
      events.push_back(event);
  return events;
}

/// Returns the slice on the arrow's track that contains the arrow's end.
Json sliceAround(const std::vector<Json> &slices, const Json &end) {
  const double at = end["ts"].number();
  for (const Json &slice : slices) {
    const double begin = slice["ts"].number(), duration = slice["dur"].number();
    if (slice["pid"] == end["pid"] && slice["tid"] == end["tid"] && begin <= at &&
        at < begin + duration)
      return slice;
  }
  ADD_FAILURE() << "no slice around " << end;
  return end;
}

TEST(Trace, NamesProcessesAndTracks) {
  TwoRanks ranks(Protocol::Get);
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, std::string> tracks;
  for (const Json &event : eventsOf(ranks.traces(), "M")) {
    if (event["name"] == "process_name")
      processes[event["pid"].integer()] = event["args"]["name"].text();
    if (event["name"] == "thread_name")
      tracks[{event["pid"].integer(), event["tid"].integer()}] = event["args"]["name"].text();
  }
  EXPECT_EQ(processes, (std::map<int64_t, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  ASSERT_EQ(tracks.size(), 4u);
  for (int64_t rank = 0; rank < 2; ++rank)
    for (size_t stream = 0; stream < 2; ++stream)
      EXPECT_EQ((tracks[{rank, stream}]), ranks.plan(rank).streams[stream]);
}

TEST(Trace, DescribesEveryCommand) {
  TwoRanks ranks(Protocol::Get);
  const std::vector<Json> slices = eventsOf(ranks.traces(), "X");
  ASSERT_EQ(slices.size(), 2u * (3 + 4));
  const auto copy = std::find_if(slices.begin(), slices.end(), [](const Json &slice) {
    return slice["name"] == "copy" && slice["tid"] == 1 && slice["args"]["run"] == 2;
  });
  ASSERT_NE(copy, slices.end());
  EXPECT_EQ((*copy)["pid"], 1);
  EXPECT_EQ((*copy)["args"], JsonValue(JsonObject{{"node", "%r = p2p recv \"%x\" from 0 via %h"},
                                                  {"place", "two.braid:7:9"},
                                                  {"trip", JsonArray{4, 2}},
                                                  {"run", 2},
                                                  {"command", 2},
                                                  {"bytes", 64}}));
  EXPECT_FALSE(slices[0]["args"].contains("trip"));
  EXPECT_EQ(slices[0]["ts"], 0.0);
  EXPECT_EQ(slices[0]["dur"], 1.5);
}

TEST(Trace, KeepsNanosecondsLongAfterTheStart) {
  TwoRanks ranks(Protocol::Get);
  std::vector<RankTrace> traces = ranks.traces();
  traces[1].spans.back().beginNs = 1000000 + 86400000000001;
  traces[1].spans.back().endNs = 1000000 + 86400000000004;
  EXPECT_THAT(textOf(traces), testing::HasSubstr("\"ts\":86400000000.001,\"dur\":0.003"));
}

TEST(Trace, SlicesOfATrackDoNotOverlap) {
  TwoRanks ranks(Protocol::Put);
  std::vector<RankTrace> traces = ranks.traces();
  std::reverse(traces[0].spans.begin(), traces[0].spans.end());
  std::map<std::pair<int64_t, int64_t>, double> endOf;
  for (const Json &slice : eventsOf(traces, "X")) {
    double &end = endOf[{slice["pid"].integer(), slice["tid"].integer()}];
    EXPECT_GE(slice["ts"].number(), end);
    end = slice["ts"].number() + slice["dur"].number();
  }
  EXPECT_EQ(endOf.size(), 4u);
}

class TraceArrows : public testing::TestWithParam<Protocol> {};

TEST_P(TraceArrows, GoFromTheSenderToTheReceiver) {
  TwoRanks ranks(GetParam());
  const bool get = GetParam() == Protocol::Get;
  const std::vector<Json> slices = eventsOf(ranks.traces(), "X");
  const std::vector<Json> starts = eventsOf(ranks.traces(), "s");
  const std::vector<Json> finishes = eventsOf(ranks.traces(), "f");
  ASSERT_EQ(starts.size(), 2u);
  ASSERT_EQ(finishes.size(), 2u);
  std::set<int64_t> ids;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(ids.insert(starts[i]["id"].integer()).second);
    EXPECT_EQ(starts[i]["id"], finishes[i]["id"]);
    EXPECT_EQ(finishes[i]["bp"], "e");
    const Json from = sliceAround(slices, starts[i]), to = sliceAround(slices, finishes[i]);
    EXPECT_EQ(from["pid"], 0);
    EXPECT_EQ(to["pid"], 1);
    EXPECT_EQ(from["name"], get ? "signal" : "copy");
    EXPECT_EQ(to["name"], get ? "copy" : "await");
    EXPECT_EQ(from["args"]["run"], int64_t(i + 1));
    EXPECT_EQ(to["args"]["run"], int64_t(i + 1));
  }
}

TEST(Trace, DrawsArrowsFromWhatIsComputedAtThePeer) {
  TwoRanks ranks(Protocol::Put, CommandKind::Matmul);
  const std::vector<Json> slices = eventsOf(ranks.traces(), "X");
  const std::vector<Json> starts = eventsOf(ranks.traces(), "s");
  ASSERT_EQ(starts.size(), 2u);
  const Json from = sliceAround(slices, starts[0]);
  EXPECT_EQ(from["name"], "matmul");
  EXPECT_EQ(from["args"]["bytes"], 64);
}

INSTANTIATE_TEST_SUITE_P(Protocols, TraceArrows, testing::Values(Protocol::Get, Protocol::Put));

TEST(Trace, DrawsOnlyWholeArrows) {
  TwoRanks ranks(Protocol::Get);
  std::vector<RankTrace> traces = ranks.traces();
  traces[1].spans.resize(4); // the second run of rank 1 is missing
  EXPECT_EQ(eventsOf(traces, "s").size(), 1u);
  EXPECT_EQ(eventsOf(traces, "f").size(), 1u);
}

TEST(Trace, DoesNotDependOnTheOrderOfSpans) {
  TwoRanks ranks(Protocol::Put);
  std::vector<RankTrace> traces = ranks.traces();
  const std::string text = textOf(traces);
  for (RankTrace &trace : traces)
    std::reverse(trace.spans.begin(), trace.spans.end());
  EXPECT_EQ(textOf(traces), text);
}

TEST(Trace, IsValidWithoutSpans) {
  TwoRanks ranks(Protocol::Get);
  EXPECT_EQ(eventsOf({}, "X").size(), 0u);
  const RankTrace empty{&ranks.plan(0), {}};
  EXPECT_EQ(eventsOf(empty, "X").size(), 0u);
  EXPECT_EQ(eventsOf(empty, "M").size(), 6u);
}

} // namespace
