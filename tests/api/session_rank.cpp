//===- tests/api/session_rank.cpp - one rank of a job that the test starts --------------------===//
//
// session_rank [MODE]: joins the job, alternates between two sessions on four streams, and checks
// every element. In most modes, rank 1 makes a mistake:
//
//   rows       rank 1 compiles another program
//   leave      rank 1 exits in the middle of the runs
//   tensor     rank 1 first passes too few tensors, which must not disturb the other ranks
//   auto...    all ranks choose a schedule by measurement while a run is in flight; rank 1 compiles
//              another program (-rows), has another time budget (-seconds), specifies a schedule
//              (-named), or exits (-leave) or stops (-stop) in the middle of the trials
//   first...   the second session has another program, and a run of the first session cannot end,
//              because rank 2 issues it too late or rank 1 exits (-leave)
//   cuda       rank 1 requests a GPU on a machine without one
//   other-...  all other ranks call commit() (-commit) or close() (-close) while rank 1 prepares a
//              session
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace braid;

namespace {

constexpr int64_t kRows = 2, kDepth = 3, kColumns = 4; // kRows: per rank
constexpr int kRuns = 400;

std::string fusion(int64_t ranks, int64_t rows, int64_t depth = kDepth,
                   int64_t columns = kColumns) {
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", ranks);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(rows), plain(depth)});
  f.input("B", DType::F32, {plain(depth), plain(columns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(rows), plain(columns)});
  f.output({"C"});
  return f.str();
}

/// In run r, rank p's rows of A contain p + r, so its rows of C contain 3 (p + r).
Status check(const std::vector<float> &C, int run) {
  for (int64_t i = 0; i < static_cast<int64_t>(C.size()); ++i)
    if (C[i] != static_cast<float>(kDepth * (i / (kRows * kColumns) + run)))
      return {StatusCode::WrongResult,
              "run " + std::to_string(run) + ", element " + std::to_string(i)};
  return Status::ok();
}

/// Compiles the program of the second session. In modes that interrupt the trials, uses a larger
/// program, so that the trials are still running when rank 1 exits or stops.
Result<CompiledProgram> choose(Job &job, const std::string &mode) {
  const std::string other = job.firstRank() == 1 ? mode : "";
  const bool isLong = mode == "auto-leave" || mode == "auto-stop";
  if (isLong && !other.empty())
    std::thread([isStop = other == "auto-stop"] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      isStop ? static_cast<void>(raise(SIGSTOP)) : std::_Exit(0);
    }).detach();
  const std::string text = isLong ? fusion(job.ranks(), 512, 512, 512)
                                  : fusion(job.ranks(), other == "auto-rows" ? kRows + 1 : kRows);
  return job.compileText("session_rank", text,
                         {.schedule = other == "auto-named" ? "ring" : "auto",
                          .autoSeconds = other == "auto-seconds" ? 4. : 3.});
}

Status runFirst(Job &job, Session &session, std::span<const Tensor> inputs, const Tensor &output,
                const std::string &mode) {
  using std::this_thread::sleep_for;
  if (job.firstRank() == 2)
    sleep_for(std::chrono::seconds(mode == "first-leave" ? 1 : 60));
  if (Status status = session.run(inputs, {&output, 1}); !status.isOk())
    return status;
  if (job.firstRank() == 1 && mode == "first-leave") {
    sleep_for(std::chrono::milliseconds(500));
    std::_Exit(0);
  }
  return job.synchronize();
}

Status endInAnotherCall(const std::shared_ptr<Job> &job, const CompiledProgram &program,
                        const std::string &mode) {
  if (job->firstRank() == 1)
    return Session::prepare(job, program).status();
  return mode == "other-close" ? job->close() : job->commit();
}

Status runAll(const std::shared_ptr<Job> &job, const std::string &mode) {
  const std::string other = job->firstRank() == 1 ? mode : "";
  const bool isFirst = mode.starts_with("first");
  Result<CompiledProgram> program =
      job->compileText("first", fusion(job->ranks(), other == "rows" ? kRows + 1 : kRows));
  if (!program)
    return program.status();
  if (mode.starts_with("other"))
    return endInAnotherCall(job, *program, mode);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<float> A(kRows * kDepth), B(kDepth * kColumns, 1),
      C(static_cast<size_t>(job->ranks() * kRows * kColumns));
  const Tensor inputs[] = {{A.data(), program->inputs()[0]}, {B.data(), program->inputs()[1]}};
  const Tensor output(C.data(), program->outputs()[0]);
  for (int i = 0; i < 2; ++i) {
    Result<CompiledProgram> mine = *program;
    if (i == 1 && mode.starts_with("auto")) {
      if (Status status = sessions[0]->run(inputs, {&output, 1}); !status.isOk())
        return status;
      mine = choose(*job, mode);
    }
    if (i == 1 && isFirst)
      mine = job->compileText("second", fusion(job->ranks(), kRows + 3), {.schedule = "ring"});
    if (!mine)
      return mine.status();
    Result<std::unique_ptr<Session>> session = Session::prepare(job, *mine);
    if (!session)
      return session.status();
    sessions.push_back(std::move(*session));
  }
  if (isFirst)
    return runFirst(*job, *sessions[0], inputs, output, mode);
  if (other == "tensor" && sessions[0]->run({inputs, 1}, {&output, 1}).isOk())
    return {StatusCode::Internal, "a tensor is missing, and nobody saw it"};
  for (int run = 0; run < kRuns; ++run) {
    if (other == "leave" && run == kRuns / 2)
      std::_Exit(0);
    A.assign(A.size(), static_cast<float>(job->firstRank() + run));
    Result<void *> stream = job->stream(static_cast<uint32_t>(run % 4));
    if (!stream)
      return stream.status();
    for (const Status &status :
         {sessions[run % 2]->run(inputs, {&output, 1}, *stream), job->synchronize(), check(C, run)})
      if (!status.isOk())
        return status;
  }
  return job->commit();
}

} // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto timeout = std::chrono::seconds(mode == "auto-stop" || mode == "first" ? 2 : 20);
  JobOptions options{.timeout = timeout};
  if (mode == "cuda" && std::getenv("BRAID_RANK") == std::string("1")) {
    options.backend = "cuda";
    // Wait until the other ranks are waiting for rank 1.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  Result<std::shared_ptr<Job>> job = Job::join(options);
  Status status = job.status();
  if (job)
    status = runAll(*job, mode);
  if (job && !status.isOk())
    status = (*job)->fail(status);
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return static_cast<int>(status.code());
}
