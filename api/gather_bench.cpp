//===- api/gather_bench.cpp - gather-matmul, an operation of the benchmark --------------------===//

#include "api/gather_bench.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

namespace braid {
namespace {

/// The operation itself, for schedules to be chosen from.
std::string gatherMatmul(const BenchShape &s, DType dtype, int64_t ranks) {
  return fmt::format("fusion @gather_matmul(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[DIDx{{D}}, {2}, {3}]\n"
                     "  %B = input {1}[{3}, {4}]\n"
                     "  %C = matmul %A, %B : {1}[Stream{{D}}, {2}, {4}]\n"
                     "  output %C\n}}\n",
                     ranks, name(dtype).str(), s.m / ranks, s.k, s.n);
}

/// What is left if the gather cost nothing.
std::string productAlone(const BenchShape &s, DType dtype, int64_t ranks) {
  return fmt::format("program @product_alone mesh [0 .. {0})\n"
                     "    (%A: {1}[{2}, {3}], %B: {1}[{3}, {4}]) -> (%C: {1}[{2}, {4}]) {{\n"
                     "  matmul %C, %A, %B\n}}\n",
                     ranks, name(dtype).str(), s.m, s.k, s.n);
}

/// What is left if the gather cost nothing, in the pieces in which a pipeline multiplies.
std::string productInPieces(const BenchShape &s, DType dtype, int64_t ranks) {
  return fmt::format("fusion @pieces(D = {0}, S = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[S, {2}, {3}]\n"
                     "  %B = input {1}[{3}, {4}]\n"
                     "  %C = matmul %A, %B : {1}[Stream{{S}}, {2}, {4}]\n"
                     "  output %C\n}}\n",
                     ranks, name(dtype).str(), s.m / ranks, s.k, s.n);
}

/// Every peer's block from it, and the own one to every peer, in one group.
struct Exchange {
  std::string post, waits;
};
Exchange exchangeBlocks(int64_t ranks, const char *own) {
  Exchange exchange;
  for (int64_t i = 1; i < ranks; ++i) {
    exchange.post += fmt::format("  %block_{0} = select %all[(rank + {0}) mod {1}]\n", i, ranks);
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

/// What is left if the product cost nothing, by one group on one stream.
std::string gatherTogether(const BenchShape &s, DType dtype, int64_t ranks, Protocol protocol) {
  const bool pulls = protocol == Protocol::Get;
  const Exchange exchange = exchangeBlocks(ranks, pulls ? "%mine" : "%own");
  const char *stage = "  set %mine, %own\n";
  return fmt::format("program @gather_together mesh [0 .. {0}) (%A: {1}[1, {2}, {3}]) -> () {{\n"
                     "  %all = allocate symmetric {1}[{0}, {2}, {3}]\n"
                     "  %h = share_mem_handles {4} %all\n"
                     "  %mine = select %all[rank]\n"
                     "  %own = select %A[0]\n"
                     "{5}{6}{7}{8}}}\n",
                     ranks, name(dtype).str(), s.m / ranks, s.k, name(protocol).str(),
                     pulls ? stage : "", exchange.post, pulls ? "" : stage, exchange.waits);
}

/// What is left if nothing had to wait: the product of what had been gathered, beside a gather.
/// Only peers that pull need the own block where they can reach it.
std::string gatherBesideProduct(const BenchShape &s, DType dtype, int64_t ranks,
                                Protocol protocol) {
  const bool pulls = protocol == Protocol::Get;
  const Exchange exchange = exchangeBlocks(ranks, pulls ? "%mine" : "%own");
  return fmt::format("program @gather_beside_product mesh [0 .. {0})\n"
                     "    (%A: {1}[{0}, {2}, {3}], %B: {1}[{3}, {4}])\n"
                     "    -> (%C: {1}[{0}, {2}, {4}]) {{\n"
                     "  %all = allocate symmetric {1}[{0}, {2}, {3}]\n"
                     "  %h = share_mem_handles {5} %all\n"
                     "  %own = select %A[rank]\n"
                     "  %main = get_current_stream\n"
                     "  set_current_stream stream(1)\n"
                     "  synchronize %main\n"
                     "{6}{7}{8}"
                     "  set_current_stream %main\n"
                     "  matmul %C, %A, %B\n"
                     "  synchronize stream(1)\n}}\n",
                     ranks, name(dtype).str(), s.m / ranks, s.k, s.n, name(protocol).str(),
                     pulls ? "  %mine = select %all[rank]\n  set %mine, %own\n" : "", exchange.post,
                     exchange.waits);
}

/// What is left if the product cost nothing: every rank's block in every rank's memory, a stream
/// for each peer. `put`: the owner pushes.
std::string gatherAlone(const BenchShape &s, DType dtype, int64_t ranks, Protocol protocol) {
  std::string type = fmt::format("{}[{}, {}, {}]", name(dtype).str(), ranks, s.m / ranks, s.k);
  std::string block = fmt::format("{}[1, {}, {}]", name(dtype).str(), s.m / ranks, s.k);
  std::string text = fmt::format("program @gather_alone mesh [0 .. {0}) (%A: {1}) -> () {{\n"
                                 "  %all = allocate symmetric {2}\n"
                                 "  %h = share_mem_handles {3} %all\n"
                                 "  %main = get_current_stream\n"
                                 "  %mine = select %all[rank]\n"
                                 "  %own = select %A[0]\n"
                                 "  set %mine, %own\n"
                                 "  for %j in 1 .. {0} {{\n"
                                 "    set_current_stream stream(%j)\n"
                                 "    synchronize %main\n"
                                 "  }}\n"
                                 "  for %i in 1 .. {0} {{\n"
                                 "    set_current_stream stream(%i)\n",
                                 ranks, block, type, name(protocol).str());
  const char *send = "    %s = p2p send %mine to (rank - %i) mod {0} via %h\n";
  const char *receive = "    %r = p2p recv %block from (rank + %i) mod {0} via %h\n";
  text += fmt::format("    %block = select %all[(rank + %i) mod {0}]\n", ranks);
  for (const char *line :
       {protocol == Protocol::Get ? send : receive, protocol == Protocol::Get ? receive : send})
    text += fmt::format(fmt::runtime(line), ranks);
  return text + fmt::format("    wait %r\n    wait %s\n  }}\n"
                            "  set_current_stream %main\n"
                            "  for %j in 1 .. {} {{\n    synchronize stream(%j)\n  }}\n}}\n",
                            ranks);
}

Status badRow(const std::string &row, const std::string &expected, const std::string &got) {
  return Status(StatusCode::BadInput,
                fmt::format("--impl {}: expected {}, got '{}'", row, expected, got));
}

Status badOption(const TimedRow &row, llvm::StringRef key, llvm::StringRef value) {
  const char *expected = llvm::StringSwitch<const char *>(key)
                             .Case("protocol", "get or put")
                             .Cases("chunks", "taper", "streams", "wave", "a number from 1 on")
                             .Case("transfers", "each or shared")
                             .Case("copies", "engine or kernel")
                             .Case("signals", "memory or kernel")
                             .Default(nullptr);
  if (expected)
    return badRow(row.name, expected, value.str());
  return badRow(row.name, "protocol, chunks, taper, wave, streams, transfers, copies or signals",
                key.str());
}

Status setOption(TimedRow &row, int64_t ranks, llvm::StringRef key, llvm::StringRef value) {
  CompileOptions &options = row.options;
  int64_t number = 0;
  bool isNumber = !value.getAsInteger(10, number) && number >= 1;
  if (key == "protocol" && (value == "get" || value == "put"))
    options.protocol = value == "get" ? Protocol::Get : Protocol::Put;
  else if (key == "chunks" && isNumber)
    options.chunks = number * ranks;
  else if (key == "streams" && isNumber)
    options.streams = number;
  else if (key == "taper" && isNumber)
    options.taper = number;
  else if (key == "wave" && isNumber)
    options.waveRows = number;
  else if (key == "transfers" && transfersFromName(value))
    options.transfers = transfersFromName(value);
  else if (key == "copies" && copyByFromName(value))
    row.means.copies = *copyByFromName(value);
  else if (key == "signals" && signalByFromName(value))
    row.means.signals = *signalByFromName(value);
  else
    return badOption(row, key, value);
  return Status::ok();
}

Status unevenRows(int64_t m, int64_t ranks) {
  const int64_t below = m / ranks * ranks, above = below + ranks;
  return Status(
      StatusCode::BadInput,
      fmt::format("expected -m to be a multiple of {} ranks, got {}: ranks with "
                  "different numbers of rows are not supported yet; take -m {}",
                  ranks, m,
                  below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above)));
}

} // namespace

Result<TimedRow> readRowName(const std::string &name, int64_t ranks, bool isGraphed,
                             CompileOptions options) {
  TimedRow row;
  row.name = name;
  row.isGraphed = isGraphed;
  row.options = std::move(options);
  row.options.ranks = ranks;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::StringRef(name).split(parts, ';');
  for (llvm::StringRef part : llvm::ArrayRef<llvm::StringRef>(parts).drop_front()) {
    auto [key, value] = part.split('=');
    if (Status status = setOption(row, ranks, key, value); !status.isOk())
      return status;
  }
  return row;
}

Result<TimedRow> makeGatherRow(const std::string &name, const BenchShape &shape, DType dtype,
                               int64_t ranks, bool isGraphed) {
  if (shape.m % ranks != 0)
    return unevenRows(shape.m, ranks);
  Result<TimedRow> read = readRowName(name, ranks, isGraphed, {});
  if (!read)
    return read.status();
  TimedRow &row = *read;
  llvm::StringRef what = llvm::StringRef(name).split(';').first;
  if (what == "matmul") {
    row.text = productAlone(shape, dtype, ranks);
  } else if (what == "pieces") {
    row.text = productInPieces(shape, dtype, ranks);
    row.options.protocol = {};
    row.options.transfers = {};
    return row;
  } else if (what == "gather") {
    const Protocol protocol = row.options.protocol.value_or(Protocol::Get);
    row.text = row.options.transfers == Transfers::Shared
                   ? gatherTogether(shape, dtype, ranks, protocol)
                   : gatherAlone(shape, dtype, ranks, protocol);
  } else if (what == "beside") {
    row.text =
        gatherBesideProduct(shape, dtype, ranks, row.options.protocol.value_or(Protocol::Get));
  } else if (what == "auto") {
    row.text = gatherMatmul(shape, dtype, ranks);
    row.isAuto = true;
    return row;
  } else if (std::optional<Schedule> schedule = scheduleFromName(what)) {
    row.text = gatherMatmul(shape, dtype, ranks);
    row.options.schedule = schedule;
    return row;
  } else {
    return badRow(name,
                  "matmul, pieces, gather, beside, auto, none, pairwise, hop, burst, fused or "
                  "doubling",
                  what.str());
  }
  row.options = {};
  row.options.ranks = ranks;
  return row;
}

//===- The entry ------------------------------------------------------------------------------===//

Operation gatherMatmul() {
  Operation operation;
  operation.name = "gather-matmul";
  operation.summary = "gather of A, and the product with B";
  operation.help = "C[m, n] = A[m, k] B[k, n], with m / ranks rows of A on each rank and n columns "
                   "of B on every\n"
                   "rank. m has to be a multiple of the ranks.";
  operation.examples = "  braid bench gather-matmul -m 8192 -n 8192 -k 8192 --ranks 4 --backend "
                       "cuda --against torch\n"
                       "  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --impl "
                       "'matmul,gather,pairwise;chunks=4'\n"
                       "  braid bench gather-matmul -m 512,2048 -n 512,2048 -k 512,2048 --json "
                       "grid.json --resume \\\n"
                       "    --time-limit 300";
  operation.rows = {
      {"matmul", RowKind::Gemm, "the GEMM alone, of A as if it had been gathered"},
      {"pieces", RowKind::ChunkedGemm,
       "the GEMM alone, cut as a pipeline cuts it: what the cutting costs"},
      {"gather", RowKind::Transfers, "the gather alone"},
      {"beside", RowKind::Uncoupled,
       "both at once, neither waiting for the other: what the machine leaves of them"},
      {"none", RowKind::Sequential, "gather, then one GEMM"},
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
  operation.standard = {"matmul", "gather",   "gather;protocol=put",
                        "none",   "pairwise", "pairwise;protocol=put",
                        "hop"};
  operation.makeRow = makeGatherRow;
  operation.flops = [](const BenchShape &shape) {
    return 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  };
  return operation;
}

} // namespace braid
