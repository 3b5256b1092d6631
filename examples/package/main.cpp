// Braid from C++: a fusion made with the builder, lowered, and run on the caller's own memory.
//
// Four ranks hold two rows of A each; every rank gets all eight rows of C = A * B.

#include "api/run.h"

#include <cstdio>

namespace {

constexpr int64_t kRanks = 4, kRows = 8, kDepth = 3, kColumns = 2;

void define(braid::Fusion &fusion) {
  using braid::DType;
  braid::FusionBuilder b(fusion);
  const braid::Scalar *d = b.parameter("D", kRanks);
  b.mesh(d);
  auto *A = b.input("A", DType::F32, {b.didx(d), b.plain(kRows / kRanks), b.plain(kDepth)});
  auto *B = b.input("B", DType::F32, {b.plain(kDepth), b.plain(kColumns)});
  auto *C = b.matmul("C", A, B, {b.stream(d), b.plain(kRows / kRanks), b.plain(kColumns)});
  b.output({C});
}

/// A[i][k] = i + k, B[k][n] = 1 + n: C[i][n] = (3 i + 3) (1 + n).
int wrongElements(const std::vector<float> &C) {
  int wrong = 0;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t n = 0; n < kColumns; ++n)
      wrong += C[i * kColumns + n] != static_cast<float>((3 * i + 3) * (1 + n));
  return wrong;
}

int fail(const braid::Status &status, const braid::Source &source) {
  std::fprintf(stderr, "%s%s\n", source.diags.str().c_str(), status.message().c_str());
  return static_cast<int>(status.code());
}

} // namespace

int main() {
  braid::Source source("example");
  source.module.fusions.push_back(std::make_unique<braid::Fusion>("gather_matmul"));
  define(*source.module.fusions.front());
  auto compiled =
      braid::compile(source, {.schedule = *braid::Configurations::parse("pairwise;streams=2")});
  if (!compiled)
    return fail(compiled.status(), source);
  std::printf("%s\n", braid::str(*compiled->program).c_str());

  // Everything that can block or allocate happens in prepare; run only issues.
  braid::BackendRegistry backends = braid::builtinBackends();
  auto mesh = braid::LocalMesh::create(*backends.find("cpu"), {.ranks = kRanks});
  if (!mesh)
    return fail(mesh.status(), source);
  if (braid::Status status = (*mesh)->prepare(*compiled); !status.isOk())
    return fail(status, source);

  std::vector<float> B(kDepth * kColumns);
  for (int64_t k = 0; k < kDepth; ++k)
    for (int64_t n = 0; n < kColumns; ++n)
      B[k * kColumns + n] = static_cast<float>(1 + n);
  std::vector<std::vector<float>> A(kRanks), C(kRanks);
  std::vector<braid::RunArguments> arguments(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    for (int64_t i = rank * kRows / kRanks; i < (rank + 1) * kRows / kRanks; ++i)
      for (int64_t k = 0; k < kDepth; ++k)
        A[rank].push_back(static_cast<float>(i + k));
    C[rank].resize(kRows * kColumns);
    arguments[rank] = {{A[rank].data(), B.data()}, {C[rank].data()}};
  }
  (*mesh)->run(arguments);
  if (braid::Status status = (*mesh)->synchronize(); !status.isOk())
    return fail(status, source);

  int wrong = 0;
  for (const std::vector<float> &mine : C)
    wrong += wrongElements(mine);
  std::printf("%d of %d elements wrong\n", wrong, static_cast<int>(kRanks * kRows * kColumns));
  return wrong == 0 ? 0 : 1;
}
