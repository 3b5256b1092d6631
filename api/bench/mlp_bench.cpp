//===- api/bench/mlp_bench.cpp - mlp, an operation of the benchmark ---------------------------===//

#include "api/bench/mlp_bench.h"

#include "api/bench/operation_rows.h"

#include <fmt/format.h>

namespace braid {
namespace {

std::string mlpFusion(const RowProblem &p) {
  return fmt::format("fusion @mlp(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %X = input {1}[DIDx{{D}}, {3}, {4}]\n"
                     "  %W1 = input {1}[{4}, DIDx{{D}}, {5}]\n"
                     "  %W2 = input {1}[DIDx{{D}}, {5}, {4}]\n"
                     "  %H = matmul %X, %W1 : {1}[Stream{{D}}, {3}, DIDx{{D}}, {5}]\n"
                     "  %G = gelu_tanh %H : {1}[Stream{{D}}, {3}, DIDx{{D}}, {5}]\n"
                     "  %Y = matmul %G, %W2 partial {2} : {1}[DIDx{{D}}, {3}, {4}]\n"
                     "  output %Y\n}}\n",
                     p.ranks, p.element(), p.partial(), p.blockExtent(), p.shape.n, p.shape.k);
}

/// Both GEMMs of all rows, and what is between, as if nothing had to move.
std::string gemmsAlone(const RowProblem &p) {
  const bool isShort = sizeOf(p.types.element) == 2;
  return fmt::format("program @gemms_alone mesh [0 .. {0})\n"
                     "    (%X: {1}[{3}, {4}], %W1: {1}[{4}, {5}], %W2: {1}[{5}, {4}])\n"
                     "    -> (%Y: {2}[{3}, {4}]) {{\n"
                     "  %H = allocate device {6}[{3}, {5}]\n"
                     "  %G = allocate device {1}[{3}, {5}]\n"
                     "  matmul %H, %X, %W1\n"
                     "  pointwise %G, gelu_tanh(%H)\n"
                     "  matmul %Y, %G, %W2\n}}\n",
                     p.ranks, p.element(), p.partial(), p.shape.m, p.shape.n, p.shape.k,
                     isShort ? "f32" : p.element());
}

const std::vector<RowType> kRows = {
    {"gemms", RowKind::Gemm, "both GEMMs alone, of all rows, and the function between them"},
    {"chunked", RowKind::ChunkedGemm, "chunked GEMMs: alone, but cut as pairwise cuts them"},
    {"transfers", RowKind::Transfers, "the transfers alone, with the sum of what they bring"},
    {"sequential", RowKind::Sequential, "one part after the other"},
    {"auto", RowKind::Overlapped,
     "what braid run --schedule auto chooses, graph or not; once a shape"},
};

const std::vector<RowType> kRivals = {
    {"torch/gemms", RowKind::Gemm, "torch.matmul, gelu, torch.matmul"},
    {"torch/sequential", RowKind::Sequential,
     "all_gather_into_tensor (NCCL), these three, then reduce_scatter_tensor"},
    {"torch/fused", RowKind::Overlapped,
     "symm_mem.fused_all_gather_matmul, gelu, symm_mem.fused_matmul_reduce_scatter",
     /*isEagerToo=*/true},
};

} // namespace

Operation mlp() {
  Operation operation;
  operation.name = "mlp";
  operation.summary = "an MLP with tensor and sequence parallelism";
  operation.help = "Y = gelu_tanh(X W1) W2: each rank has m / ranks rows of X[m, n], and of each "
                   "weight its own k:\n"
                   "W1[n, k], W2[k, n]. It keeps m / ranks rows of the sum over ranks.\n"
                   "If m is no multiple of the ranks, the last ones have fewer rows.";
  operation.examples =
      "  braid bench mlp -m 8192 -n 8192 -k 14336 --ranks 2 --backend cuda --against torch\n"
      "  braid bench mlp -m 64 -n 512 -k 256 --impl 'gemms,sequential,bulk,pairwise;chunks=2'";
  operation.extents = {"rows of X and Y; m / ranks are those of each rank", "columns of X and Y",
                       "columns between, of each rank"};
  operation.hasPartials = true;
  operation.rows = kRows;
  operation.rivals = kRivals;
  operation.standard = {"gemms", "transfers", "sequential",
                        "bulk",  "pairwise",  "pairwise;placement=shared;protocol=put"};
  operation.flops = [](const BenchShape &shape) {
    return 4.0 * double(shape.m) * double(shape.n) * double(shape.k);
  };
  operation.makeRow = [](const std::string &name, const BenchShape &shape, const BenchTypes &types,
                         int64_t ranks, bool isGraphed) {
    static const OperationTexts texts = {
        mlpFusion,
        {{"gemms", gemmsAlone},
         {"chunked", mlpFusion, /*isProgram=*/false, PlanPart::Gemms},
         {"transfers", mlpFusion, /*isProgram=*/false, PlanPart::Transfers}}};
    return makeRow(texts, name, {shape, types, ranks}, isGraphed);
  };
  return operation;
}

} // namespace braid
