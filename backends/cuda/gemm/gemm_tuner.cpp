//===- backends/cuda/gemm/gemm_tuner.cpp - finds the fastest algorithm of a GEMM --------------===//

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

constexpr int kTunerCandidates = 32;             ///< that the library is asked for
constexpr double kBatch = 2000;                  ///< microseconds that are measured at once, about
constexpr double kMostInBatch = 100;             ///< GEMMs
constexpr std::chrono::milliseconds kWarmUp{10}; ///< until the clocks are up
/// A GEMM that takes longer is limited by power, and the GPU takes its time to notice how much
/// an algorithm asks for. Measured for a millisecond, one that is hungry, and slow in a long run,
/// can win (a GEMM of 4096 x 16384 x 16384 was 4 % slower so); measured in a long run only, or
/// by the mean of both, one that is slow between pauses (8192 x 3584 x 4096, 15 % and 10 %). So it
/// has to be faster in both.
constexpr double kLimitedByPower = 100; ///< microseconds
/// Which algorithm is faster than another then changes from GPU to GPU and from minute to minute,
/// by about this much; the library's first guess is rarely worse by more.
constexpr double kLeastGainByPower = 0.02;
constexpr double kLongRun = 12e3;               ///< microseconds, twice: to settle, to measure
constexpr std::chrono::milliseconds kPause{10}; ///< before a short run
constexpr int64_t kMostSets = 16;               ///< sets of operands
/// The assumed share of GEMMs that run alone although GEMMs may overlap: the first, the last, and
/// those that wait for their rows. An algorithm that leaves half of the GPU to a second GEMM can
/// win if there always is one. If each GEMM waits for its rows (two of 1024 x 2048 x 16384), it
/// takes twice as long.
constexpr double kAlone = 0.25;
constexpr int kIssueMicroseconds = 8; ///< upper bound for the host to issue one GEMM

/// Measures a GEMM with one algorithm or another.
class GemmTimer {
public:
  /// On one stream, or on one for each of `workspaces` at the same time.
  GemmTimer(LtGemm &gemm, llvm::ArrayRef<void *> workspaces) : gemm_(gemm) {
    for (void *workspace : workspaces)
      lanes_.push_back({workspace});
  }
  ~GemmTimer();

  Status prepare(const PlanMatmul &shape);
  /// Brings the clocks up, and finds out how many GEMMs to measure at once, and whether power
  /// limits them.
  Status warmUp(const LtGemm::Algorithm &algorithm);
  /// Microseconds of one GEMM, of which kAlone meet no other if there are several lanes.
  /// Unsupported: it cannot be done this way.
  Result<double> measure(const LtGemm::Algorithm &algorithm);
  /// As warmUp() found it.
  bool isLimitedByPower() const { return isLimitedByPower_; }
  /// That, and if power limits it, what one takes in a long run of GEMMs that overlap, if they
  /// do. Pauses behind it.
  Result<std::vector<double>> measureThoroughly(const LtGemm::Algorithm &algorithm);
  /// Does it once, which loads what is needed.
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
  std::vector<MatmulArgs> operands_; ///< sets, one behind the other, to be used in turn
  size_t next_ = 0;                  ///< index into operands_
  int batch_ = 1;                    ///< GEMMs that are measured at once
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

/// So many that an operand has left the cache when its turn comes again: in a run, much else goes
/// through it between two uses. GEMMs that are multiplied at the same time are a set, and share
/// b, as pieces of one GEMM do. Random values: zeros take less power and multiply faster.
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

/// Issues GEMMs round-robin to `lanes`, the first ones, between two events of the first one.
Status GemmTimer::issue(int count, llvm::ArrayRef<Lane> lanes) {
  next_ = llvm::alignTo(next_, lanes_.size()); // whatever failed before
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(before_, firstStream()));
  for (const Lane &lane : llvm::drop_begin(lanes))
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(lane.stream, before_));
  for (int i = 0; i < count; ++i) {
    const Lane &lane = lanes[static_cast<size_t>(i) % lanes.size()];
    const MatmulArgs &args = operands_[next_ % operands_.size()];
    next_ += lanes_.size() / lanes.size(); // alone, each is of another set
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
  // All are issued before the first one begins, so that it is not the host that is measured.
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
  Result<double> lasting = measure(algorithm, count, lanes_); // its clocks settle
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

Result<TunedGemm> tuneGemm(LtGemm &gemm, const PlanMatmul &shape, llvm::ArrayRef<void *> workspaces,
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
  const Fastest fastest = BRAID_TRY(findFastest(algorithms.size(), measure, limits));
  return TunedGemm{algorithms[fastest.number], fastest.time};
}

} // namespace braid
