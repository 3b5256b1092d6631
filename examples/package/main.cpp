// Braid from C++: lowers, checks and runs a fusion on the caller's memory.
//
// Each of four ranks has two rows of A and computes all eight rows of C = A * B.

#include "api/fusion.h"
#include "api/session.h"

#include <cstdio>

namespace {

constexpr int64_t kRanks = 4, kRows = 8, kDepth = 3, kColumns = 2;

std::string fusion() {
  using namespace braid;
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", kRanks), m = f.parameter("M", kRows);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(m / d), plain(kDepth)});
  f.input("B", DType::F32, {plain(kDepth), plain(kColumns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(m / d), plain(kColumns)});
  f.output({"C"});
  return f.str();
}

/// Returns the number of wrong elements in C. With A[i][k] = i + k and B[k][n] = 1 + n, the correct
/// result is C[i][n] = (3 i + 3) (1 + n).
int wrongElements(const std::vector<float> &C) {
  int wrong = 0;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t n = 0; n < kColumns; ++n)
      wrong += C[i * kColumns + n] != static_cast<float>((3 * i + 3) * (1 + n));
  return wrong;
}

int fail(const braid::Status &status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return static_cast<int>(status.code());
}

} // namespace

int main() {
  auto program = braid::compileText("example", fusion(), {.schedule = "pairwise;streams=2"});
  if (!program)
    return fail(program.status());
  if (braid::Status status = program->check(); !status.isOk())
    return fail(status);
  std::printf("%s\n", program->str().c_str());

  // prepare() does everything that can block or allocate; run() only issues work.
  auto job = braid::Job::create({.backend = "cpu", .ranks = kRanks});
  if (!job)
    return fail(job.status());
  auto session = braid::Session::prepare(*job, *program);
  if (!session)
    return fail(session.status());

  const auto inputs = program->inputs(), outputs = program->outputs();
  std::vector<float> B(kDepth * kColumns);
  for (int64_t k = 0; k < kDepth; ++k)
    for (int64_t n = 0; n < kColumns; ++n)
      B[k * kColumns + n] = static_cast<float>(1 + n);
  std::vector<std::vector<float>> A(kRanks), C(kRanks);
  std::vector<braid::RankTensors> tensors;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    for (int64_t i = rank * kRows / kRanks; i < (rank + 1) * kRows / kRanks; ++i)
      for (int64_t k = 0; k < kDepth; ++k)
        A[rank].push_back(static_cast<float>(i + k));
    C[rank].resize(kRows * kColumns);
    tensors.push_back(
        {{{A[rank].data(), inputs[0]}, {B.data(), inputs[1]}}, {{C[rank].data(), outputs[0]}}});
  }
  if (braid::Status status = (*session)->run(tensors); !status.isOk())
    return fail(status);
  if (braid::Status status = (*job)->synchronize(); !status.isOk())
    return fail(status);

  int wrong = 0;
  for (const std::vector<float> &mine : C)
    wrong += wrongElements(mine);
  std::printf("%d of %d elements wrong\n", wrong, static_cast<int>(kRanks * kRows * kColumns));
  return wrong == 0 ? 0 : 1;
}
