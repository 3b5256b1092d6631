//===- api/calibrate/measure_machine.cpp - measures the whole cost model of a machine ---------===//

#include "api/calibrate/measure_machine.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <chrono>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns all transfer modes that `peers` offers, the default first.
std::vector<TransferMode> allTransferModes(const PeerMemory &peers) {
  std::vector<TransferMode> all;
  for (CopyBy copies : {CopyBy::Default, CopyBy::Engine, CopyBy::Kernel})
    for (SignalBy signals : {SignalBy::Default, SignalBy::Memory, SignalBy::Kernel})
      if (const TransferMode mode{copies, signals}; peers.offers(mode))
        all.push_back(mode);
  return all;
}

/// Measures small GEMMs first, so that each column has some rows if time runs out. Returns the
/// number of GEMMs left out. Rank 0's clock decides.
Result<size_t> measureGemmTable(CostModel &model, PlanTimer &timer,
                                const CalibrationOptions &calibration,
                                std::vector<PlanMatmul> gemms, double seconds) {
  llvm::stable_sort(gemms, [](const PlanMatmul &a, const PlanMatmul &b) {
    return operationsOf(a) < operationsOf(b);
  });
  ProgressStep progress(calibration.progress, "multiplying", "GEMMs", gemms.size());
  const Clock::time_point start = Clock::now();
  double before = 0, last = 0;
  for (size_t i = 0; i < gemms.size(); ++i) {
    if (before + last > seconds)
      return gemms.size() - i;
    BRAID_TRY(measureGemms(model, {gemms[i]}, timer, calibration));
    const double now = BRAID_TRY(timer.numberFromRankZero(secondsSince(start)));
    last = now - before;
    before = now;
    progress.advance();
  }
  return size_t(0);
}

} // namespace

/// Returns layers of models with 2048 to 16384 columns, whole or split over up to 8 devices.
std::vector<PlanMatmul> usualGemms(DType dtype, bool isOnHost) {
  using Extents = std::pair<int64_t, int64_t>;
  const std::vector<Extents> columnsAndDepths =
      isOnHost ? std::vector<Extents>{{256, 256}, {1024, 256}, {256, 1024}, {1024, 1024}}
               : std::vector<Extents>{{1024, 1024},  {2048, 2048},  {4096, 4096}, {8192, 8192},
                                      {1024, 8192},  {8192, 1024},  {3584, 8192}, {8192, 3584},
                                      {7168, 8192},  {8192, 7168},  {1792, 4096}, {4096, 1792},
                                      {14336, 4096}, {4096, 14336}, {8192, 16384}};
  const std::vector<int64_t> rows = isOnHost ? std::vector<int64_t>{16, 64, 256}
                                             : std::vector<int64_t>{64, 256, 1024, 4096, 16384};
  std::vector<PlanMatmul> gemms;
  for (const auto &[n, k] : columnsAndDepths)
    for (int64_t m : rows)
      gemms.push_back({dtype, m, n, k, false, {}, {}, {}, {}});
  return gemms;
}

/// Every rank measures; rank 0's model, made of the maxima over ranks, is used.
Result<MeasuredMachine> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                       const std::vector<PlanMatmul> &gemms, double gemmSeconds) {
  options.transferModes = {TransferMode()};
  if (llvm::is_contained(options.transports, Transport::PeerMemory))
    options.transferModes = allTransferModes(*timer.device().peerMemory());
  BRAID_TRY(openMessages(timer, options.transports, options.warn, "messages are left out"));
  MeasuredMachine measured;
  measured.model = BRAID_TRY(calibrate(timer, options));
  measured.gemmsLeftOut =
      BRAID_TRY(measureGemmTable(measured.model, timer, options, gemms, gemmSeconds));
  const std::string text = BRAID_TRY(timer.fromRankZero(measured.model.encode()));
  measured.model = BRAID_TRY(CostModel::decode(text));
  return measured;
}

} // namespace braid
