//===- backends/cuda/gemm/gemms.cpp - GEMMs computed by cuBLASLt ------------------------------===//

#include "backends/cuda/gemm/gemms.h"

#include "backends/cuda/cuda_status.h"
#include "backends/cuda/gemm/fixed_algorithm.h"
#include "backends/cuda/gemm/gemm_tuner.h"
#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cstring>

namespace braid {
namespace {

/// Increment when a change to the tuner invalidates cached measurements.
constexpr int kTunerVersion = 11;

GemmShape shapeOf(const PlanMatmul &shape, bool isAligned) {
  return {shape.dtype,
          shape.m,
          shape.n,
          shape.k,
          shape.transposeB,
          shape.bias.bytes != 0,
          isAligned,
          shape.overlaps,
          shape.resultType(),
          shape.addend.bytes != 0};
}

std::string nameOf(const GemmShape &shape) {
  const bool isPartial = shape.result != shape.dtype;
  return fmt::format("a {} GEMM of {} x {} x {}{}", name(shape.dtype).str(), shape.m, shape.n,
                     shape.k, isPartial ? " with " + name(shape.result).str() + " results" : "");
}

std::string encode(const LtGemm::Algorithm &algorithm) {
  return llvm::toHex({reinterpret_cast<const uint8_t *>(&algorithm), sizeof(algorithm)});
}

/// Decodes `choice`. Returns std::nullopt if it is not an algorithm that `gemm` can use.
std::optional<LtGemm::Algorithm> algorithmOf(const std::string &choice, const LtGemm &gemm) {
  std::string bytes;
  LtGemm::Algorithm algorithm;
  if (!llvm::tryGetFromHex(choice, bytes) || bytes.size() != sizeof(algorithm))
    return std::nullopt;
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return gemm.check(algorithm).isOk() ? std::optional(algorithm) : std::nullopt;
}

/// Returns the names and versions of the device, its driver and the library.
Result<std::string> describeMachine(const CublasLt &library) {
  int device = 0;
  cudaDeviceProp properties = {};
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, device));
  int driver = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaDriverGetVersion(&driver));
  return fmt::format("{} with {} multiprocessors, driver for CUDA {}.{}, cuBLASLt {}, tuner {}",
                     properties.name, properties.multiProcessorCount, driver / 1000,
                     driver % 1000 / 10, library.version(), kTunerVersion);
}

} // namespace

Result<std::unique_ptr<Gemms>> Gemms::create(AlgorithmBy by, MeasurementCache::Warn warn) {
  const CublasLt *library = BRAID_TRY(CublasLt::load());
  std::unique_ptr<Gemms> gemms(new Gemms(*library, by, std::move(warn)));
  BRAID_TRY(gemms->start());
  return gemms;
}

Status Gemms::start() {
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.create(&handle_));
  machine_ = BRAID_TRY(describeMachine(library_));
  return Status::ok();
}

Gemms::~Gemms() {
  prepared_.clear();
  for (void *workspace : workspaces_)
    cudaFree(workspace);
  if (handle_)
    library_.destroy(handle_);
}

Status Gemms::reserveWorkspaces(uint32_t count) {
  while (workspaces_.size() < count) {
    void *workspace = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&workspace, kWorkspaceBytes));
    workspaces_.push_back(workspace);
  }
  return Status::ok();
}

Result<std::unique_ptr<LtGemm>> Gemms::describe(const GemmShape &shape) const {
  Result<std::unique_ptr<LtGemm>> gemm = LtGemm::create(library_, handle_, shape);
  return gemm ? std::move(gemm) : gemm.status().annotated(nameOf(shape));
}

// -- Tuning. --

MeasurementCache &Gemms::cache() {
  if (!cache_)
    cache_ = std::make_unique<MeasurementCache>(measurementFolder(processEnvironment()), machine_,
                                                warn_);
  return *cache_;
}

/// Returns true if the GEMM's algorithm may be chosen by measurement. GEMMs with a bias always use
/// the library's first guess, because some algorithms that add a bias round more than once.
bool Gemms::isTunable(const PlanMatmul &shape) const {
  return by_ == AlgorithmBy::Time && shape.bias.bytes == 0 && shape.m > 0 && shape.n > 0 &&
         shape.k > 0;
}

Status Gemms::loadAlgorithm(const PlanMatmul &shape) {
  if (!isTunable(shape))
    return Status::ok();
  const std::optional<std::string> known = cache().find(gemmKey(shape));
  if (!known)
    return Status::ok();
  // If a cached algorithm is unusable, tune() measures the GEMM again.
  if (Status status = setAlgorithm(shape, *known); !status.isOk())
    return status.code() == StatusCode::Internal ? Status::ok() : status;
  return warm(shape);
}

Result<std::string> Gemms::tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) {
  if (!isTunable(shape))
    return std::string();
  BRAID_TRY(reserveWorkspaces(kOverlapping));
  std::unique_ptr<LtGemm> gemm = BRAID_TRY(describe(shapeOf(shape, /*isAligned=*/true)));
  const std::string key = gemmKey(shape);
  if (std::optional<std::string> known = cache().find(key); known && algorithmOf(*known, *gemm)) {
    ++known_;
    return *known;
  }
  if (atMost.count() == 0)
    return std::string();
  const auto begin = std::chrono::steady_clock::now();
  Result<LtGemm::Algorithm> tuned = tuneGemm(*gemm, shape, workspaces_, atMost);
  if (!tuned)
    return tuned.status().annotated("tuning " + key);
  tuning_ += std::chrono::steady_clock::now() - begin;
  ++tuned_;
  const std::string choice = encode(*tuned);
  cache().set(key, choice);
  cache().save();
  return choice;
}

Status Gemms::setAlgorithm(const PlanMatmul &shape, const std::string &choice) {
  const GemmShape aligned = shapeOf(shape, /*isAligned=*/true);
  if (choice.empty() || by_ == AlgorithmBy::Kind)
    return Status::ok();
  std::unique_ptr<LtGemm> gemm = BRAID_TRY(describe(aligned));
  std::optional<LtGemm::Algorithm> algorithm = algorithmOf(choice, *gemm);
  if (!algorithm)
    return internalError("the algorithm chosen for {} cannot be used on this device: {}",
                         gemmKey(shape), printable(choice, 40));
  if (auto known = algorithms_.find(aligned);
      known != algorithms_.end() &&
      std::memcmp(&known->second, &*algorithm, sizeof(*algorithm)) == 0)
    return Status::ok();
  algorithms_[aligned] = *algorithm;
  prepared_.erase(aligned); // to be warmed again with the new algorithm
  return Status::ok();
}

std::string Gemms::choices() const {
  if (by_ == AlgorithmBy::Kind)
    return "GEMMs: one algorithm for all M, chosen without measurements, because of --reproducible";
  if (by_ == AlgorithmBy::Guess)
    return "GEMMs: cuBLASLt's first suggestion, because BRAID_TUNE is off or BRAID_SHARE_GPUS is "
           "on";
  if (tuned_ + known_ == 0)
    return "";
  const std::string &path = cache_->path();
  return fmt::format("GEMMs: {} tuned in {:.2f} s, {} already known ({})", tuned_, tuning_.count(),
                     known_, path.empty() ? "not cached" : path);
}

// -- Warming and multiplying. --

Result<LtGemm::Algorithm> Gemms::algorithmOfKind(const GemmShape &shape, const LtGemm &gemm) {
  const GemmShape kind = kindOf(shape);
  auto known = ofKinds_.find(kind);
  if (known == ofKinds_.end()) {
    const LtGemm::Algorithm found = BRAID_TRY(fixedAlgorithm(library_, handle_, kind));
    known = ofKinds_.emplace(kind, found).first;
  }
  if (!gemm.check(known->second).isOk())
    return unsupported("--reproducible: the algorithm for {} does not support M = {}",
                       nameOfKind(kind), shape.m);
  return known->second;
}

Result<LtGemm::Algorithm> Gemms::algorithmFor(const GemmShape &shape, const LtGemm &gemm) {
  if (by_ == AlgorithmBy::Kind)
    return algorithmOfKind(shape, gemm);
  if (auto algorithm = algorithms_.find(shape); algorithm != algorithms_.end())
    return algorithm->second;
  Result<std::vector<LtGemm::Algorithm>> first = gemm.candidates(1);
  if (!first)
    return first.status().annotated(nameOf(shape));
  return first->front();
}

Result<std::unique_ptr<LtGemm>> Gemms::choose(const GemmShape &shape) {
  std::unique_ptr<LtGemm> gemm = BRAID_TRY(describe(shape));
  gemm->use(BRAID_TRY(algorithmFor(shape, *gemm)));
  return gemm;
}

Status Gemms::warm(const PlanMatmul &shape) {
  for (bool isAligned : {true, false}) {
    const GemmShape key = shapeOf(shape, isAligned);
    const bool isOfKind = by_ != AlgorithmBy::Kind || isAligned == kindOf(key).isAligned;
    if (prepared_.count(key) || !isOfKind)
      continue;
    prepared_.emplace(key, BRAID_TRY(choose(key)));
    BRAID_TRY(runOnce(shape, isAligned));
  }
  return Status::ok();
}

Status Gemms::runOnce(const PlanMatmul &shape, bool isAligned) {
  BRAID_TRY(reserveWorkspaces(1));
  const int64_t element = sizeOf(shape.dtype);
  // Leaves room to shift all operands, which are deliberately misaligned unless `isAligned`.
  auto bytesOf = [&](int64_t elements, int64_t size) {
    return (elements * size + 511) / 256 * 256;
  };
  const int64_t a = bytesOf(shape.m * shape.k, element), b = bytesOf(shape.k * shape.n, element),
                c = bytesOf(shape.m * shape.n, sizeOf(shape.resultType())),
                bias = bytesOf(shape.n, element), addend = shape.addend.bytes != 0 ? c : 0;
  char *scratch = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&scratch, static_cast<size_t>(a + b + c + bias + addend)));
  char *begin = scratch + (isAligned ? 0 : sizeOf(shape.resultType()));
  MatmulArgs args{shape.dtype,    shape.transposeB,  shape.m, shape.n, shape.k,
                  begin,          begin + a,         nullptr, nullptr, begin + a + b,
                  shape.overlaps, shape.resultType()};
  args.bias = shape.bias.bytes != 0 ? begin + a + b + c : nullptr;
  args.addend = addend != 0 ? begin + a + b + c + bias : nullptr;
  Status status = multiply(nullptr, workspace(0), args);
  cudaError_t code = cudaDeviceSynchronize();
  cudaFree(scratch);
  if (status.isOk() && code != cudaSuccess)
    status = cudaFailure(code, "cudaDeviceSynchronize");
  return status;
}

int64_t Gemms::workspaceBytes(const PlanMatmul &shape) const {
  size_t bytes = 0;
  for (bool isAligned : {true, false})
    if (auto found = prepared_.find(shapeOf(shape, isAligned)); found != prepared_.end())
      bytes = std::max(bytes, found->second->workspaceBytes());
  return static_cast<int64_t>(bytes);
}

Status Gemms::multiply(cudaStream_t stream, Workspace workspace, const MatmulArgs &args) {
  auto bits = reinterpret_cast<uintptr_t>(args.a) | reinterpret_cast<uintptr_t>(args.b) |
              reinterpret_cast<uintptr_t>(args.c) | reinterpret_cast<uintptr_t>(args.bias) |
              reinterpret_cast<uintptr_t>(args.addend);
  const bool isAligned = bits % kGemmAlignment == 0;
  GemmShape shape{
      args.dtype,           args.m,    args.n,        args.k,      args.transposeB,
      args.bias != nullptr, isAligned, args.overlaps, args.result, args.addend != nullptr};
  if (by_ == AlgorithmBy::Kind)
    shape.isAligned = kindOf(shape).isAligned;
  if (shape.isAligned && !isAligned)
    return unsupported("--reproducible: the operands of {} must be aligned to {} bytes",
                       nameOf(shape), kGemmAlignment);
  auto found = prepared_.find(shape);
  if (found == prepared_.end())
    return internalError("a GEMM of {} x {} x {} has not been warmed up", args.m, args.n, args.k);
  return found->second->launch(stream, workspace, args);
}

} // namespace braid
