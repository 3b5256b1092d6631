//===- api/calibrate/job_model.h - a job's cost model, stored for later jobs ------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

struct JobModelOptions : CalibrationOptions {
  /// The directory that stores the model, and the model's key except for the device.
  std::string cacheFolder, cacheKey;
};

/// Measures missing costs on all ranks. Rank 0 stores the results for all ranks. Functions that
/// return a Status or Result are collective, with the same result on all ranks.
class JobModel {
public:
  /// `timer` must outlive this object.
  JobModel(PlanTimer &timer, JobModelOptions options);

  /// The stored measurements of this machine; null on all ranks except rank 0.
  const MeasurementCache *cache() const { return cache_.get(); }
  /// Returns true if find() would use a stored model without measuring anything.
  Result<bool> isKept();
  /// Stores a value on rank 0; a no-op on other ranks. May wait for other jobs to store values.
  void keep(const std::string &key, std::string value);
  /// The path of the cache file; empty on all ranks except rank 0.
  std::string path() const { return cache_ ? cache_->path() : ""; }

  /// Loads the stored model, or measures all costs except those of GEMMs.
  Status find();
  /// Measures any GEMMs that the model lacks to predict `shapes`. Returns true if it measured any.
  Result<bool> addGemms(llvm::ArrayRef<PlanMatmul> shapes);
  const CostModel &model() const { return model_; }
  /// Returns a description for users, such as "from FILE, measured in 0.20 s".
  std::string source() const;

private:
  std::string key() const;
  Result<bool> measure(llvm::function_ref<Result<bool>()> measure);

  PlanTimer &timer_;
  const JobModelOptions options_;
  std::unique_ptr<MeasurementCache> cache_; ///< null except on rank 0
  CostModel model_;
  std::string path_;   ///< the file from which the model was loaded
  double seconds_ = 0; ///< total time spent measuring
};

} // namespace braid
