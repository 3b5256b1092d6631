//===- api/calibrate/measure_machine.cpp - the whole cost model of a machine ------------------===//

#include "api/calibrate/measure_machine.h"

#include "api/calibrate/calibration_programs.h"
#include "api/calibrate/measure_gemms.h"
#include "api/calibrate/measure_messages.h"
#include "api/calibrate/measure_power.h"
#include "api/calibrate/open_messages.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <optional>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

double operationsOf(const PlanMatmul &gemm) {
  return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
}

/// All that `peers` offers, the default first.
std::vector<TransferMode> allTransferModes(const PeerMemory &peers) {
  std::vector<TransferMode> all;
  for (CopyBy copies : {CopyBy::Default, CopyBy::Engine, CopyBy::Kernel})
    for (SignalBy signals : {SignalBy::Default, SignalBy::Memory, SignalBy::Kernel})
      if (const TransferMode mode{copies, signals}; peers.offers(mode))
        all.push_back(mode);
  return all;
}

class MachineMeter {
public:
  MachineMeter(PlanTimer &timer, JobModelOptions job, const MachineOptions &options)
      : timer_(timer), job_(std::move(job)), options_(options) {
    if (timer.rank() == 0)
      listener_ = options.progress;
  }
  Result<MeasuredMachine> measure();

private:
  bool reachesPeers() const { return llvm::is_contained(job_.transports, Transport::PeerMemory); }
  CalibrationOptions calibration() { return calibrationOptions(timer_, job_); }
  Status chooseModes();
  Status measureOperations();
  Status measureGemmTable();
  Status measureAllMessages();
  Result<std::vector<std::vector<Plan>>> messagePlans();
  Result<double> seconds();

  PlanTimer &timer_;
  JobModelOptions job_;
  const MachineOptions &options_;
  ProgressFn listener_;
  Clock::time_point start_ = Clock::now(); ///< of what has a limit
  MeasuredMachine measured_;
};

/// Of rank 0's clock, on every rank.
Result<double> MachineMeter::seconds() { return timer_.numberFromRankZero(secondsSince(start_)); }

/// Where nothing travels through peers' memory, nobody copies or signals.
Status MachineMeter::chooseModes() {
  job_.transferModes = {TransferMode()};
  if (reachesPeers())
    job_.transferModes = allTransferModes(*timer_.device().peerMemory());
  return openMessages(timer_, job_.transports, job_.warn, "messages are left out");
}

/// One mode after the other, so that somebody hears of it.
Status MachineMeter::measureOperations() {
  const std::vector<TransferMode> modes = job_.transferModes;
  ProgressStep progress(listener_, "operations", "transfer modes", modes.size());
  for (TransferMode mode : modes) {
    CalibrationOptions options = calibration();
    options.transferModes = {mode};
    CostModel model = BRAID_TRY(calibrate(timer_, options));
    if (measured_.model.operations.empty())
      measured_.model = std::move(model);
    else
      for (const OperationCosts &costs : model.operations)
        measured_.model.add(costs);
    progress.advance();
  }
  return Status::ok();
}

/// The small ones first: if time runs out, each column has some rows.
Status MachineMeter::measureGemmTable() {
  std::vector<PlanMatmul> gemms = options_.gemms;
  llvm::stable_sort(gemms, [](const PlanMatmul &a, const PlanMatmul &b) {
    return operationsOf(a) < operationsOf(b);
  });
  ProgressStep progress(listener_, "multiplying", "GEMMs", gemms.size());
  start_ = Clock::now();
  double before = 0, last = 0;
  for (size_t i = 0; i < gemms.size(); ++i) {
    if (before + last > options_.gemmSeconds) {
      measured_.gemmsLeftOut = gemms.size() - i;
      break;
    }
    BRAID_TRY(measureGemms(measured_.model, {gemms[i]}, timer_, calibration()));
    const double now = BRAID_TRY(seconds());
    last = now - before;
    before = now;
    progress.advance();
  }
  return Status::ok();
}

/// The Plans of a rank with the most bytes of each kind.
Result<std::vector<std::vector<Plan>>> MachineMeter::messagePlans() {
  const int64_t most = int64_t(timer_.device().sharesHostMemory() ? 4 : 256) << 20;
  const calibration::Mesh mesh{timer_.ranks(), timer_.ranksPerHost()};
  std::vector<std::string> texts = {calibration::transferChain(mesh, Protocol::Get, most, 1)};
  for (CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
        CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
    texts.push_back(calibration::collectives(mesh, kind, most, 1));
  std::vector<std::vector<Plan>> plans;
  for (const std::string &text : texts)
    plans.push_back(BRAID_TRY(calibration::plansOf(text, Transport::Messages)));
  return plans;
}

/// Between hosts they cost what the network does.
Status MachineMeter::measureAllMessages() {
  const bool haveOneHost = timer_.ranks() == timer_.ranksPerHost();
  if (timer_.ranks() == 1 || !haveOneHost ||
      !llvm::is_contained(job_.transports, Transport::Messages))
    return Status::ok();
  const std::vector<std::vector<Plan>> plans = BRAID_TRY(messagePlans());
  ProgressStep progress(listener_, "sending", "kinds of messages", plans.size());
  for (const std::vector<Plan> &each : plans) {
    BRAID_TRY(measureMessages(measured_.model, {&each.front()}, timer_, calibration()));
    progress.advance();
  }
  return Status::ok();
}

/// Ranks measure for themselves; what rank 0 made of the maxima over them is what counts.
Result<MeasuredMachine> MachineMeter::measure() {
  BRAID_TRY(chooseModes());
  BRAID_TRY(measureOperations());
  BRAID_TRY(measurePower(measured_.model, timer_, calibration()));
  BRAID_TRY(measureAllMessages());
  BRAID_TRY(measureGemmTable());
  const std::string text = BRAID_TRY(timer_.fromRankZero(measured_.model.encode()));
  measured_.model = BRAID_TRY(CostModel::decode(text));
  JobModel kept(timer_, job_);
  BRAID_TRY(kept.add(measured_.model));
  if (kept.isSaved())
    measured_.keptIn = kept.path();
  if (!options_.name.empty())
    measured_.model.machine = options_.name;
  return std::move(measured_);
}

} // namespace

/// Of layers of models with 2048 to 16384 columns, whole or split over up to eight devices.
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

Result<MeasuredMachine> measureMachine(PlanTimer &timer, JobModelOptions job,
                                       const MachineOptions &options) {
  return MachineMeter(timer, std::move(job), options).measure();
}

} // namespace braid
