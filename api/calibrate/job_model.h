//===- api/calibrate/job_model.h - the cost model of a job, stored between jobs ---------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

struct JobModelOptions : CalibrationOptions {
  /// The folder that stores the model, and a key of the model besides the device.
  std::string cacheFolder, cacheKey;
};

/// Measures what the model lacks on all ranks. Rank 0 stores the results, and all ranks use its
/// model. Collective and equal on all ranks, except for keep().
class JobModel {
public:
  /// `timer` must outlive this.
  JobModel(PlanTimer &timer, JobModelOptions options);

  /// The stored measurements of this machine on rank 0, or null on other ranks.
  const MeasurementCache *cache() const { return cache_.get(); }
  /// Returns true if a stored model exists that find() uses unchanged.
  Result<bool> isKept();
  /// Stores a value on rank 0. Concurrent jobs wait for each other.
  void keep(const std::string &key, std::string value);
  /// The path of the cache on rank 0, or an empty string.
  std::string path() const { return cache_ ? cache_->path() : ""; }

  /// Loads the stored model, or measures one except for GEMMs.
  Status find();
  /// Measures the `shapes` whose costs the model needs. Returns true if it measured any.
  Result<bool> addGemms(llvm::ArrayRef<PlanMatmul> shapes);
  const CostModel &model() const { return model_; }
  /// Returns a text for users such as "from FILE, measured in 0.20 s".
  std::string source() const;

private:
  std::string key() const;
  bool isComplete() const;
  Result<bool> measure(llvm::function_ref<Result<bool>()> measure);

  PlanTimer &timer_;
  const JobModelOptions options_;
  std::unique_ptr<MeasurementCache> cache_; ///< null except on rank 0
  CostModel model_;
  std::string path_;   ///< the file of the model
  double seconds_ = 0; ///< the duration of measurements
};

} // namespace braid
