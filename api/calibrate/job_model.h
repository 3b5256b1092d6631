//===- api/calibrate/job_model.h - the cost model of a job, kept between jobs -----------------===//
//
// Rank 0 keeps it; what it lacks is measured by all ranks, and all of them go on with what rank 0
// made of that.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

struct JobModelOptions {
  /// Ways to issue that are allowed, at least one; the backend has all of them.
  std::vector<LaunchMode> launchModes{LaunchMode::Eager};
  std::vector<TransferMode> transferModes = {};
  /// Where the model is kept, and whatever it depends on besides the device.
  std::string cacheFolder, cacheKey;
  std::function<void(const std::string &line)> warn; ///< about the cache; may be null
};

/// Collective, the same on all ranks.
class JobModel {
public:
  /// `timer` outlives this.
  JobModel(PlanTimer &timer, JobModelOptions options);

  /// Takes up what is kept, and measures what it lacks, but for GEMMs.
  Status find();
  /// Measures those of `shapes` that are needed to know what all of them cost.
  Status addGemms(llvm::ArrayRef<PlanMatmul> shapes);
  const CostModel &model() const { return model_; }
  /// Where it is from, for people: "from FILE, GEMMs in 0.20 s".
  std::string source() const;

private:
  std::string key() const;
  CalibrationOptions calibration() const;
  bool isComplete() const;
  Result<std::string> readKept();
  Status measure();
  Status keep();

  PlanTimer &timer_;
  const JobModelOptions options_;
  std::unique_ptr<MeasurementCache> cache_; ///< of rank 0
  CostModel model_;
  std::string path_; ///< the file that it is from
  double calibrationSeconds_ = 0, gemmSeconds_ = 0;
};

} // namespace braid
