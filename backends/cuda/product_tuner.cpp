//===- backends/cuda/product_tuner.cpp - finds the fastest algorithm of a product -------------===//

#include "backends/cuda/product_tuner.h"

#include "backends/cuda/cuda_status.h"
#include "backends/cuda/elements.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCandidates = 32; ///< that the library is asked for
constexpr size_t kFinalists = 4;
constexpr int kLeastRounds = 2, kMostRounds = 11; ///< of the finalists
constexpr double kBatch = 400;                    ///< microseconds that are measured at once, about
constexpr double kMostInBatch = 50;               ///< products
constexpr std::chrono::milliseconds kWarmUp{10};  ///< until the clocks are up
constexpr int64_t kMostCopies = 16;               ///< of the operands
constexpr double kLeastGain = 0.005;              ///< that counts as faster, whatever the noise
constexpr double kLaunchMicroseconds = 8;         ///< generously, of the host, for one product

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// How far off the median half of the values are.
double spread(const std::vector<double> &values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (double value : values)
    distances.push_back(std::abs(value - middle));
  return median(distances);
}

struct Candidate {
  LtProduct::Algorithm algorithm;
  bool isFirst;                    ///< the library's first guess
  double once = 0;                 ///< microseconds, measured in the first pass
  std::vector<double> rounds = {}; ///< microseconds, in the second
};

/// Whether the median of `candidate` is lower by more than what both vary.
bool isClearlyFaster(const Candidate &candidate, const Candidate &first) {
  const double gain = median(first.rounds) - median(candidate.rounds);
  const double noise = spread(first.rounds) + spread(candidate.rounds);
  return gain > std::max(noise, kLeastGain * median(first.rounds));
}

/// A stream, two events, and operands.
class Tuning {
public:
  Tuning(LtProduct &product, const PlanMatmul &shape, void *workspace, Clock::time_point end)
      : product_(product), shape_(shape), workspace_(workspace), end_(end) {}
  ~Tuning();

  Result<TunedProduct> run();

private:
  Status prepare();
  Status fillOperands();
  Status warmUp();
  Status measureAll();
  Status compareFinalists();
  Result<double> measure(const LtProduct::Algorithm &algorithm, int count);
  bool isOver(double share) const;

  LtProduct &product_;
  const PlanMatmul &shape_;
  void *const workspace_;
  const Clock::time_point begin_ = Clock::now(), end_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  char *memory_ = nullptr;
  std::vector<MatmulArgs> operands_; ///< copies, to be used in turn
  size_t next_ = 0;                  ///< of operands_
  int batch_ = 1;                    ///< products that are measured at once
  std::vector<Candidate> candidates_;
};

Tuning::~Tuning() {
  if (stream_) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  for (cudaEvent_t event : {before_, after_})
    if (event)
      cudaEventDestroy(event);
  cudaFree(memory_);
}

Status Tuning::prepare() {
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreate(&before_));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreate(&after_));
  Result<std::vector<LtProduct::Algorithm>> found = product_.candidates(kCandidates);
  if (!found)
    return found.status();
  for (const LtProduct::Algorithm &algorithm : *found)
    candidates_.push_back({algorithm, candidates_.empty()});
  return fillOperands();
}

/// As many copies as make sure that an operand has left the cache when its turn comes again: in a
/// run, a product's operands were written or read last when much else went through. Random values:
/// zeros take less power, so they multiply faster.
Status Tuning::fillOperands() {
  int device = 0, cache = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  const int64_t element = sizeOf(shape_.dtype);
  auto bytesOf = [&](int64_t elements) { return (elements * element + 255) / 256 * 256; };
  const int64_t a = bytesOf(shape_.m * shape_.k), b = bytesOf(shape_.k * shape_.n),
                c = bytesOf(shape_.m * shape_.n), all = a + b + c;
  const int64_t copies = std::min(cache / all + 1, kMostCopies);
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaMalloc(reinterpret_cast<void **>(&memory_), static_cast<size_t>(copies * all)));
  for (int64_t i = 0; i < copies; ++i) {
    char *begin = memory_ + i * all;
    operands_.push_back({shape_.dtype, shape_.transposeB, shape_.m, shape_.n, shape_.k, begin,
                         begin + a, nullptr, begin + a + b});
    cuda::launchRandom(stream_, elementOf(shape_.dtype), begin, (a + b) / element,
                       static_cast<uint32_t>(i));
  }
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return Status::ok();
}

/// Microseconds of one of `count` products in a row. Unsupported: it cannot be done this way.
Result<double> Tuning::measure(const LtProduct::Algorithm &algorithm, int count) {
  product_.use(algorithm);
  // All are issued before the first one begins, so that what is measured is not the host.
  cuda::launchDelay(stream_, static_cast<uint32_t>(count * kLaunchMicroseconds));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(before_, stream_));
  for (int i = 0; i < count; ++i)
    if (Status status = product_.launch(stream_, workspace_, operands_[next_++ % operands_.size()]);
        !status.isOk())
      return status;
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(after_, stream_));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(after_));
  float milliseconds = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, before_, after_));
  return double(milliseconds) * 1000 / count;
}

/// That share of the time is over.
bool Tuning::isOver(double share) const { return Clock::now() - begin_ >= share * (end_ - begin_); }

/// Also finds out how many products to measure at once.
Status Tuning::warmUp() {
  const Clock::time_point end = Clock::now() + kWarmUp;
  do {
    Result<double> time = measure(candidates_.front().algorithm, 1);
    if (!time)
      return time.status();
    batch_ = static_cast<int>(std::clamp(kBatch / *time, 1.0, kMostInBatch));
  } while (Clock::now() < end);
  return Status::ok();
}

/// First pass: each of them once, to load it, and then a batch.
Status Tuning::measureAll() {
  constexpr double kShare = 0.6; // of the time; the library has put the better ones first
  std::vector<Candidate> measured;
  for (Candidate &candidate : candidates_) {
    if (measured.size() >= 2 && isOver(kShare))
      break;
    Result<double> time = measure(candidate.algorithm, 1);
    if (time)
      time = measure(candidate.algorithm, batch_);
    if (!time && time.status().code() == StatusCode::Unsupported)
      continue; // listed, but not for this device and shape after all
    if (!time)
      return time.status();
    candidate.once = *time;
    measured.push_back(candidate);
  }
  candidates_ = std::move(measured);
  return candidates_.empty() ? Status(StatusCode::Unsupported, "no algorithm of cuBLASLt works")
                             : Status::ok();
}

/// Second pass: the best ones and the library's first in turn, so that what changes with time,
/// clocks above all, does not favour one of them.
Status Tuning::compareFinalists() {
  auto faster = [](const Candidate &a, const Candidate &b) { return a.once < b.once; };
  std::stable_sort(candidates_.begin(), candidates_.end(), faster);
  auto first = std::find_if(candidates_.begin(), candidates_.end(),
                            [](const Candidate &candidate) { return candidate.isFirst; });
  if (first != candidates_.end())
    std::rotate(candidates_.begin(), first, first + 1);
  candidates_.resize(std::min(candidates_.size(), kFinalists + 1));
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && !isOver(1)); ++round)
    for (Candidate &candidate : candidates_) {
      Result<double> time = measure(candidate.algorithm, batch_);
      if (!time)
        return time.status();
      candidate.rounds.push_back(*time);
    }
  return Status::ok();
}

Result<TunedProduct> Tuning::run() {
  for (auto step :
       {&Tuning::prepare, &Tuning::warmUp, &Tuning::measureAll, &Tuning::compareFinalists})
    if (Status status = (this->*step)(); !status.isOk())
      return status;
  const Candidate &first = candidates_.front();
  const Candidate &best = *std::min_element(
      candidates_.begin(), candidates_.end(),
      [](const Candidate &a, const Candidate &b) { return median(a.rounds) < median(b.rounds); });
  const Candidate &winner = isClearlyFaster(best, first) ? best : first;
  return TunedProduct{winner.algorithm, median(winner.rounds)};
}

} // namespace

Result<TunedProduct> tuneProduct(LtProduct &product, const PlanMatmul &shape, void *workspace,
                                 std::chrono::milliseconds atMost) {
  return Tuning(product, shape, workspace, Clock::now() + atMost).run();
}

} // namespace braid
