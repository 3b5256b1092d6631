//===- backends/cuda/gemm/gemm_tuner.cpp - finds the fastest algorithm for a GEMM -------------===//

#include "backends/cuda/gemm/gemm_tuner.h"

#include "backends/cuda/cuda_status.h"
#include "backends/cuda/elements.h"
#include "ir/failure.h"
#include "runtime/tune/find_fastest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <thread>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTunerCandidates = 32; ///< requested from the library
/// approximate time per measurement, in microseconds
constexpr double kBatch = 2000;
constexpr double kMostInBatch = 100;             ///< GEMMs per measurement
constexpr std::chrono::milliseconds kWarmUp{10}; ///< time for clock rates to rise
/// GEMMs longer than this are limited by power, and the GPU takes time to adapt to an algorithm's
/// power draw. A millisecond-long measurement can favor an algorithm that draws more power and is
/// slower in a long run (4 % slower for a GEMM of 4096 x 16384 x 16384). A long measurement, or the
/// mean of a short and a long one, can favor an algorithm that is slower after a pause (by 15 % and
/// 10 % for 8192 x 3584 x 4096). The winner must therefore be faster in both measurements.
constexpr double kLimitedByPower = 100; ///< microseconds
/// For GEMMs limited by power, the relative speeds of algorithms vary by about this much between
/// GPUs and over time. The first guess is rarely slower than the best algorithm by more than this.
constexpr double kLeastGainByPower = 0.02;
/// microseconds per long run; only the second run is timed, after clock rates have settled
constexpr double kLongRun = 12e3;
constexpr std::chrono::milliseconds kPause{10}; ///< before a short run
constexpr int64_t kMostSets = 16;               ///< sets of operands
/// The assumed share of potentially overlapping GEMMs that run alone: the first GEMM, the last
/// GEMM, and GEMMs that wait for their rows. If tuning assumed that GEMMs always overlap, an
/// algorithm that leaves half of the GPU to a second GEMM could win. If each GEMM waits for its
/// rows (as with two GEMMs of 1024 x 2048 x 16384), that algorithm takes twice as long.
constexpr double kAlone = 0.25;
constexpr int kIssueMicroseconds = 8; ///< upper bound on the host time to issue one GEMM

/// Measures the time that one GEMM takes with different algorithms.
class GemmTimer {
public:
  /// Measures on one stream per entry of `workspaces`, concurrently if there are several.
  GemmTimer(LtGemm &gemm, llvm::ArrayRef<void *> workspaces) : gemm_(gemm) {
    for (void *workspace : workspaces)
      lanes_.push_back({workspace});
  }
  ~GemmTimer();

  Status prepare(const PlanMatmul &shape);
  /// Runs until clock rates have risen, then determines the number of GEMMs per measurement and
  /// whether the GEMM is limited by power.
  Status warmUp(const LtGemm::Algorithm &algorithm);
  /// Returns the microseconds per GEMM; with several lanes, assumes that a fraction kAlone of the
  /// GEMMs runs alone. Fails with Unsupported if the algorithm does not work.
  Result<double> measure(const LtGemm::Algorithm &algorithm);
  /// Valid after warmUp().
  bool isLimitedByPower() const { return isLimitedByPower_; }
  /// Returns the result of measure() and, if power limits the GEMM, the time per GEMM in a long
  /// run, with overlap if there are several lanes. Pauses afterwards.
  Result<std::vector<double>> measureThoroughly(const LtGemm::Algorithm &algorithm);
  /// Runs a GEMM once to load its kernels.
  Status load(const LtGemm::Algorithm &algorithm) { return measure(algorithm, 1, lanes_).status(); }

private:
  struct Lane {
    void *workspace;
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };
  Status fillOperands(const PlanMatmul &shape);
  Status issue(int count, llvm::ArrayRef<Lane> lanes);
  Result<double> measure(const LtGemm::Algorithm &algorithm, int atLeast,
                         llvm::ArrayRef<Lane> lanes);
  cudaStream_t firstStream() const { return lanes_.front().stream; }

  LtGemm &gemm_;
  std::vector<Lane> lanes_;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  char *memory_ = nullptr;
  std::vector<MatmulArgs> operands_; ///< consecutive sets, used in turn
  size_t next_ = 0;                  ///< index into operands_
  int batch_ = 1;                    ///< number of GEMMs per measurement
  bool isLimitedByPower_ = false;
};

GemmTimer::~GemmTimer() {
  for (const Lane &lane : lanes_) {
    if (lane.stream) {
      cudaStreamSynchronize(lane.stream);
      cudaStreamDestroy(lane.stream);
    }
    if (lane.done)
      cudaEventDestroy(lane.done);
  }
  for (cudaEvent_t event : {before_, after_})
    if (event)
      cudaEventDestroy(event);
  cudaFree(memory_);
}

Status GemmTimer::prepare(const PlanMatmul &shape) {
  for (Lane &lane : lanes_) {
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming));
  }
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreate(&before_));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreate(&after_));
  return fillOperands(shape);
}

/// Creates enough sets of operands that each set has been evicted from the cache before it is used
/// again, as in a program, where other data passes through the cache between two GEMMs. A set
/// contains the operands of concurrent GEMMs, which share b like the chunks of one GEMM. Values are
/// random, because GEMMs on zeros draw less power and run faster.
Status GemmTimer::fillOperands(const PlanMatmul &shape) {
  int device = 0, cache = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  const int64_t element = sizeOf(shape.dtype);
  auto bytesOf = [&](int64_t elements) { return (elements * element + 255) / 256 * 256; };
  const int64_t a = bytesOf(shape.m * shape.k), b = bytesOf(shape.k * shape.n),
                c = bytesOf(shape.m * shape.n * sizeOf(shape.resultType()) / element),
                addend = shape.addend.bytes != 0 ? c : 0;
  const auto lanes = static_cast<int64_t>(lanes_.size());
  const int64_t set = b + lanes * (a + addend + c);
  const int64_t sets = std::min(cache / set + 1, kMostSets);
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&memory_, static_cast<size_t>(sets * set)));
  for (int64_t i = 0; i < sets; ++i) {
    char *sharedB = memory_ + i * set, *first = sharedB + b, *addends = first + lanes * a,
         *results = addends + lanes * addend;
    for (int64_t lane = 0; lane < lanes; ++lane)
      operands_.push_back({shape.dtype, shape.transposeB, shape.m, shape.n, shape.k,
                           first + lane * a, sharedB, nullptr,
                           addend != 0 ? addends + lane * addend : nullptr, results + lane * c,
                           shape.overlaps, shape.resultType()});
    cuda::launchRandom(firstStream(), elementOf(shape.dtype), sharedB,
                       (results - sharedB) / element, static_cast<uint32_t>(i));
  }
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return Status::ok();
}

/// Issues GEMMs round-robin to `lanes`, a prefix of lanes_, between two events on the first lane.
Status GemmTimer::issue(int count, llvm::ArrayRef<Lane> lanes) {
  next_ = llvm::alignTo(next_, lanes_.size()); // a failure may leave next_ within a set
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(before_, firstStream()));
  for (const Lane &lane : llvm::drop_begin(lanes))
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(lane.stream, before_));
  for (int i = 0; i < count; ++i) {
    const Lane &lane = lanes[static_cast<size_t>(i) % lanes.size()];
    const MatmulArgs &args = operands_[next_ % operands_.size()];
    next_ += lanes_.size() / lanes.size(); // a lone GEMM uses a new set each time
    BRAID_TRY(gemm_.launch(lane.stream, {lane.workspace, kWorkspaceBytes}, args));
  }
  for (const Lane &lane : llvm::drop_begin(lanes)) {
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(lane.done, lane.stream));
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(firstStream(), lane.done));
  }
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(after_, firstStream()));
  return Status::ok();
}

Result<double> GemmTimer::measure(const LtGemm::Algorithm &algorithm) {
  const double overlapping = BRAID_TRY(measure(algorithm, batch_, lanes_));
  if (lanes_.size() == 1)
    return overlapping;
  const double alone = BRAID_TRY(measure(algorithm, (batch_ + 1) / 2, lanes_.front()));
  return (1 - kAlone) * overlapping + kAlone * alone;
}

Result<double> GemmTimer::measure(const LtGemm::Algorithm &algorithm, int atLeast,
                                  llvm::ArrayRef<Lane> lanes) {
  const auto count = static_cast<int>(llvm::alignTo(atLeast, lanes.size()));
  gemm_.use(algorithm);
  // Delays the stream until all GEMMs have been issued, so that host time is not measured.
  cuda::launchDelay(firstStream(), static_cast<uint32_t>(count * kIssueMicroseconds));
  BRAID_TRY(issue(count, lanes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(after_));
  float milliseconds = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, before_, after_));
  return double(milliseconds) * 1000 / count;
}

Result<std::vector<double>> GemmTimer::measureThoroughly(const LtGemm::Algorithm &algorithm) {
  const double brief = BRAID_TRY(measure(algorithm));
  if (!isLimitedByPower_)
    return std::vector<double>{brief};
  const int count = static_cast<int>(kLongRun / brief) + 1;
  Result<double> lasting = measure(algorithm, count, lanes_); // lets clock rates settle
  if (lasting)
    lasting = measure(algorithm, count, lanes_);
  std::this_thread::sleep_for(kPause);
  if (!lasting)
    return lasting.status();
  return std::vector<double>{brief, *lasting};
}

Status GemmTimer::warmUp(const LtGemm::Algorithm &algorithm) {
  const Clock::time_point end = Clock::now() + kWarmUp;
  do {
    const double time = BRAID_TRY(measure(algorithm, 1, lanes_));
    batch_ = static_cast<int>(std::clamp(kBatch / time, 1.0, kMostInBatch));
    isLimitedByPower_ = time > kLimitedByPower;
  } while (Clock::now() < end);
  return Status::ok();
}

} // namespace

Result<LtGemm::Algorithm> tuneGemm(LtGemm &gemm, const PlanMatmul &shape,
                                   llvm::ArrayRef<void *> workspaces,
                                   std::chrono::milliseconds atMost) {
  const Clock::time_point end = Clock::now() + atMost;
  const std::vector<LtGemm::Algorithm> algorithms =
      BRAID_TRY(gemm.manyCandidates(kTunerCandidates));
  GemmTimer timer(gemm, workspaces.take_front(shape.overlaps ? kOverlapping : 1));
  BRAID_TRY(timer.prepare(shape));
  BRAID_TRY(timer.warmUp(algorithms.front()));
  std::vector<bool> isLoaded(algorithms.size(), false);
  auto measure = [&](size_t number, FindPass pass) -> Result<std::vector<double>> {
    const LtGemm::Algorithm &algorithm = algorithms[number];
    if (!isLoaded[number])
      BRAID_TRY(timer.load(algorithm));
    isLoaded[number] = true;
    if (pass == FindPass::Final)
      return timer.measureThoroughly(algorithm);
    return std::vector<double>{BRAID_TRY(timer.measure(algorithm))};
  };
  FindLimits limits{end - Clock::now()};
  if (timer.isLimitedByPower())
    limits.leastGain = kLeastGainByPower;
  return algorithms[BRAID_TRY(findFastest(algorithms.size(), measure, limits))];
}

} // namespace braid
