//===- api/bench/file_bench.cpp - a FILE, as an operation of the benchmark --------------------===//

#include "api/bench/file_bench.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

const std::vector<RowType> kOfFusion = {
    {"gemms", RowKind::Gemm, "the GEMMs of `sequential` alone"},
    {"transfers", RowKind::Transfers, "the transfers of `sequential` alone, with their sums"},
    {"chunked", RowKind::ChunkedGemm,
     "chunked GEMM: the GEMMs of `given` alone: what cutting them costs"},
    {"sequential", RowKind::Sequential, "one part after the other"},
    {"given", RowKind::Overlapped, "the lowering that the flags ask for"},
    {"auto", RowKind::Overlapped, "what braid run --schedule auto chooses, graph or not"},
};
const std::vector<RowType> kOfProgram = {
    {"gemms", RowKind::Gemm, "its GEMMs alone"},
    {"transfers", RowKind::Transfers, "its transfers alone, with their sums"},
    {"program", RowKind::Overlapped, "all of it"},
};

PlanPart partOf(RowKind kind) {
  if (kind == RowKind::Gemm || kind == RowKind::ChunkedGemm)
    return PlanPart::Gemms;
  return kind == RowKind::Transfers ? PlanPart::Transfers : PlanPart::All;
}

/// As `given`, for another schedule: other cuts are right for it, and another place of partial
/// results.
CompileOptions withoutCuts(CompileOptions given) {
  for (Knob knob : {Knob::Chunks, Knob::TailSplit, Knob::WaveRows, Knob::Partials})
    given.schedule.all.set(knob, std::nullopt);
  given.schedule.stages.clear();
  return given;
}

CompileOptions scheduledAs(llvm::StringRef preset, const CompileOptions &given) {
  CompileOptions options = withoutCuts(given);
  options.schedule.all = Configuration::parse(preset)->over(options.schedule.all);
  return options;
}

bool isCut(RowKind kind) { return kind == RowKind::ChunkedGemm || kind == RowKind::Overlapped; }

Status unknownRow(const std::string &row, const std::vector<RowType> &types, bool isFusion) {
  std::string names;
  for (const RowType &type : types)
    names += (names.empty() ? "" : ", ") + type.name;
  return badInput("--impl {}: expected {}{}, got '{}'", row, names,
                  isFusion ? " or a schedule" : "", llvm::StringRef(row).split(';').first.str());
}

Result<TimedRow> makeRow(const std::string &name, int64_t ranks, bool isGraphed,
                         const std::string &file, const std::string &text,
                         const CompileOptions &given, bool isFusion) {
  const std::vector<RowType> &types = isFusion ? kOfFusion : kOfProgram;
  const llvm::StringRef what = llvm::StringRef(name).split(';').first;
  const bool ofStages = isFusion && namesStages(name);
  const bool schedule = isFusion && isPreset(what);
  auto type = llvm::find_if(types, [&](const RowType &each) { return each.name == what; });
  if (!schedule && !ofStages && type == types.end())
    return unknownRow(name, types, isFusion);
  const RowKind kind = schedule || ofStages ? RowKind::Overlapped : type->kind;
  CompileOptions options = given;
  if (ofStages)
    options = withoutCuts(given);
  else if (schedule)
    options = scheduledAs(what, given);
  else if (isFusion && !isCut(kind))
    options = scheduledAs("sequential", given);
  Result<TimedRow> row = readRowName(name, ranks, isGraphed, std::move(options));
  if (!row)
    return row;
  row->file = file;
  row->text = text;
  row->part = partOf(kind);
  row->isAuto = what == "auto";
  return row;
}

std::vector<std::string> standardRows(const BenchFile &file) {
  if (!file.compiled.isLowered)
    return {"program", "gemms", "transfers"};
  if (file.isAuto)
    return {"gemms", "transfers", "sequential", "auto"};
  return {"gemms", "transfers", "sequential", "given", "auto"};
}

double flopsOf(const Plan &plan) {
  double flops = 0;
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Matmul) {
      const PlanMatmul &matmul = plan.matmuls[command.matmul];
      flops += 2.0 * double(matmul.m) * double(matmul.n) * double(matmul.k);
    }
  return flops;
}

} // namespace

DType dtypeOf(const BenchFile &file) {
  const Plan &plan = file.plans.front();
  return plan.matmuls.empty() ? DType::BF16 : plan.matmuls.front().dtype;
}

Operation fileOperation(const BenchFile &file) {
  const bool isFusion = file.compiled.isLowered;
  Operation operation;
  operation.name = file.plans.front().sourceName;
  operation.hasShapes = false;
  operation.fingerprint = fmt::format("{:016x}", file.plans.front().fingerprint);
  operation.rows = isFusion ? kOfFusion : kOfProgram;
  operation.standard = standardRows(file);
  operation.makeRow = [name = operation.name, text = file.compiled.source->diags.text(),
                       given = file.given, isFusion](const std::string &row, const BenchShape &,
                                                     const BenchTypes &, int64_t ranks,
                                                     bool isGraphed) {
    return makeRow(row, ranks, isGraphed, name, text, given, isFusion);
  };
  double flops = 0;
  for (const Plan &plan : file.plans)
    flops = std::max(flops, flopsOf(plan));
  operation.flops = [flops](const BenchShape &) { return flops; };
  return operation;
}

} // namespace braid
