//===- api/calibrate/job_model.h - the cost model of a job, kept between jobs -----------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

struct JobModelOptions : CalibrationOptions {
  /// The model is kept there, and depends on the key besides the device.
  std::string cacheFolder, cacheKey;
  std::function<void(const std::string &line)> warn; ///< about the cache; may be null
};

/// All ranks measure what the model lacks, and use what rank 0 makes of it and keeps. Collective,
/// the same on all ranks, but for keep().
class JobModel {
public:
  /// `timer` outlives this.
  JobModel(PlanTimer &timer, JobModelOptions options);

  /// The measurements that are kept for this machine, on rank 0; else null.
  const MeasurementCache *cache() const { return cache_.get(); }
  /// Whether a model is kept that find() takes as it is.
  Result<bool> isKept();
  /// Has rank 0 keep it. Other jobs that do the same wait for their turn.
  void keep(const std::string &key, std::string value);
  /// The file of what is kept, on rank 0; else empty.
  std::string path() const { return cache_ ? cache_->path() : ""; }
  /// Whether it could be written.
  bool isSaved() const { return cache_ && cache_->isSaved(); }

  /// Takes up what is kept, and measures what it lacks, but for GEMMs and messages.
  Status find();
  /// Measures those of `shapes` that are needed to know what all of them cost; true if any.
  Result<bool> addGemms(llvm::ArrayRef<PlanMatmul> shapes);
  /// Measures what the groups and collectives of a rank's `plans` cost; true if any.
  Result<bool> addMessages(llvm::ArrayRef<const Plan *> plans);
  /// Has rank 0 keep what was measured elsewhere, in place of older figures.
  Status add(const CostModel &measured);
  const CostModel &model() const { return model_; }
  /// For people: "from FILE, GEMMs in 0.20 s, messages in 0.80 s".
  std::string source() const;

private:
  std::string key() const;
  bool isComplete() const;
  void take(const CostModel &measured);
  Status keepModel();
  Result<bool> addMore(const std::string &what, llvm::function_ref<Result<bool>()> measure);

  PlanTimer &timer_;
  const JobModelOptions options_;
  std::unique_ptr<MeasurementCache> cache_; ///< null but on rank 0
  CostModel model_;
  std::string path_;                                    ///< the file that it is from
  std::vector<std::pair<std::string, double>> seconds_; ///< names and seconds, in order
};

} // namespace braid
