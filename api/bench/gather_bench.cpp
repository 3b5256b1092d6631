//===- api/bench/gather_bench.cpp - gather-matmul, an operation of the benchmark --------------===//

#include "api/bench/gather_bench.h"

#include "api/bench/operation_rows.h"

#include <fmt/format.h>

namespace braid {
namespace {

/// The operation itself, for schedules to be chosen from.
std::string gatherFusion(const RowProblem &p) {
  return fmt::format("fusion @gather_matmul(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[DIDx{{D}}, {2}, {3}]\n"
                     "  %B = input {1}[{3}, {4}]\n"
                     "  %C = matmul %A, %B : {1}[Stream{{D}}, {2}, {4}]\n"
                     "  output %C\n}}\n",
                     p.ranks, p.element(), p.blockExtent(), p.shape.k, p.shape.n);
}

/// What is left if the gather cost nothing, in the chunks in which a pipeline multiplies.
std::string chunkedGemm(const RowProblem &p) {
  return fmt::format("fusion @chunked_gemm(D = {0}, S = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[S, {2}, {3}]\n"
                     "  %B = input {1}[{3}, {4}]\n"
                     "  %C = matmul %A, %B : {1}[Stream{{S}}, {2}, {4}]\n"
                     "  output %C\n}}\n",
                     p.ranks, p.element(), p.blockExtent(), p.shape.k, p.shape.n);
}

/// The block of the rank that is `step` further, in the memory for all.
std::string selectPeers(const RowProblem &p, const std::string &name, const std::string &step) {
  const std::string peer = fmt::format("(rank + {}) mod {}", step, p.ranks);
  return selectBlock(name, "%all[" + peer + "]", p.rowsOf(peer));
}

/// The rank's own block, %mine in the memory for all, and `entry`.
std::string selectMine(const RowProblem &p) {
  return selectBlock("%mine", "%all[rank]", p.rowsOf("rank"));
}
std::string selectOwn(const RowProblem &p, const char *entry) {
  return selectBlock("%own", entry, p.rowsOf("rank"));
}

/// Every peer's block from it, and the own one to every peer, in one group.
struct Exchange {
  std::string post, waits;
};
Exchange exchangeBlocks(const RowProblem &p) {
  const int64_t ranks = p.ranks;
  const char *own = p.pulls() ? "%mine" : "%own";
  Exchange exchange;
  for (int64_t i = 1; i < ranks; ++i) {
    exchange.post += selectPeers(p, fmt::format("%block_{}", i), std::to_string(i));
    exchange.waits += fmt::format("  wait %r_{0}\n  wait %s_{0}\n", i);
  }
  exchange.post += ranks > 1 ? "  group {\n" : "";
  for (int64_t i = 1; i < ranks; ++i)
    exchange.post +=
        fmt::format("    %s_{0} = p2p send {2} to (rank - {0}) mod {1} via %h\n"
                    "    %r_{0} = p2p recv %block_{0} from (rank + {0}) mod {1} via %h\n",
                    i, ranks, own);
  exchange.post += ranks > 1 ? "  }\n" : "";
  return exchange;
}

/// What is left if the GEMM cost nothing, by one group on one stream.
std::string gatherTogether(const RowProblem &p) {
  const bool pulls = p.pulls();
  const Exchange exchange = exchangeBlocks(p);
  const char *stage = "  set %mine, %own\n";
  return fmt::format("program @gather_together mesh [0 .. {0}) (%A: {1}[1, {2}, {3}]) -> () {{\n"
                     "  %all = allocate symmetric {1}[{0}, {2}, {3}]\n"
                     "  %h = share_mem_handles {4} %all\n"
                     "{5}{6}{7}{8}{9}{10}}}\n",
                     p.ranks, p.element(), p.blockRows(), p.shape.k, p.protocol(), selectMine(p),
                     selectOwn(p, "%A[0]"), pulls ? stage : "", exchange.post, pulls ? "" : stage,
                     exchange.waits);
}

/// One GEMM of the rows of all blocks.
std::string multiplyAll(const RowProblem &p) {
  if (p.areBlocksEqual())
    return "  matmul %C, %A, %B\n";
  return fmt::format("  %A_blocks = flatten %A\n  %A_rows = slice %A_blocks[0 .. {0}]\n"
                     "  %C_blocks = flatten %C\n  %C_rows = slice %C_blocks[0 .. {0}]\n"
                     "  matmul %C_rows, %A_rows, %B\n",
                     p.shape.m);
}

/// What is left if nothing had to wait: the GEMM of what had been gathered, beside a gather.
/// Only peers that pull need the own block where they can reach it.
std::string gatherUncoupled(const RowProblem &p) {
  const bool pulls = p.pulls();
  const Exchange exchange = exchangeBlocks(p);
  return fmt::format("program @gather_uncoupled mesh [0 .. {0})\n"
                     "    (%A: {1}[{0}, {2}, {3}], %B: {1}[{3}, {4}])\n"
                     "    -> (%C: {1}[{0}, {2}, {4}]) {{\n"
                     "  %all = allocate symmetric {1}[{0}, {2}, {3}]\n"
                     "  %h = share_mem_handles {5} %all\n"
                     "{6}"
                     "  %main = get_current_stream\n"
                     "  set_current_stream stream(1)\n"
                     "  synchronize %main\n"
                     "{7}{8}{9}"
                     "  set_current_stream %main\n"
                     "{10}"
                     "  synchronize stream(1)\n}}\n",
                     p.ranks, p.element(), p.blockRows(), p.shape.k, p.shape.n, p.protocol(),
                     selectOwn(p, "%A[rank]"), pulls ? selectMine(p) + "  set %mine, %own\n" : "",
                     exchange.post, exchange.waits, multiplyAll(p));
}

/// What is left if the GEMM cost nothing: every rank's block in every rank's memory, a stream
/// for each peer. `put`: the owner pushes.
std::string gatherFromEach(const RowProblem &p) {
  std::string type = fmt::format("{}[{}, {}, {}]", p.element(), p.ranks, p.blockRows(), p.shape.k);
  std::string block = fmt::format("{}[1, {}, {}]", p.element(), p.blockRows(), p.shape.k);
  std::string text =
      fmt::format("program @gather_alone mesh [0 .. {0}) (%A: {1}) -> () {{\n"
                  "  %all = allocate symmetric {2}\n"
                  "  %h = share_mem_handles {3} %all\n"
                  "  %main = get_current_stream\n"
                  "{4}{5}"
                  "  set %mine, %own\n"
                  "  for %j in 1 .. {0} {{\n"
                  "    set_current_stream stream(%j)\n"
                  "    synchronize %main\n"
                  "  }}\n"
                  "  for %i in 1 .. {0} {{\n"
                  "    set_current_stream stream(%i)\n",
                  p.ranks, block, type, p.protocol(), selectMine(p), selectOwn(p, "%A[0]"));
  const char *send = "    %s = p2p send %mine to (rank - %i) mod {0} via %h\n";
  const char *receive = "    %r = p2p recv %block from (rank + %i) mod {0} via %h\n";
  text += selectPeers(p, "%block", "%i");
  for (const char *line : {p.pulls() ? send : receive, p.pulls() ? receive : send})
    text += fmt::format(fmt::runtime(line), p.ranks);
  return text + fmt::format("    wait %r\n    wait %s\n  }}\n"
                            "  set_current_stream %main\n"
                            "  for %j in 1 .. {} {{\n    synchronize stream(%j)\n  }}\n}}\n",
                            p.ranks);
}

std::string gatherByCollective(const RowProblem &p) {
  return fmt::format(
      "program @gather_by_collective mesh [0 .. {0}) (%A: {1}[1, {2}, {3}]) -> () {{\n"
      "  %all = allocate symmetric {1}[{0}, {2}, {3}]\n"
      "  %c = collective allgather %all, %A\n"
      "  wait %c\n}}\n",
      p.ranks, p.element(), p.blockRows(), p.shape.k);
}

std::string gatherAlone(const RowProblem &p) {
  if (p.config.transfers() == schedule::Transfers::Collective)
    return gatherByCollective(p);
  return p.config.placement() == schedule::Placement::Shared ? gatherTogether(p)
                                                             : gatherFromEach(p);
}

const OperationTexts kTexts = {
    gatherFusion,
    {{"matmul", gemmAlone},
     {"chunked", chunkedGemm, /*isProgram=*/false},
     {"gather", gatherAlone, /*isProgram=*/true, PlanPart::All, /*mayBeCollective=*/true},
     {"uncoupled", gatherUncoupled}}};

} // namespace

Result<TimedRow> makeGatherRow(const std::string &name, const BenchShape &shape,
                               const BenchTypes &types, int64_t ranks, bool isGraphed) {
  return makeRow(kTexts, name, {shape, types, ranks}, isGraphed);
}

//===- The entry ------------------------------------------------------------------------------===//

Operation gatherMatmul() {
  Operation operation;
  operation.name = "gather-matmul";
  operation.summary = "gather of A, and the GEMM with B";
  operation.help = "C[m, n] = A[m, k] B[k, n], with m / ranks rows of A on each rank and n columns "
                   "of B on every\n"
                   "rank. If m is no multiple of the ranks, the last ones have fewer rows.";
  operation.extents = {"rows of A and C", "columns of B and C, on every rank",
                       "columns of A, rows of B"};
  operation.examples = "  braid bench gather-matmul -m 8192 -n 8192 -k 8192 --ranks 4 --backend "
                       "cuda --against torch\n"
                       "  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --impl "
                       "'matmul,gather,pairwise;chunks=4'\n"
                       "  braid bench gather-matmul -m 512,2048 -n 512,2048 -k 512,2048 --json "
                       "grid.json --resume \\\n"
                       "    --time-limit 300";
  operation.rows = {
      {"matmul", RowKind::Gemm, "the GEMM alone, of A as if it had been gathered"},
      {"chunked", RowKind::ChunkedGemm,
       "chunked GEMM: alone, but cut as a pipeline cuts it: what the cutting costs"},
      {"gather", RowKind::Transfers, "the gather alone"},
      {"uncoupled", RowKind::Uncoupled,
       "both at once, neither waiting for the other: what the machine leaves of them"},
      {"sequential", RowKind::Sequential, "gather, then one GEMM"},
      {"auto", RowKind::Overlapped,
       "what braid run --schedule auto chooses, graph or not; once a shape"},
  };
  operation.rivals = {
      {"torch/matmul", RowKind::Gemm, "torch.matmul"},
      {"torch/gather", RowKind::Transfers, "all_gather_into_tensor (NCCL)"},
      {"torch/gather_copy", RowKind::Transfers, "copies from symmetric memory (copy engines)"},
      {"torch/sequential", RowKind::Sequential, "all_gather_into_tensor, then torch.matmul"},
      // So it is mostly used, and not every PyTorch can capture it.
      {"torch/fused", RowKind::Overlapped, "symm_mem.fused_all_gather_matmul, eagerly in any case",
       /*isEagerToo=*/true},
  };
  operation.standard = {"matmul",     "gather",   "gather;protocol=put",
                        "sequential", "pairwise", "pairwise;protocol=put",
                        "ring"};
  operation.makeRow = makeGatherRow;
  operation.flops = [](const BenchShape &shape) {
    return 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  };
  return operation;
}

} // namespace braid
