//===- api/calibrate/job_model.h - a job's cost model, stored for later jobs ------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

struct JobModelOptions : CalibrationOptions {
  /// The directory in which the model is stored, and the part of the cache key that does not depend
  /// on the device.
  std::string cacheFolder, cacheKey;
};

/// The cost model of a job. All ranks measure the costs that the model lacks, and rank 0 stores the
/// results. Functions that return a Status or Result are collective and return the same result on
/// all ranks.
class JobModel {
public:
  /// `timer` must outlive this object.
  JobModel(PlanTimer &timer, JobModelOptions options);

  /// Returns the stored measurements of this machine, or null on ranks other than rank 0.
  const MeasurementCache *cache() const { return cache_.get(); }
  /// Returns true if find() would use a stored model without measuring anything.
  Result<bool> isKept();
  /// Stores a value on rank 0; a no-op on other ranks. May wait for other jobs to store values.
  void keep(const std::string &key, std::string value);
  /// Returns the path of the cache file, or an empty string on ranks other than rank 0.
  std::string path() const { return cache_ ? cache_->path() : ""; }

  /// Loads the stored model, or measures all costs except those of GEMMs.
  Status find();
  /// Measures the GEMMs that the model needs to predict `shapes` but does not contain yet. Returns
  /// true if there were any.
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
