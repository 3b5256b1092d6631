//===- tests/gpu/gpu_memory_test.cpp - every kind of memory that peers can access -------------===//
//
//   [BRAID_TEST_MEMORY=vmm] gpu_memory_test [--ranks N] [--runs R]
//
// Ranks gather blocks in memory of the given kind, which peers read or write. There are R rounds in
// total (default 1,000), with new numbers each time, and every element is compared. Repeatedly
// prepared sessions, repeatedly joined jobs, and sessions of many sizes must not leak memory. A job
// must also work after a new process has replaced a killed rank.
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"
#include "tests/gpu/gpu_job.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>

#include <sys/wait.h>
#include <unistd.h>

namespace braid::test {
namespace {

constexpr int64_t kRows = 3, kColumns = 1000; // of each rank's block

std::string memory() {
  const char *name = std::getenv("BRAID_TEST_MEMORY");
  return name ? name : "ipc";
}

/// Returns a fusion that gathers every rank's block on all ranks.
std::string fusion(int64_t ranks, int64_t columns) {
  FusionText f("gather");
  const Extent d = f.parameter("D", ranks);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(kRows), plain(columns)});
  f.define("C", "reshard %A", DType::F32, {stream(d), plain(kRows), plain(columns)});
  f.output({"C"});
  return f.str();
}

Status internal(const std::string &message) { return {StatusCode::Internal, message}; }

/// A rank's tensors and their contents.
class Blocks {
public:
  Blocks(const Job &job, const CompiledProgram &program)
      : rank_(job.firstRank()), ranks_(job.ranks()),
        elements_(kRows * program.inputs()[0].shape.back()) {
    cudaMalloc(&a_, bytes());
    cudaMalloc(&c_, bytes() * ranks_);
    host_.resize(static_cast<size_t>(elements_ * ranks_));
    input = Tensor(a_, program.inputs()[0]);
    output = Tensor(c_, program.outputs()[0]);
  }
  ~Blocks() {
    cudaFree(a_);
    cudaFree(c_);
  }
  Blocks(const Blocks &) = delete;

  /// Writes numbers that differ between rounds and ranks, and fills the destination with NaNs.
  void fill(int round) {
    for (int64_t i = 0; i < elements_; ++i)
      host_[static_cast<size_t>(i)] = number(round, rank_, i);
    cudaMemcpy(a_, host_.data(), bytes(), cudaMemcpyDefault);
    cudaMemset(c_, 0xff, bytes() * ranks_);
  }
  Status compare(int round) {
    cudaMemcpy(host_.data(), c_, bytes() * ranks_, cudaMemcpyDefault);
    for (int64_t rank = 0; rank < ranks_; ++rank)
      for (int64_t i = 0; i < elements_; ++i)
        if (host_[static_cast<size_t>(rank * elements_ + i)] != number(round, rank, i))
          return internal("round " + std::to_string(round) + ": element " + std::to_string(i) +
                          " of rank " + std::to_string(rank) + " is wrong");
    return Status::ok();
  }

  Tensor input, output;

private:
  size_t bytes() const { return static_cast<size_t>(elements_) * sizeof(float); }
  static float number(int round, int64_t rank, int64_t index) {
    return static_cast<float>((round * 7919 + rank * 104729 + index * 31) % 16777213);
  }

  const int64_t rank_, ranks_, elements_; ///< `elements_`: in each rank's block
  void *a_ = nullptr, *c_ = nullptr;
  std::vector<float> host_;
};

Result<std::unique_ptr<Session>> prepared(const std::shared_ptr<Job> &job,
                                          const std::string &protocol, int64_t columns = kColumns) {
  const CompiledProgram program = BRAID_TRY(
      job->compileText("gather", fusion(job->ranks(), columns),
                       {.schedule = "pairwise;protocol=" + protocol + ";memory=" + memory()}));
  return Session::prepare(job, program);
}

Status gather(const std::shared_ptr<Job> &job, Session &session, int runs) {
  Blocks blocks(*job, session.program());
  for (int round = 0; round < runs; ++round) {
    blocks.fill(round);
    BRAID_TRY(session.run({&blocks.input, 1}, {&blocks.output, 1}));
    BRAID_TRY(job->synchronize());
    BRAID_TRY(blocks.compare(round));
  }
  return Status::ok();
}

Status gather(const std::shared_ptr<Job> &job, const std::string &protocol, int runs) {
  Result<std::unique_ptr<Session>> session = prepared(job, protocol);
  return session ? gather(job, **session, runs) : session.status();
}

/// In half of the rounds, peers read the blocks; in the other half, peers write them.
Status rounds(const std::shared_ptr<Job> &job, int runs) {
  for (const char *protocol : {"get", "put"})
    BRAID_TRY(gather(job, protocol, (runs + 1) / 2));
  return job->commit();
}

size_t freeBytes() {
  size_t free = 0, total = 0;
  cudaDeviceSynchronize();
  cudaMemGetInfo(&free, &total);
  return free;
}

constexpr size_t kSlack = size_t(64) << 20; // other ranks may use the same GPU

Status prepareAgain(const std::shared_ptr<Job> &job, int) {
  size_t before = 0;
  for (int i = 0; i < 100; ++i) {
    BRAID_TRY(gather(job, i % 2 ? "put" : "get", 1));
    if (i == 10)
      before = freeBytes();
    if (i > 10 && freeBytes() + kSlack < before)
      return internal("program " + std::to_string(i) + " left memory");
  }
  return job->commit();
}

/// Uses blocks of 12 KB to 50 MB in growing, shrinking and mixed order. The last five sessions stay
/// alive, and the oldest of these must still work.
Status varySizes(const std::shared_ptr<Job> &job, int) {
  std::vector<int64_t> sizes;
  for (int64_t columns = 1000; columns < 4200000; columns += columns / 3)
    sizes.push_back(columns / 4 * 4);
  const size_t count = sizes.size();
  for (size_t i = 0; i < count; ++i)
    sizes.push_back(sizes[count - 1 - i]);
  for (size_t i = 0; i < 2 * count; ++i)
    sizes.push_back(sizes[(i * 7 + 3) % count]);
  if (Status status = rounds(job, 2); !status.isOk()) // allocates streams and GEMM workspaces
    return status;
  BRAID_TRY(job->giveBack());
  const size_t before = freeBytes();
  int64_t mostLive = 0, mostHeld = 0;
  std::deque<std::unique_ptr<Session>> live;
  for (size_t i = 0; i < sizes.size(); ++i) {
    live.push_back(BRAID_TRY(prepared(job, i % 2 ? "put" : "get", sizes[i])));
    mostLive = std::max(mostLive, job->usage().bytes);
    mostHeld = std::max(mostHeld, job->usage().held);
    for (Session *each : {live.back().get(), live.front().get()})
      BRAID_TRY(gather(job, *each, 2));
    if (live.size() == 5)
      live.pop_front();
    if (i % 3 == 2)
      BRAID_TRY(job->giveBack());
  }
  live.clear();
  BRAID_TRY(job->giveBack());
  const int64_t held = job->usage().held;
  std::printf("sessions had %lld MB, the job %lld MB at most, and has %lld kB\n",
              static_cast<long long>(mostLive >> 20), static_cast<long long>(mostHeld >> 20),
              static_cast<long long>(held >> 10));
  if (held > (int64_t(1) << 20))
    return internal("the job still has " + std::to_string(held) + " bytes");
  if (mostHeld > 3 * mostLive)
    return internal("the job had " + std::to_string(mostHeld) + " bytes for " +
                    std::to_string(mostLive));
  if (freeBytes() + kSlack < before)
    return internal("sessions of many sizes left memory");
  return job->commit();
}

template <Status (*kBody)(const std::shared_ptr<Job> &, int)>
int rankMain(const Place &place, int runs) {
  cudaSetDevice(static_cast<int>(place.localRank) % std::max(countGpus(), 1));
  Result<std::shared_ptr<Job>> job =
      Job::join({.backend = "cuda", .timeout = std::chrono::seconds(20)});
  if (!job) {
    std::fprintf(stderr, "%s\n", job.status().message().c_str());
    return static_cast<int>(job.status().code());
  }
  return endOfRank(**job, kBody(*job, runs));
}

/// Joins an additional job that has the same ranks as the launched job.
Result<std::shared_ptr<Job>> joinAnother(const Place &place, int number) {
  return Job::join(
      {.backend = "cuda",
       .timeout = std::chrono::seconds(20),
       .place = JobPlace{place.rank, place.ranks, place.job + " " + std::to_string(number)}});
}

int joinAgain(const Place &place, int runs) {
  constexpr int kJobs = 100;
  cudaSetDevice(static_cast<int>(place.localRank) % std::max(countGpus(), 1));
  Result<std::shared_ptr<Job>> outer = Job::join({.backend = "cuda"});
  if (!outer)
    return static_cast<int>(outer.status().code());
  size_t before = 0;
  Status status;
  for (int i = 0; i < std::min(kJobs, runs) && status.isOk(); ++i) {
    Result<std::shared_ptr<Job>> job = joinAnother(place, i);
    status = job ? gather(*job, "get", 2) : job.status();
    if (status.isOk())
      status = (*job)->close();
    job = Status(StatusCode::Internal, "gone");
    if (status.isOk()) // other ranks on this GPU have also freed their memory
      status = (*outer)->commit();
    if (i == 5)
      before = freeBytes();
    if (i > 5 && freeBytes() + kSlack < before)
      status = internal("job " + std::to_string(i) + " left memory");
    if (status.isOk()) // no rank has started the next job
      status = (*outer)->commit();
  }
  return endOfRank(**outer, status.isOk() ? (*outer)->commit() : status);
}

/// On the last rank, a child process joins a job and is killed there. Afterwards, all ranks,
/// including those that observed the failure, must be able to form a job.
int replaceKilled(const Place &place, int) {
  const bool isLast = place.rank + 1 == place.ranks;
  pid_t victim = 0;
  if (isLast && (victim = fork()) == 0) { // forks before this process uses CUDA
    Result<std::shared_ptr<Job>> job = joinAnother(place, 0);
    if (job)
      (void)gather(*job, "get", 3);
    raise(SIGKILL);
  }
  if (isLast)
    waitpid(victim, nullptr, 0);
  cudaSetDevice(static_cast<int>(place.localRank) % std::max(countGpus(), 1));
  if (!isLast) {
    Result<std::shared_ptr<Job>> job = joinAnother(place, 0);
    const Status status = job ? gather(*job, "get", 4) : job.status();
    if (status.code() != StatusCode::PeerFailed) {
      std::fprintf(stderr, "expected a failed peer, got '%s'\n", status.message().c_str());
      return 1;
    }
  }
  Result<std::shared_ptr<Job>> job =
      Job::join({.backend = "cuda", .timeout = std::chrono::seconds(20)});
  if (!job)
    return static_cast<int>(job.status().code());
  const Status status = gather(*job, "put", 10);
  return endOfRank(**job, status.isOk() ? (*job)->commit() : status);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid::test;
  return gpuJobMain(argc, argv,
                    {{"rounds", rankMain<rounds>},
                     {"programs that are prepared again", rankMain<prepareAgain>},
                     {"programs of many sizes", rankMain<varySizes>},
                     {"jobs that are joined again", joinAgain},
                     {"a rank that was killed and replaced", replaceKilled}});
}
