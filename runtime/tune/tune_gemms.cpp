//===- runtime/tune/tune_gemms.cpp - measures GEMMs on one rank for all ranks -----------------===//

#include "runtime/tune/tune_gemms.h"

#include "ir/failure.h"
#include "runtime/tune/measurement_file.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

using std::chrono::milliseconds;

/// Time budgets for all shapes of a program and for each shape. A job should start within two
/// seconds, and any time below kLeast is too short for a comparison.
constexpr milliseconds kAll{1000}, kMost{600}, kLeast{200};

using Choices = std::map<std::string, std::string>; ///< results of GemmTuning::tune, by gemmKey

/// Tunes the shapes that are not yet in `choices`. The time budget is divided among the shapes;
/// time that is not needed for a shape, because an earlier job has tuned it, goes to later shapes.
Status tuneMissing(const Plan &plan, GemmTuning &tuning, ControlPlane &control,
                   UnknownGemms unknown, Choices &choices) {
  using Clock = std::chrono::steady_clock;
  std::vector<const PlanMatmul *> missing = distinctGemms(plan);
  std::erase_if(missing,
                [&](const PlanMatmul *shape) { return choices.count(gemmKey(*shape)) != 0; });
  const Clock::time_point end = Clock::now() + kAll;
  for (size_t i = 0; i < missing.size(); ++i) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    const milliseconds share = left / static_cast<int64_t>(missing.size() - i);
    const milliseconds atMost =
        unknown == UnknownGemms::Measure ? std::clamp(share, kLeast, kMost) : milliseconds(0);
    std::string choice = BRAID_TRY(tuning.tune(*missing[i], atMost));
    choices[gemmKey(*missing[i])] = std::move(choice);
    control.tick();
  }
  return Status::ok();
}

} // namespace

Status tuneGemms(const Plan &plan, GemmTuning &tuning, ControlPlane &control,
                 UnknownGemms unknown) {
  MeasurementFile mine{tuning.tuningKey(), {}};
  for (const PlanMatmul *shape : distinctGemms(plan))
    BRAID_TRY(tuning.loadAlgorithm(*shape));
  if (plan.rank == 0)
    BRAID_TRY(tuneMissing(plan, tuning, control, unknown, mine.entries));
  const std::vector<std::string> texts =
      BRAID_TRY(control.allGather(plan.rank == 0 ? mine.encode() : std::string()));
  Result<MeasurementFile> chosen = MeasurementFile::decode(texts.front());
  if (!chosen)
    return chosen.status().annotated("rank 0's list of GEMM choices");
  // The choices of rank 0 are valid only for devices with the same key.
  Choices choices = chosen->machine == mine.machine ? std::move(chosen->entries) : Choices();
  BRAID_TRY(tuneMissing(plan, tuning, control, unknown, choices));
  for (const PlanMatmul *shape : distinctGemms(plan))
    BRAID_TRY(tuning.setAlgorithm(*shape, choices[gemmKey(*shape)]));
  return Status::ok();
}

} // namespace braid
