//===- tests/api/session_rank.cpp - one rank of a job that somebody else starts ---------------===//
//
// session_rank [OTHER]: joins, runs two sessions in turn on four streams, and checks every element.
// With OTHER, rank 1 does so: `rows` brings another program, `leave` ends in the middle of the
// runs, `tensor` gives a wrong tensor first, which harms nobody.
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace braid;

namespace {

constexpr int64_t kRows = 2, kDepth = 3, kColumns = 4; // rows of one rank
constexpr int kRuns = 400;

std::string fusion(int64_t ranks, int64_t rows) {
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", ranks);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(rows), plain(kDepth)});
  f.input("B", DType::F32, {plain(kDepth), plain(kColumns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(rows), plain(kColumns)});
  f.output({"C"});
  return f.str();
}

/// In run r, the rows of rank p are p + r, so those of C are 3 (p + r).
Status check(const std::vector<float> &C, int run) {
  for (int64_t i = 0; i < static_cast<int64_t>(C.size()); ++i)
    if (C[i] != static_cast<float>(kDepth * (i / (kRows * kColumns) + run)))
      return {StatusCode::WrongResult,
              "run " + std::to_string(run) + ", element " + std::to_string(i)};
  return Status::ok();
}

Status runAll(const std::shared_ptr<Job> &job, const std::string &other) {
  const bool isRows = other == "rows";
  Result<CompiledProgram> program =
      compileText("session_rank", fusion(job->ranks(), isRows ? kRows + 1 : kRows));
  if (!program)
    return program.status();
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 2; ++i) {
    Result<std::unique_ptr<Session>> session = Session::prepare(job, *program);
    if (!session)
      return session.status();
    sessions.push_back(std::move(*session));
  }
  std::vector<float> A(kRows * kDepth), B(kDepth * kColumns, 1),
      C(static_cast<size_t>(job->ranks() * kRows * kColumns));
  const Tensor inputs[] = {{A.data(), program->inputs()[0]}, {B.data(), program->inputs()[1]}};
  const Tensor output(C.data(), program->outputs()[0]);
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
  Result<std::shared_ptr<Job>> job = Job::join({.timeout = std::chrono::seconds(20)});
  Status status = job.status();
  if (job)
    status = runAll(*job, argc > 1 && (*job)->firstRank() == 1 ? argv[1] : "");
  if (job && !status.isOk())
    status = (*job)->fail(status);
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return static_cast<int>(status.code());
}
