//===- api/bench/operation_rows.cpp - rows of an operation, from its texts --------------------===//

#include "api/bench/operation_rows.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

Status unknownRow(const OperationTexts &texts, const std::string &row) {
  std::string names;
  for (const NamedText &other : texts.others)
    names += std::string(other.name) + ", ";
  return badInput("--impl {}: expected {}auto, {}, got '{}'", row, names, presetNames(),
                  llvm::StringRef(row).split(';').first.str());
}

/// A collective of all ranks has no protocol, and is not cut.
Status checkTransfers(const NamedText &row, const std::string &name, const Configuration &config) {
  using schedule::Transfers;
  const bool isCollective = config.transfers() == Transfers::Collective;
  if (config.transfers() != Transfers::Pairs && !(isCollective && row.mayBeCollective))
    return badInput("--impl {}: {} has only transfers=pairs{}", name, row.name,
                    row.mayBeCollective ? " and transfers=collective" : "");
  if (isCollective &&
      (config.protocol() != Protocol::Get || config.chunks() > 1 || config.tailSplit() > 1))
    return badInput("--impl {}: a collective has no protocol, and is not cut", name);
  return Status::ok();
}

} // namespace

Result<TimedRow> makeRow(const OperationTexts &texts, const std::string &name, RowProblem problem,
                         bool isGraphed) {
  const llvm::StringRef what = llvm::StringRef(name).split(';').first;
  auto other =
      llvm::find_if(texts.others, [&](const NamedText &each) { return each.name == what; });
  const bool isNamed = other != texts.others.end(), isAuto = what == "auto";
  if (!isNamed && !isAuto && !isPreset(what) && !namesStages(name))
    return unknownRow(texts, name);
  Result<TimedRow> row = readRowName(name, problem.ranks, isGraphed, {});
  if (!row)
    return row;
  problem.config = row->options.schedule.all;
  if (isNamed && other->isProgram && problem.config.reduction() != schedule::Reduction::OneShot)
    return Status(
        StatusCode::BadInput,
        fmt::format("--impl {}: {} adds in one shot, and has no other", name, what.str()));
  if (isNamed && other->isProgram && problem.config.partials() != schedule::Partials::Local)
    return badInput("--impl {}: {} has no GEMM that stores at a peer", name, what.str());
  if (isNamed && other->isProgram)
    BRAID_TRY(checkTransfers(*other, name, problem.config));
  row->text = isNamed ? other->text(problem) : texts.fusion(problem);
  row->isAuto = isAuto;
  if (isNamed)
    row->part = other->part;
  if (isNamed && other->isProgram) // of the run it has the modes, and how data travel
    row->options.schedule = {
        Configuration()
            .set(Knob::DataPlane, row->options.schedule.all.get(Knob::DataPlane))
            .set(Knob::Memory, row->options.schedule.all.get(Knob::Memory))};
  return row;
}

std::string gemmAlone(const RowProblem &p) {
  return fmt::format("program @gemm_alone mesh [0 .. {0})\n"
                     "    (%A: {1}[{3}, {4}], %B: {1}[{4}, {5}]) -> (%C: {2}[{3}, {5}]) {{\n"
                     "  matmul %C, %A, %B\n}}\n",
                     p.ranks, p.element(), p.partial(), p.shape.m, p.shape.k, p.shape.n);
}

Status expectEqualBlocks(const BenchShape &shape, int64_t ranks) {
  const int64_t m = shape.m;
  if (m % ranks == 0)
    return Status::ok();
  const int64_t below = m / ranks * ranks, above = below + ranks;
  return badInput("expected -m to be a multiple of {} ranks, got {}: ranks with different numbers "
                  "of rows are not supported yet; take -m {}",
                  ranks, m,
                  below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above));
}

} // namespace braid
