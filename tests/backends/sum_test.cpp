//===- tests/backends/sum_test.cpp - conformance: sums of partial results ---------------------===//

#include "tests/backends/backend_test.h"
#include "tests/support/elements.h"

#include <array>
#include <cmath>
#include <cstring>

namespace braid::test {
namespace {

struct SumTypes {
  DType dtype, partial, result;
};
constexpr DType kBF16 = DType::BF16, kF16 = DType::F16, kF32 = DType::F32, kF64 = DType::F64;
constexpr SumTypes kSumTypes[] = {{kBF16, kBF16, kBF16}, {kBF16, kF32, kBF16}, {kBF16, kBF16, kF32},
                                  {kBF16, kF32, kF32},   {kF16, kF16, kF16},   {kF16, kF32, kF16},
                                  {kF16, kF16, kF32},    {kF16, kF32, kF32},   {kF32, kF32, kF32},
                                  {kF64, kF64, kF64}};

/// The alignment of all operands, which determines whether 16 bytes can be moved at once.
struct Layout {
  const char *name;
  int64_t padding;                   ///< minimum number of elements between parts
  int64_t strideOf;                  ///< strides are multiples of this number of elements
  int64_t partsAt, biasAt, resultAt; ///< offsets from an aligned address, in elements
};
constexpr Layout kLayouts[] = {
    {"aligned", 0, 16, 0, 0, 0},          {"dense", 0, 1, 0, 0, 0},
    {"padded", 32, 16, 0, 0, 0},          {"unaligned parts", 0, 16, 1, 0, 0},
    {"unaligned stride", 3, 1, 0, 0, 0},  {"unaligned bias", 0, 16, 0, 3, 0},
    {"unaligned result", 0, 16, 0, 0, 1}, {"unaligned", 5, 1, 7, 1, 5},
};

struct SumCase {
  SumTypes types;
  int64_t elements, count;
  int64_t biasElements; ///< 0 means no bias
  Layout layout;

  int64_t stride() const { ///< in elements
    const int64_t least = elements + layout.padding, of = layout.strideOf;
    return (least + of - 1) / of * of;
  }
  int64_t partElements() const { return layout.partsAt + (count - 1) * stride() + elements; }
};

std::ostream &operator<<(std::ostream &os, const SumCase &c) {
  return os << c.elements << " " << name(c.types.result).str() << " from " << c.count << " "
            << name(c.types.partial).str() << ", " << c.layout.name << ", bias of "
            << c.biasElements << " " << name(c.types.dtype).str();
}

/// Values of full precision, so that different orders of addition round differently. Half of the
/// values cancel most of the preceding sum.
class Values {
public:
  explicit Values(uint64_t seed) : state_(seed * 2 + 1) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const double digits = 1 + double(state_ >> 12) * 0x1p-52;
    const int exponent = int(state_ >> 3 & 7) - 4;
    return std::ldexp(state_ >> 6 & 1 ? -digits : digits, exponent);
  }

private:
  uint64_t state_;
};

template <class Acc> Acc at(const std::vector<double> &values, int64_t i) {
  return static_cast<Acc>(values[static_cast<size_t>(i)]); // exact
}

/// Returns the expected sums, computed in the documented order and type.
template <class Acc>
std::vector<double> summed(const SumCase &c, const std::vector<double> &parts,
                           const std::vector<double> &bias) {
  std::vector<double> sums;
  for (int64_t i = 0; i < c.elements; ++i) {
    Acc sum = 0;
    for (int64_t part = 0; part < c.count; ++part)
      sum += at<Acc>(parts, c.layout.partsAt + part * c.stride() + i);
    if (c.biasElements != 0)
      sum += at<Acc>(bias, c.layout.biasAt + i % c.biasElements);
    sums.push_back(sum);
  }
  return sums;
}

class SumTest : public BackendTest {
protected:
  static constexpr int64_t kGuard = 16; ///< elements after the result

  /// Allocates memory once for all cases, because separate allocations would dominate the run time.
  void reserve(int64_t partBytes, int64_t biasBytes, int64_t resultBytes) {
    parts_ = static_cast<char *>(allocate(partBytes));
    bias_ = static_cast<char *>(allocate(biasBytes));
    result_ = static_cast<char *>(allocate(resultBytes));
  }

  void set(void *memory, const std::vector<char> &bytes) {
    device().copy(1, tag(CommandKind::Copy), memory, bytes.data(),
                  static_cast<int64_t>(bytes.size()));
    ASSERT_EQ(message(device().synchronize()), "");
  }

  /// Returns the result's memory, including the guard bytes around the result.
  std::vector<char> onDevice(const SumCase &c, const std::vector<double> &parts,
                             const std::vector<double> &bias) {
    const auto [dtype, partial, result] = c.types;
    const int64_t elements = c.layout.resultAt + c.elements + kGuard;
    set(parts_, encodeAll(partial, parts));
    set(bias_, encodeAll(dtype, bias));
    set(result_, encodeAll(result, std::vector<double>(elements, NAN)));
    const SumArgs args{dtype,
                       partial,
                       c.elements,
                       c.count,
                       c.stride() * sizeOf(partial),
                       parts_ + c.layout.partsAt * sizeOf(partial),
                       c.biasElements ? bias_ + c.layout.biasAt * sizeOf(dtype) : nullptr,
                       c.biasElements,
                       result_ + c.layout.resultAt * sizeOf(result),
                       result,
                       /*keepsParts=*/true};
    issue(c, args);
    return download<char>(result_, elements * sizeOf(result));
  }

  void check(const SumCase &c) {
    const auto [dtype, partial, result] = c.types;
    Values values(uint64_t(c.elements * 64 + c.count));
    std::vector<double> parts(c.partElements()), bias(c.layout.biasAt + c.biasElements);
    for (double &value : parts)
      value = rounded(partial, values.next());
    for (double &value : bias)
      value = rounded(dtype, values.next());
    std::vector<double> expected =
        dtype == DType::F64 ? summed<double>(c, parts, bias) : summed<float>(c, parts, bias);
    expected.insert(expected.begin(), c.layout.resultAt, NAN);
    expected.insert(expected.end(), kGuard, NAN);
    const std::vector<char> wanted = encodeAll(result, expected), got = onDevice(c, parts, bias);
    ASSERT_EQ(got.size(), wanted.size());
    const auto size = static_cast<size_t>(sizeOf(result));
    for (size_t i = 0; i < wanted.size(); i += size)
      ASSERT_EQ(std::memcmp(got.data() + i, wanted.data() + i, size), 0)
          << c << ", element " << int64_t(i / size) - c.layout.resultAt;
  }

  virtual void issue(const SumCase &, const SumArgs &args) {
    device().compute().sum(1, tag(CommandKind::Sum), args);
  }

private:
  char *parts_ = nullptr, *bias_ = nullptr, *result_ = nullptr;
};

/// Sums of data that preceding commands of the same batch deliver: copies after signals and an
/// await, followed by the sum and another await. If kernels can copy, the copying kernel also adds.
class SumInBatchTest : public SumTest {
protected:
  static constexpr int64_t kMostBytes = 2 << 20; ///< limit for all parts together

  void start() {
    SumTest::start(1);
    const TransferMode kernels{CopyBy::Kernel, SignalBy::Default};
    mode_ = peers().offers(kernels) ? kernels : TransferMode();
    for (void *&flag : flags_)
      flag = allocate(kFlagStride, 0, peers().arenaOfFlags(mode_));
    staged_ = allocate(kMostBytes);
  }

  /// Issues the batch eagerly and, if possible, also replays it, in order to detect leftover state.
  void issue(const SumCase &c, const SumArgs &args) override {
    const int64_t bytes = (c.partElements() - c.layout.partsAt) * sizeOf(args.partial);
    ASSERT_LE(bytes, kMostBytes);
    device().copy(1, tag(CommandKind::Copy), staged_, args.parts, bytes);
    for (bool byParts : {false, true}) {
      byParts_ = byParts;
      poisonParts(args, bytes);
      issueBatch(args, bytes);
      if (device().graphs()) {
        poisonParts(args, bytes);
        replayBatch(args, bytes);
      }
    }
  }

private:
  PeerMemory &peers() { return *device().peerMemory(); }

  void poisonParts(const SumArgs &args, int64_t bytes) {
    const std::vector<char> poison(static_cast<size_t>(bytes), 0x7f);
    device().copy(1, tag(CommandKind::Copy), const_cast<void *>(args.parts), poison.data(), bytes);
    ASSERT_EQ(message(device().synchronize()), "");
  }

  /// Copies the parts with one copy, or with one copy for each part. In the second case, a kernel
  /// can add while it copies if one launch can contain all parts.
  void issueBatch(const SumArgs &args, int64_t bytes) {
    std::vector<BatchedCommand> steps;
    auto add = [&](CommandKind kind, void *flag, int64_t at = 0, int64_t moved = 0) {
      auto *parts = static_cast<char *>(const_cast<void *>(args.parts));
      steps.push_back({kind, tag(kind).command, flag, parts + at, static_cast<char *>(staged_) + at,
                       moved, &args});
    };
    for (void *flag : flags_)
      add(CommandKind::Signal, flag);
    add(CommandKind::Await, flags_[0]);
    const int64_t count = byParts_ ? args.count : 1;
    for (int64_t part = 0; part < count; ++part)
      add(CommandKind::Copy, nullptr, part * args.stride,
          byParts_ ? args.elements * sizeOf(args.partial) : bytes);
    add(CommandKind::Sum, nullptr);
    add(CommandKind::Await, flags_[1]);
    peers().issueBatch(1, tag(CommandKind::Signal, 0, ++run_), steps, /*areDisjoint=*/true, mode_);
  }

  void replayBatch(const SumArgs &args, int64_t bytes) {
    Graphs &graphs = *device().graphs();
    ASSERT_EQ(message(graphs.beginCapture()), "");
    graphs.beginRun(tagOf(plan(), CommandKind::Sum));
    issueBatch(args, bytes);
    graphs.endRun(tagOf(plan(), CommandKind::Sum));
    Result<uint32_t> graph = graphs.endCapture();
    ASSERT_TRUE(graph) << graph.status().message();
    graphs.launch(*graph, {&plan(), kNone, run_});
    ASSERT_EQ(message(device().synchronize()), "");
    graphs.releaseGraph(*graph);
    device().recycle();
  }

  TransferMode mode_;
  std::array<void *, 2> flags_ = {};
  void *staged_ = nullptr;
  bool byParts_ = false;
  uint32_t run_ = 0;
};

TEST_P(SumTest, AddsPartsInTheirOrder) {
  BRAID_NEEDS_RESULTS();
  start(1);
  reserve(64 << 10, 8 << 10, 8 << 10);
  for (SumTypes types : kSumTypes)
    for (int64_t count = 1; count <= 9; ++count)
      for (int64_t elements : {1, 5, 96, 403})
        check({types, elements, count, 0, kLayouts[(count + elements) % std::size(kLayouts)]});
}

TEST_P(SumTest, AddsABiasOfAnyWidth) {
  BRAID_NEEDS_RESULTS();
  start(1);
  reserve(96 << 10, 8 << 10, 8 << 10);
  for (SumTypes types : kSumTypes)
    for (const Layout &layout : kLayouts)
      for (int64_t count : {2, 3, 8, 10, 17, 31})
        // The bias is as long as a part or repeats. Some sizes are not multiples of 16 bytes.
        for (auto [elements, biasElements] : {std::pair<int64_t, int64_t>{160, 160},
                                              {96, 24},
                                              {96, 8},
                                              {320, 32},
                                              {77, 77},
                                              {135, 45},
                                              {12, 1}})
          check({types, elements, count, biasElements, layout});
}

/// Each GPU thread has several elements, and a remainder of less than 16 bytes is left.
TEST_P(SumTest, AddsLongParts) {
  BRAID_NEEDS_RESULTS();
  start(1);
  const SumTypes floats{kF32, kF32, kF32}, halves{kBF16, kBF16, kBF16}, widened{kBF16, kBF16, kF32};
  reserve(12 << 20, 1 << 20, 3 << 20);
  check({widened, 420003, 5, 1000, kLayouts[0]});
  check({floats, 560003, 5, 1004, kLayouts[0]});
  check({halves, 420003, 5, 1001, kLayouts[std::size(kLayouts) - 1]});
}

TEST_P(SumTest, RoundsOnce) {
  BRAID_NEEDS_RESULTS();
  start(1);
  // Computes 256 + 1 + 1 + 1 + 1. bf16 numbers near 256 are 2 apart, so early rounding gives 256.
  std::vector<double> parts{256, 1, 1, 1}, bias{1};
  char *from = upload(encodeAll(DType::BF16, parts)), *last = upload(encodeAll(DType::BF16, bias));
  char *to = upload(encodeAll(DType::BF16, {NAN}));
  device().compute().sum(
      1, tag(CommandKind::Sum),
      {DType::BF16, DType::BF16, 1, 4, sizeOf(DType::BF16), from, last, 1, to, DType::BF16, true});
  EXPECT_EQ(decodeAll(DType::BF16, download<char>(to, 2)), std::vector<double>{260});
}

TEST_P(SumInBatchTest, AddsWhatWasBrought) {
  BRAID_NEEDS_RESULTS();
  start();
  reserve(64 << 10, 8 << 10, 8 << 10);
  for (SumTypes types : kSumTypes)
    for (int64_t count : {1, 2, 3, 8, 9, 17})
      for (int64_t elements : {1, 96, 403})
        for (int64_t biasElements : {int64_t(0), elements})
          check({types, elements, count, biasElements,
                 kLayouts[(count + elements) % std::size(kLayouts)]});
}

TEST_P(SumInBatchTest, AddsAtAnyAddress) {
  BRAID_NEEDS_RESULTS();
  start();
  reserve(64 << 10, 8 << 10, 8 << 10);
  for (SumTypes types : kSumTypes)
    for (const Layout &layout : kLayouts)
      check({types, 135, 2, 45, layout});
  check({kSumTypes[0], 0, 2, 0, kLayouts[0]});
}

/// Each waiting thread of a GPU has a few groups; the last sum needs a separate kernel.
TEST_P(SumInBatchTest, AddsLongParts) {
  BRAID_NEEDS_RESULTS();
  start();
  const SumTypes floats{kF32, kF32, kF32}, halves{kBF16, kBF16, kBF16};
  const Layout &aligned = kLayouts[0], &unaligned = kLayouts[std::size(kLayouts) - 1];
  reserve(kMostBytes + 64, 8 << 10, kMostBytes);
  check({floats, 262000, 2, 1000, aligned});
  check({floats, 130000, 4, 0, aligned});
  check({halves, 100001, 2, 1001, unaligned});
  check({halves, 250001, 2, 1001, unaligned});
}

BRAID_CONFORMANCE(SumTest);
BRAID_CONFORMANCE(SumInBatchTest);

} // namespace
} // namespace braid::test
