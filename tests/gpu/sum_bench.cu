//===- tests/gpu/sum_bench.cu - sums of partial results, compared with memory bandwidth -------===//
//
// Prints a table of sums of many sizes, and of copies within memory that move the same number of
// bytes. Each time is the median of 21 measurements, for several launches in a row and for single
// launches. Successive launches use different buffers, so that no buffer is in the cache. Each sum
// is first compared bit by bit with the sum of a simple kernel. Exits with 77 if there is no GPU,
// and with 1 if a sum is wrong.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/kernels.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using braid::cuda::Element;
using braid::cuda::Sum;

constexpr double kNominalTBs = 4.8; ///< bandwidth of an H200's memory
constexpr int64_t kMiB = 1 << 20;
/// Size of each of two pools, one for reads and one for writes.
constexpr int64_t kPoolBytes = 1100 * kMiB;
constexpr int64_t kMostInTurns = 256 * kMiB; ///< several times the size of the cache
constexpr int kMeasurements = 21;
constexpr int kIssueMicroseconds = 5; ///< upper bound for the host's time to issue one launch

void check(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  std::printf("%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

struct Kind {
  const char *name;
  Element element, partial, result;
  int64_t size, partialSize; ///< element sizes of the result and of a part, in bytes
  int64_t shift; ///< offset of all addresses from alignment, and padding between parts, in elements
  bool hasBias;  ///< adds a bias of kBiasElements
};
constexpr int64_t kBiasElements = 8192;
constexpr Kind kKinds[] = {
    {"bf16 -> bf16", Element::BF16, Element::BF16, Element::BF16, 2, 2, 0, false},
    {"bf16 -> bf16, bias", Element::BF16, Element::BF16, Element::BF16, 2, 2, 0, true},
    {"f32 -> bf16", Element::BF16, Element::F32, Element::BF16, 2, 4, 0, false},
    {"bf16 -> f32", Element::BF16, Element::BF16, Element::F32, 4, 2, 0, false},
    {"f32 -> f32", Element::F32, Element::F32, Element::F32, 4, 4, 0, false},
    {"bf16 -> bf16, unaligned", Element::BF16, Element::BF16, Element::BF16, 2, 2, 1, false},
};

/// A kind and a size.
struct Case {
  const Kind *kind;
  int64_t parts, elements;

  int64_t stride() const { return (elements + kind->shift) * kind->partialSize; }
  int64_t readBytes() const { return parts * elements * kind->partialSize; }
  int64_t writtenBytes() const { return elements * kind->size; }
  int64_t movedBytes() const { return readBytes() + writtenBytes(); }
  /// Returns the size of one buffer, including padding before the next buffer.
  int64_t sourceBytes() const { return padded(parts * stride() + kind->partialSize); }
  int64_t resultBytes() const { return padded(writtenBytes() + kind->size); }
  int64_t turns() const {
    const int64_t wanted = kMostInTurns / movedBytes() + 1;
    return std::min({wanted, kPoolBytes / sourceBytes(), kPoolBytes / resultBytes()});
  }
  static int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }
};

template <class T> __device__ T element(const void *base, int64_t i) {
  return static_cast<const T *>(base)[i];
}

template <class T> __device__ uint32_t bitsOf(T value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(value));
  return bits;
}

/// Adds in the documented order and counts the elements of dst whose bits differ.
template <class T, class Partial, class Result>
__global__ void compareKernel(Sum sum, unsigned long long *wrong) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < sum.elements; i += step) {
    float total = 0;
    for (int64_t part = 0; part < sum.count; ++part)
      total = __fadd_rn(total, static_cast<float>(element<Partial>(
                                   static_cast<const char *>(sum.parts) + part * sum.stride, i)));
    if (sum.bias)
      total = __fadd_rn(total, static_cast<float>(element<T>(sum.bias, i % sum.biasElements)));
    if (bitsOf(static_cast<Result>(total)) != bitsOf(element<Result>(sum.dst, i)))
      atomicAdd(wrong, 1ull);
  }
}

class Bench {
public:
  Bench();
  ~Bench();

  void compare(const Case &c);
  /// Returns the time of a sum in microseconds, for one launch (`isAlone`) or for several in a row.
  double sumUs(const Case &c, bool isAlone);
  double copyUs(const Case &c);
  unsigned long long wrong() const { return wrong_; }
  /// Fills the sources with numbers of this type, because the bits of one type may be NaNs in
  /// another.
  void fill(Element partial);

private:
  Sum sumOf(const Case &c, int64_t turn) const;
  template <class Launch> double median(int count, Launch launch);
  int launchesInRow(const Case &c) const;

  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  char *source_ = nullptr, *result_ = nullptr, *bias_ = nullptr;
  unsigned long long *count_ = nullptr;
  unsigned long long wrong_ = 0;
  int64_t next_ = 0; ///< index of the next buffer
};

Bench::Bench() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&before_), "cudaEventCreate");
  check(cudaEventCreate(&after_), "cudaEventCreate");
  check(cudaMalloc(&source_, kPoolBytes), "cudaMalloc");
  check(cudaMalloc(&result_, kPoolBytes), "cudaMalloc");
  check(cudaMalloc(&bias_, kBiasElements * 8), "cudaMalloc");
  check(cudaMalloc(&count_, sizeof(*count_)), "cudaMalloc");
  check(braid::cuda::loadKernels(), "loadKernels");
}

Bench::~Bench() {
  for (void *memory : {static_cast<void *>(source_), static_cast<void *>(result_),
                       static_cast<void *>(bias_), static_cast<void *>(count_)})
    cudaFree(memory);
  cudaEventDestroy(before_);
  cudaEventDestroy(after_);
  cudaStreamDestroy(stream_);
}

void Bench::fill(Element partial) {
  const int64_t size = partial == Element::F32 ? 4 : 2;
  braid::cuda::launchRandom(stream_, partial, source_, kPoolBytes / size, 1);
  check(cudaStreamSynchronize(stream_), "launchRandom");
}

Sum Bench::sumOf(const Case &c, int64_t turn) const {
  const Kind &kind = *c.kind;
  return {kind.element,
          kind.partial,
          c.elements,
          c.parts,
          c.stride(),
          source_ + turn * c.sourceBytes() + kind.shift * kind.partialSize,
          kind.hasBias ? bias_ : nullptr,
          kBiasElements,
          result_ + turn * c.resultBytes() + kind.shift * kind.size,
          kind.result};
}

void Bench::compare(const Case &c) {
  const Sum sum = sumOf(c, c.turns() - 1);
  braid::cuda::launchRandom(stream_, c.kind->element, bias_, kBiasElements, 2);
  check(cudaMemsetAsync(sum.dst, 0xff, c.writtenBytes(), stream_), "cudaMemset");
  check(cudaMemsetAsync(count_, 0, sizeof(*count_), stream_), "cudaMemset");
  braid::cuda::launchSum(stream_, sum);
  check(cudaGetLastError(), "launchSum");
  using Half = __nv_bfloat16;
  if (c.kind->element == Element::F32)
    compareKernel<float, float, float><<<1024, 256, 0, stream_>>>(sum, count_);
  else if (c.kind->partial == Element::F32)
    compareKernel<Half, float, Half><<<1024, 256, 0, stream_>>>(sum, count_);
  else if (c.kind->result == Element::F32)
    compareKernel<Half, Half, float><<<1024, 256, 0, stream_>>>(sum, count_);
  else
    compareKernel<Half, Half, Half><<<1024, 256, 0, stream_>>>(sum, count_);
  unsigned long long wrong = 0;
  check(cudaMemcpyAsync(&wrong, count_, sizeof(wrong), cudaMemcpyDeviceToHost, stream_), "memcpy");
  check(cudaStreamSynchronize(stream_), "compareKernel");
  if (wrong != 0)
    std::printf("WRONG: %s, %lld parts of %lld: %llu elements differ\n", c.kind->name,
                static_cast<long long>(c.parts), static_cast<long long>(c.elements), wrong);
  wrong_ += wrong;
}

/// Returns the number of launches that take about 300 us.
int Bench::launchesInRow(const Case &c) const {
  const double us = static_cast<double>(c.movedBytes()) / 4e6 + 2;
  return static_cast<int>(std::clamp(300 / us, 1.0, 50.0));
}

template <class Launch> double Bench::median(int count, Launch launch) {
  std::vector<double> times;
  for (int i = 0; i < kMeasurements + 2; ++i) { // the first two are warm-ups
    // All launches are issued before the first one starts, so that the host's time does not count.
    braid::cuda::launchDelay(stream_, static_cast<uint32_t>(20 + count * kIssueMicroseconds));
    check(cudaEventRecord(before_, stream_), "cudaEventRecord");
    for (int each = 0; each < count; ++each)
      launch();
    check(cudaEventRecord(after_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(after_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, before_, after_), "cudaEventElapsedTime");
    times.push_back(static_cast<double>(milliseconds) * 1000 / count);
  }
  times.erase(times.begin(), times.begin() + 2);
  std::nth_element(times.begin(), times.begin() + kMeasurements / 2, times.end());
  return times[kMeasurements / 2];
}

double Bench::sumUs(const Case &c, bool isAlone) {
  const int64_t turns = c.turns();
  return median(isAlone ? 1 : launchesInRow(c),
                [&] { braid::cuda::launchSum(stream_, sumOf(c, next_++ % turns)); });
}

double Bench::copyUs(const Case &c) {
  const int64_t bytes = c.movedBytes() / 2;
  const int64_t turns = std::min(kMostInTurns / bytes + 1, kPoolBytes / Case::padded(bytes));
  return median(launchesInRow(c), [&] {
    const int64_t at = next_++ % turns * Case::padded(bytes);
    check(cudaMemcpyAsync(result_ + at, source_ + at, static_cast<size_t>(bytes),
                          cudaMemcpyDeviceToDevice, stream_),
          "cudaMemcpyAsync");
  });
}

double terabytes(const Case &c, double us) {
  return static_cast<double>(c.movedBytes()) / us / 1e6;
}
double percent(const Case &c, double us) { return terabytes(c, us) / kNominalTBs * 100; }

void printCase(Bench &bench, const Case &c) {
  bench.compare(c);
  const double us = bench.sumUs(c, false), alone = bench.sumUs(c, true), copy = bench.copyUs(c);
  std::printf("%-24s %5lld %9.3f %9.3f | %9.2f %6.3f %6.1f | %9.2f | %9.2f %6.3f %6.1f\n",
              c.kind->name, static_cast<long long>(c.parts),
              static_cast<double>(c.readBytes()) / kMiB, static_cast<double>(c.movedBytes()) / kMiB,
              us, terabytes(c, us), percent(c, us), alone, copy, terabytes(c, copy),
              percent(c, copy));
}

void printTable(Bench &bench) {
  std::printf("%-24s %5s %9s %9s | %9s %6s %6s | %9s | %9s %6s %6s\n", "sum", "parts", "read MiB",
              "moved MiB", "us", "TB/s", "%", "alone us", "copy us", "TB/s", "%");
  for (const Kind &kind : kKinds) {
    bench.fill(kind.partial);
    for (int64_t parts : {2, 4, 8})
      printCase(bench, {&kind, parts, 16 * 8192});
    for (int64_t mebibytes : {1, 4, 16, 64, 256, 1024})
      for (int64_t parts : {2, 4, 8})
        printCase(bench, {&kind, parts, mebibytes * kMiB / parts / kind.partialSize});
  }
}

} // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: expected a GPU, found none\n");
    return 77;
  }
  Bench bench;
  printTable(bench);
  std::printf(bench.wrong() == 0 ? "all sums are right\n" : "some sums are WRONG\n");
  return bench.wrong() == 0 ? 0 : 1;
}
