//===- tests/backends/trace_test.cpp - conformance: spans -------------------------------------===//

#include "runtime/job/bootstrap/job_memory.h"
#include "tests/backends/backend_test.h"

#include <algorithm>

namespace braid::test {
namespace {

class TraceTest : public BackendTest {
protected:
  std::vector<Span> sortedTrace(int64_t rank = 0) {
    std::vector<Span> spans = device(rank).tracer()->takeTrace();
    std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) {
      return std::pair(a.tag.run, a.tag.command) < std::pair(b.tag.run, b.tag.command);
    });
    return spans;
  }
};

TEST_P(TraceTest, HasASpanForEveryCommand) {
  BRAID_NEEDS_RESULTS();
  start(1);
  char *flag = allocateFlags(1);
  float *a = upload<float>({1}), *b = upload<float>({2}), *c = upload<float>({0});
  EXPECT_TRUE(device().compute().warm({DType::F32, 1, 1, 1, false, {}, {}, {}, {}}).isOk());
  EXPECT_TRUE(device().tracer()->takeTrace().empty()) << "nothing was asked for yet";
  device().tracer()->startTrace();
  device().copy(1, tag(CommandKind::Copy), c, a, sizeof(float));
  device().compute().matmul(
      1, tag(CommandKind::Matmul),
      {DType::F32, false, 1, 1, 1, a, b, nullptr, nullptr, c, false, DType::F32});
  device().compute().sum(
      1, tag(CommandKind::Sum),
      {DType::F32, DType::F32, 1, 1, sizeof(float), a, b, 1, c, DType::F32, true});
  device().compute().pointwise(1, tag(CommandKind::Pointwise),
                               {DType::F32, 1, c, {DType::F32, a}, 0, {}});
  signal(device(), 1, tag(CommandKind::Signal), flag, 1);
  await(device(), 1, tag(CommandKind::Await), flag, 1);
  device().record(1, tag(CommandKind::Record), 0);
  device().waitEvent(2, tag(CommandKind::WaitEvent), 0);
  EXPECT_TRUE(device().synchronize().isOk());
  std::vector<Span> spans = sortedTrace();
  ASSERT_EQ(spans.size(), 8u);
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(spans[i].tag.plan, &plan());
    EXPECT_EQ(spans[i].tag.command, i);
    EXPECT_EQ(spans[i].tag.run, 1u);
    EXPECT_EQ(spans[i].stream, i == 7 ? 2u : 1u);
    EXPECT_LE(spans[i].beginNs, spans[i].endNs);
    if (i > 0 && i < 7) {
      EXPECT_LE(spans[i - 1].endNs, spans[i].beginNs);
    }
  }
  EXPECT_GE(spans[7].endNs, spans[6].beginNs) << "a wait cannot end before its record began";
}

TEST_P(TraceTest, IsTakenOnce) {
  BRAID_NEEDS_RESULTS();
  start(1);
  device().tracer()->startTrace();
  for (uint32_t run = 1; run <= 700; ++run)
    device().record(run % 4, tag(CommandKind::Record, 0, run), run % 4);
  EXPECT_TRUE(device().synchronize().isOk());
  EXPECT_EQ(device().tracer()->takeTrace().size(), 700u);
  EXPECT_TRUE(device().tracer()->takeTrace().empty());
  device().record(0, tag(CommandKind::Record, 0, 701), 0);
  EXPECT_TRUE(device().synchronize().isOk());
  ASSERT_EQ(device().tracer()->takeTrace().size(), 1u);
}

/// The work takes as long as a medium GEMM. If the host slept between polls, it would return 70 us
/// late.
TEST_P(TraceTest, SynchronizeReturnsSoonAfterTheEnd) {
  BRAID_NEEDS_RESULTS();
  if (GetParam().backend != "cuda")
    GTEST_SKIP() << "for good: this host's own threads do the work, and may be in its way";
  constexpr uint32_t kRuns = 21, kCopies = 20;
  constexpr int64_t kBytes = int64_t(64) << 20;
  start(1);
  void *from = allocate(kBytes), *to = allocate(kBytes);
  std::vector<int64_t> returned;
  device().tracer()->startTrace();
  for (uint32_t run = 0; run < kRuns; ++run) {
    for (uint32_t i = 0; i < kCopies; ++i)
      device().copy(1, tag(CommandKind::Copy, 0, run), to, from, kBytes);
    EXPECT_TRUE(device().synchronize().isOk());
    returned.push_back(static_cast<int64_t>(monotonicNs()));
  }
  std::vector<int64_t> ended(kRuns), late;
  for (const Span &span : device().tracer()->takeTrace())
    ended[span.tag.run] = std::max(ended[span.tag.run], span.endNs);
  for (uint32_t run = 0; run < kRuns; ++run)
    late.push_back(returned[run] - ended[run]);
  std::nth_element(late.begin(), late.begin() + kRuns / 2, late.end());
  EXPECT_LT(late[kRuns / 2], 20000) << "nanoseconds, in half of all runs";
  EXPECT_GT(late[kRuns / 2], -20000) << "or the clocks do not agree";
}

/// Regardless of when the trace starts, spans lie between two readings of the host's clock: before
/// the commands are issued and after they are complete.
TEST_P(TraceTest, EveryStartFindsTheHostsClock) {
  BRAID_NEEDS_RESULTS();
  start(1);
  float *a = upload<float>({1}), *c = upload<float>({0});
  std::vector<int64_t> outside;
  for (uint32_t run = 0; run < 51; ++run) {
    device().tracer()->startTrace();
    const auto before = static_cast<int64_t>(monotonicNs());
    device().copy(0, tag(CommandKind::Copy, 0, run), c, a, sizeof(float));
    EXPECT_TRUE(device().synchronize().isOk());
    const auto after = static_cast<int64_t>(monotonicNs());
    const std::vector<Span> spans = device().tracer()->takeTrace();
    ASSERT_EQ(spans.size(), 1u);
    outside.push_back(std::max(before - spans[0].beginNs, spans[0].endNs - after));
  }
  std::nth_element(outside.begin(), outside.begin() + 25, outside.end());
  EXPECT_LT(outside[25], 10000) << "nanoseconds, in half of all runs";
}

BRAID_CONFORMANCE(TraceTest);

} // namespace
} // namespace braid::test
