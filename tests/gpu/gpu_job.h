//===- tests/gpu/gpu_job.h - a test program that starts itself once per rank ------------------===//
#pragma once

#include "api/launch/launch.h"
#include "backends/cuda/cuda_backend.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/environment.h"

#include <cstdio>
#include <cstdlib>

namespace braid::test {

/// Returns true if ranks may share GPUs.
inline bool sharesGpus() {
  const char *shares = std::getenv("BRAID_SHARE_GPUS");
  return shares && std::string(shares) == "on";
}

/// Ends a rank with `status` and returns its exit code. `job` is a Job or a JobRank.
template <class JobOfRank> int endOfRank(JobOfRank &job, Status status) {
  if (!status.isOk())
    status = job.fail(status);
  return static_cast<int>(status.code());
}

/// A job that a test program starts, and the expected outcome of the job.
struct GpuJob {
  const char *what;
  int (*rankMain)(const Place &place, int runs);
  const char *failure = nullptr; ///< part of the message with which the job must fail
  bool endsAlike = false;        ///< every rank must end with the status of that failure
};

inline bool runGpuJob(const char *program, const GpuJob &job, size_t number, int64_t ranks,
                      int runs) {
  std::printf("%s on %d ranks\n", job.what, static_cast<int>(ranks));
  std::fflush(stdout);
  LaunchOptions options;
  options.ranks = ranks;
  options.arguments = {program, "--as-rank", std::to_string(number), "--runs",
                       std::to_string(runs)};
  Result<LaunchReport> report = launch(options);
  if (report && report->signal != 0)
    std::exit(128 + report->signal);
  const Status status = report ? report->status : report.status();
  bool passed =
      job.failure ? llvm::StringRef(status.message()).contains(job.failure) : status.isOk();
  if (!passed)
    std::printf("  FAILED: %s\n", status.isOk() ? "no failure" : status.message().c_str());
  if (job.endsAlike && report)
    for (const std::string &ending : report->endings) {
      passed = false;
      std::printf("  FAILED: %s\n", ending.c_str());
    }
  return passed;
}

/// Parses `[--ranks N] [--runs R]` and runs each job on 2, 3 and 4 ranks, or on N, if there are
/// enough GPUs. Each rank is a separate process of this program and returns the result of
/// `rankMain`. Returns 77 if there are too few GPUs.
inline int gpuJobMain(int argc, char **argv, const std::vector<GpuJob> &all) {
  int64_t ranks = 0;
  int runs = 1000, number = -1;
  bool isUnderstood = true;
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef flag = argv[i];
    if (flag == "--as-rank" && i + 1 < argc)
      number = std::atoi(argv[++i]);
    else if (flag == "--ranks" && i + 1 < argc)
      ranks = std::atoi(argv[++i]);
    else if (flag == "--runs" && i + 1 < argc)
      runs = std::atoi(argv[++i]);
    else
      isUnderstood = false;
  }
  if (!isUnderstood || ranks < 0 || runs < 1) {
    std::fprintf(stderr, "expected [--ranks N] [--runs R]\n");
    return 2;
  }
  if (number >= 0) {
    Result<std::optional<Place>> place = findPlace(processEnvironment());
    return place && *place ? all[static_cast<size_t>(number)].rankMain(**place, runs) : 2;
  }
  const int gpus = countGpus();
  const int64_t most = gpus > 0 && sharesGpus() ? 4 : gpus;
  int jobs = 0, passed = 0;
  for (int64_t each : {2, 3, 4})
    for (size_t i = 0; i < all.size() && each <= most && (ranks == 0 || ranks == each); ++i) {
      ++jobs;
      passed += runGpuJob(argv[0], all[i], i, each, runs);
    }
  if (jobs == 0) {
    std::printf("skipped: needs 2 GPUs, or BRAID_SHARE_GPUS=on and one\n");
    return 77;
  }
  std::printf("%d of %d jobs passed\n", passed, jobs);
  return passed == jobs ? 0 : 1;
}

} // namespace braid::test
