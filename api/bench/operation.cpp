//===- api/bench/operation.cpp - the operations of the benchmark ------------------------------===//

#include "api/bench/operation.h"

#include <fmt/format.h>

namespace braid {
namespace {

constexpr const char *kGatherMatmul = R"(fusion @gather_matmul(D = {D}) {{
  mesh [0 .. D)
  %A = input {T}[DIDx{{D}}, {rows}, {k}]
  %B = input {T}[{k}, {n}]
  %C = matmul %A, %B : {T}[Stream{{D}}, {rows}, {n}]
  output %C
}}
)";
constexpr const char *kMatmulReduceScatter = R"(fusion @matmul_reduce_scatter(D = {D}) {{
  mesh [0 .. D)
  %A = input {T}[D, {rows}, DIDx{{D}}, {k}]
  %B = input {T}[DIDx{{D}}, {k}, {n}]
  %C = matmul %A, %B : {T}[DIDx{{D}}, {rows}, {n}]
  output %C
}}
)";
constexpr const char *kMatmulAllReduce = R"(fusion @matmul_all_reduce(D = {D}) {{
  mesh [0 .. D)
  %A = input {T}[{m}, DIDx{{D}}, {k}]
  %B = input {T}[DIDx{{D}}, {k}, {n}]
  %C = matmul %A, %B : {T}[{m}, {n}]
  output %C
}}
)";
constexpr const char *kMlp = R"(fusion @mlp(D = {D}) {{
  mesh [0 .. D)
  %X = input {T}[DIDx{{D}}, {rows}, {n}]
  %W1 = input {T}[{n}, DIDx{{D}}, {k}]
  %W2 = input {T}[DIDx{{D}}, {k}, {n}]
  %H = matmul %X, %W1 : {T}[Stream{{D}}, {rows}, DIDx{{D}}, {k}]
  %G = gelu_tanh %H : {T}[Stream{{D}}, {rows}, DIDx{{D}}, {k}]
  %Y = matmul %G, %W2 : {T}[DIDx{{D}}, {rows}, {n}]
  output %Y
}}
)";

std::vector<std::string> standardRows(std::vector<std::string> others) {
  std::vector<std::string> rows = {"gemms", "transfers", "transfers;protocol=put", "sequential"};
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

const char kUneven[] =
    "\nIf m is not a multiple of the number of ranks, the last ranks have fewer rows.";
const char kShareOfRank[] = "columns of A and rows of B on each rank";

} // namespace

llvm::ArrayRef<Operation> operations() {
  static const std::vector<Operation> all = {
      {"gather-matmul",
       "gather A, then multiply it by B",
       std::string(
           "C[m, n] = A[m, k] B[k, n], where each rank holds m / ranks rows of A and all of B.") +
           kUneven,
       {"rows of A and C", "columns of B and C, on every rank", "columns of A, rows of B"},
       kGatherMatmul,
       standardRows({"pairwise", "pairwise;protocol=put", "ring"})},
      {"matmul-reduce-scatter",
       "multiply over each rank's share of K, then reduce-scatter the rows",
       std::string("C[m, n] = A[m, k] B[k, n], summed over ranks: each rank holds its own k "
                   "columns of A\nand k rows of B, and keeps m / ranks rows of the sum.") +
           kUneven,
       {"rows of A; each rank receives m / ranks rows of C", "columns of B and C", kShareOfRank},
       kMatmulReduceScatter,
       standardRows({"bulk", "pairwise", "pairwise;protocol=put",
                     "pairwise;placement=shared;protocol=put"})},
      {"matmul-all-reduce",
       "multiply over each rank's share of K, then all-reduce",
       "C[m, n] = A[m, k] B[k, n], summed over ranks: each rank holds its own k columns of A\nand "
       "k rows of B, and receives the full sum.",
       {"rows of A and C", "columns of B and C", kShareOfRank},
       kMatmulAllReduce,
       standardRows({"bulk", "pairwise", "pairwise;protocol=put",
                     "pairwise;placement=shared;protocol=put",
                     "bulk;reduction=two-shot;protocol=put",
                     "pairwise;placement=shared;reduction=two-shot;protocol=put;streams=6"})},
      {"mlp",
       "an MLP with tensor and sequence parallelism",
       std::string(
           "Y = gelu_tanh(X W1) W2: each rank holds m / ranks rows of X[m, n], its own k columns "
           "of W1[n, k]\nand k rows of W2[k, n], and keeps m / ranks rows of the sum over ranks.") +
           kUneven,
       {"rows of X and Y", "columns of X and Y", "hidden columns on each rank"},
       kMlp,
       standardRows({"bulk", "pairwise", "pairwise;placement=shared;protocol=put"})}};
  return all;
}

std::string Operation::fusion(const BenchShape &shape, DType type, int64_t ranks) const {
  const auto [m, n, k] = shape;
  // If the rows do not divide evenly among the ranks, the last ranks have fewer rows.
  const std::string rows =
      m % ranks == 0 ? std::to_string(m / ranks) : fmt::format("ceil({}, {})", m, ranks);
  return fmt::format(fmt::runtime(text), fmt::arg("D", ranks), fmt::arg("m", m), fmt::arg("n", n),
                     fmt::arg("k", k), fmt::arg("rows", rows),
                     fmt::arg("T", braid::name(type).str()));
}

} // namespace braid
