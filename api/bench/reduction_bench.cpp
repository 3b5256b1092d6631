//===- api/bench/reduction_bench.cpp - matmul-reduce-scatter and matmul-all-reduce ------------===//

#include "api/bench/reduction_bench.h"

#include "api/bench/operation_rows.h"

#include <fmt/format.h>

namespace braid {
namespace {

//===- The operations themselves --------------------------------------------------------------===//

std::string reduceScatterFusion(const RowProblem &p) {
  return fmt::format("fusion @matmul_reduce_scatter(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[D, {3}, DIDx{{D}}, {4}]\n"
                     "  %B = input {1}[DIDx{{D}}, {4}, {5}]\n"
                     "  %C = matmul %A, %B partial {2} : {1}[DIDx{{D}}, {3}, {5}]\n"
                     "  output %C\n}}\n",
                     p.ranks, p.element(), p.partial(), p.blockExtent(), p.shape.k, p.shape.n);
}

std::string allReduceFusion(const RowProblem &p) {
  return fmt::format("fusion @matmul_all_reduce(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[{3}, DIDx{{D}}, {4}]\n"
                     "  %B = input {1}[DIDx{{D}}, {4}, {5}]\n"
                     "  %C = matmul %A, %B partial {2} : {1}[{3}, {5}]\n"
                     "  output %C\n}}\n",
                     p.ranks, p.element(), p.partial(), p.shape.m, p.shape.k, p.shape.n);
}

//===- Transfers of partial results, and their sum --------------------------------------------===//

/// What differs between the two. Partial results are taken to lie where GEMMs leave them: the own
/// part among those that are summed, and the others where peers pull them or this rank pushes them
/// from. Nothing that moves depends on what they are, so nobody writes them.
struct Reduction {
  const RowProblem &problem;
  bool isScattered;

  int64_t rows() const { return isScattered ? problem.blockRows() : problem.shape.m; }
  std::string result() const {
    return fmt::format("{}[{}, {}]", problem.element(), rows(), problem.shape.n);
  }
  std::string parts() const {
    return fmt::format("{}[{}, {}, {}]", problem.partial(), problem.ranks, rows(), problem.shape.n);
  }
  std::string allocate() const;
  /// How many rows there are of a part of that rank's sum. Empty: all.
  std::string rowsOf(const std::string &rank) const {
    return isScattered ? problem.rowsOf(rank) : "";
  }
  /// Selects what goes to that peer; `to` is a number or an index.
  std::string part(const std::string &name, const std::string &to) const {
    const std::string peer = fmt::format("(rank + {}) mod {}", to, problem.ranks);
    return selectBlock("%part" + name, isScattered ? "%sent[" + peer + "]" : "%parts[rank]",
                       rowsOf(peer));
  }
  std::string slot(const std::string &name, const std::string &from) const {
    return selectBlock("%slot" + name,
                       fmt::format("%parts[(rank - {}) mod {}]", from, problem.ranks),
                       rowsOf("rank"));
  }
  std::string sum() const;
  std::string transfers(const std::string &name, const std::string &step) const;
  std::string exchange() const;
};

std::string Reduction::allocate() const {
  const bool isPulled = isScattered && problem.pulls();
  std::string text =
      fmt::format("  %parts = allocate {} {}\n", isPulled ? "device" : "symmetric", parts());
  if (isScattered)
    text += fmt::format("  %sent = allocate {} {}\n", isPulled ? "symmetric" : "device", parts());
  return text + fmt::format("  %h = share_mem_handles {} {}\n", problem.protocol(),
                            isPulled ? "%sent" : "%parts");
}

/// With the ready signal first, whoever copies.
std::string Reduction::transfers(const std::string &name, const std::string &step) const {
  const std::string send = fmt::format(
      "  %s{0} = p2p send %part{0} to (rank + {1}) mod {2} via %h\n", name, step, problem.ranks);
  const std::string receive = fmt::format(
      "  %r{0} = p2p recv %slot{0} from (rank - {1}) mod {2} via %h\n", name, step, problem.ranks);
  return problem.pulls() ? send + receive : receive + send;
}

/// With every peer, in one group.
std::string Reduction::exchange() const {
  std::string selects, group, waits;
  for (int64_t i = 1; i < problem.ranks; ++i) {
    const std::string step = std::to_string(i), name = "_" + step;
    selects += part(name, step) + slot(name, step);
    group += transfers(name, step);
    waits += fmt::format("  wait %s{0}\n  wait %r{0}\n", name);
  }
  return problem.ranks > 1 ? selects + "  group {\n" + group + "  }\n" + waits : "";
}

std::string Reduction::sum() const {
  const std::string rows = rowsOf("rank");
  if (rows.empty())
    return "  sum %C, %parts\n";
  return fmt::format("  %C_rows = slice %C[0 .. {0}]\n  sum %C_rows, %parts[0 .. {0}]\n", rows);
}

/// By one group on one stream.
std::string reduceTogether(const Reduction &r) {
  return fmt::format("program @reduce_together mesh [0 .. {}) () -> (%C: {}) {{\n"
                     "{}{}{}}}\n",
                     r.problem.ranks, r.result(), r.allocate(), r.exchange(), r.sum());
}

/// A stream for each peer.
std::string reduceWithEach(const Reduction &r) {
  return fmt::format("program @reduce_alone mesh [0 .. {0}) () -> (%C: {1}) {{\n"
                     "{2}"
                     "  %main = get_current_stream\n"
                     "  for %j in 1 .. {0} {{\n"
                     "    set_current_stream stream(%j)\n"
                     "    synchronize %main\n"
                     "  }}\n"
                     "  for %i in 1 .. {0} {{\n"
                     "  set_current_stream stream(%i)\n"
                     "{3}{4}{5}"
                     "  wait %s\n"
                     "  wait %r\n"
                     "  }}\n"
                     "  set_current_stream %main\n"
                     "  for %j in 1 .. {0} {{\n"
                     "    synchronize stream(%j)\n"
                     "  }}\n"
                     "{6}}}\n",
                     r.problem.ranks, r.result(), r.allocate(), r.part("", "%i"), r.slot("", "%i"),
                     r.transfers("", "%i"), r.sum());
}

/// By one collective, into the result if that has the type of what is summed.
std::string reduceByCollective(const Reduction &r) {
  const RowProblem &p = r.problem;
  const bool isConverted = p.partial() != p.element();
  const std::string rows = fmt::format("{}, {}]", r.rows(), p.shape.n);
  const std::string allocateCome =
      fmt::format("  %come = allocate device {}[1, {}\n", p.partial(), rows);
  return fmt::format("program @reduce_by_collective mesh [0 .. {}) () -> (%C: {}) {{\n"
                     "  %sent = allocate device {}[{}, {}\n"
                     "{}"
                     "  %c = collective {} sum {}, %sent\n"
                     "  wait %c\n"
                     "{}}}\n",
                     p.ranks, r.result(), p.partial(), r.isScattered ? p.ranks : 1, rows,
                     isConverted ? allocateCome : "",
                     r.isScattered ? "reduce_scatter" : "allreduce", isConverted ? "%come" : "%C",
                     isConverted ? "  sum %C, %come\n" : "");
}

/// What is left if the GEMM cost nothing.
std::string reduceAlone(const Reduction &r) {
  if (r.problem.config.transfers() == schedule::Transfers::Collective)
    return reduceByCollective(r);
  const bool areTogether = r.problem.config.placement() == schedule::Placement::Shared;
  return areTogether ? reduceTogether(r) : reduceWithEach(r);
}

/// What is left if nothing had to wait: one GEMM, beside a reduction of what others had made.
std::string reduceUncoupled(const Reduction &r) {
  const RowProblem &p = r.problem;
  return fmt::format("program @reduce_uncoupled mesh [0 .. {0})\n"
                     "    (%A: {1}[{3}, {4}], %B: {1}[{4}, {5}]) -> (%C: {6}) {{\n"
                     "  %made = allocate device {2}[{3}, {5}]\n"
                     "{7}"
                     "  %main = get_current_stream\n"
                     "  set_current_stream stream(1)\n"
                     "  synchronize %main\n"
                     "{8}{9}"
                     "  set_current_stream %main\n"
                     "  matmul %made, %A, %B\n"
                     "  synchronize stream(1)\n}}\n",
                     p.ranks, p.element(), p.partial(), p.shape.m, p.shape.k, p.shape.n, r.result(),
                     r.allocate(), r.exchange(), r.sum());
}

template <bool isScattered, std::string (*text)(const Reduction &)>
std::string textOf(const RowProblem &problem) {
  return text({problem, isScattered});
}

template <bool isScattered> OperationTexts textsOf(RowText fusion, const char *transfers) {
  return {fusion,
          {{"gemm", gemmAlone},
           {"chunked", fusion, /*isProgram=*/false, PlanPart::Gemms},
           {transfers, textOf<isScattered, reduceAlone>, /*isProgram=*/true, PlanPart::All,
            /*mayBeCollective=*/true},
           {"uncoupled", textOf<isScattered, reduceUncoupled>}},
          /*hasBlocks=*/isScattered};
}

//===- The entries ----------------------------------------------------------------------------===//

/// What both have; `transfers` is their row of transfers with the sum.
Operation reductionOf(const std::string &transfers) {
  Operation operation;
  operation.hasPartials = true;
  operation.rows = {
      {"gemm", RowKind::Gemm, "the GEMM alone, of all rows"},
      {"chunked", RowKind::ChunkedGemm,
       "chunked GEMM: alone, but cut as pairwise cuts it: what the cutting costs"},
      {transfers, RowKind::Transfers, "the transfers alone, with the sum of what they bring"},
      {"uncoupled", RowKind::Uncoupled,
       "both at once, neither waiting for the other: what the machine leaves of them"},
      {"sequential", RowKind::Sequential, "one GEMM, then the transfers and their sum"},
      {"auto", RowKind::Overlapped,
       "what braid run --schedule auto chooses, graph or not; once a shape"},
  };
  operation.standard = {
      "gemm", transfers,  transfers + ";protocol=put", "sequential",
      "bulk", "pairwise", "pairwise;protocol=put",     "pairwise;placement=shared;protocol=put"};
  operation.flops = [](const BenchShape &shape) {
    return 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  };
  return operation;
}

constexpr const char *kShareOfRank = "columns of A, rows of B: of each rank, its own share";

} // namespace

Operation matmulReduceScatter() {
  Operation operation = reductionOf("scatter");
  operation.name = "matmul-reduce-scatter";
  operation.summary = "GEMM with a share of K on each rank, and the sum of each rank's own rows";
  operation.help =
      "C[m, n] = A[m, k] B[k, n], summed over ranks: each has its own k columns of A "
      "and rows of B,\n"
      "and keeps m / ranks rows of the sum. If m is no multiple of the ranks, the last ones have "
      "fewer.";
  operation.extents = {"rows of A; m / ranks are those of C on each rank", "columns of B and C",
                       kShareOfRank};
  operation.examples =
      "  braid bench matmul-reduce-scatter -m 8192 -n 8192 -k 2048 --ranks 4 --backend cuda "
      "--against torch\n"
      "  braid bench matmul-reduce-scatter -m 4096 -n 4096 -k 1024 --partial f32 --impl "
      "'gemm,scatter,pairwise;chunks=4'";
  operation.rivals = {
      {"torch/gemm", RowKind::Gemm, "torch.matmul"},
      {"torch/scatter", RowKind::Transfers, "reduce_scatter_tensor (NCCL)"},
      {"torch/sequential", RowKind::Sequential, "torch.matmul, then reduce_scatter_tensor"},
      // So it is mostly used, and not every PyTorch can capture it.
      {"torch/fused", RowKind::Overlapped,
       "symm_mem.fused_matmul_reduce_scatter, eagerly in any case", /*isEagerToo=*/true},
  };
  operation.makeRow = [](const std::string &name, const BenchShape &shape, const BenchTypes &types,
                         int64_t ranks, bool isGraphed) {
    static const OperationTexts texts = textsOf<true>(reduceScatterFusion, "scatter");
    return makeRow(texts, name, {shape, types, ranks}, isGraphed);
  };
  return operation;
}

Operation matmulAllReduce() {
  Operation operation = reductionOf("reduce");
  operation.name = "matmul-all-reduce";
  operation.standard.push_back("bulk;reduction=two-shot;protocol=put");
  operation.standard.push_back(
      "pairwise;placement=shared;reduction=two-shot;protocol=put;streams=6");
  operation.summary = "GEMM with a share of K on each rank, and the sum of all rows everywhere";
  operation.help = "C[m, n] = A[m, k] B[k, n], summed over ranks: each has its own k columns of A "
                   "and rows of B,\n"
                   "and gets the whole sum.";
  operation.extents = {"rows of A and C", "columns of B and C", kShareOfRank};
  operation.examples =
      "  braid bench matmul-all-reduce -m 64 -n 8192 -k 2048 --ranks 4 --backend cuda --against "
      "torch\n"
      "  braid bench matmul-all-reduce -m 4096 -n 4096 -k 1024 --impl "
      "'gemm,reduce,bulk,pairwise;reduction=two-shot;chunks=4;protocol=put'";
  operation.rivals = {
      {"torch/gemm", RowKind::Gemm, "torch.matmul"},
      {"torch/reduce", RowKind::Transfers, "all_reduce (NCCL)"},
      {"torch/reduce_one_shot", RowKind::Transfers, "symm_mem.one_shot_all_reduce"},
      {"torch/reduce_two_shot", RowKind::Transfers, "symm_mem.two_shot_all_reduce_"},
      {"torch/sequential", RowKind::Sequential, "torch.matmul, then all_reduce"},
      {"torch/sequential_one_shot", RowKind::Sequential, "torch.matmul, then one_shot_all_reduce"},
      {"torch/sequential_two_shot", RowKind::Sequential, "torch.matmul, then two_shot_all_reduce_"},
  };
  operation.makeRow = [](const std::string &name, const BenchShape &shape, const BenchTypes &types,
                         int64_t ranks, bool isGraphed) {
    static const OperationTexts texts = textsOf<false>(allReduceFusion, "reduce");
    return makeRow(texts, name, {shape, types, ranks}, isGraphed);
  };
  return operation;
}

} // namespace braid
