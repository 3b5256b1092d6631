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

/// A collective of all ranks has no protocol, is not cut, and is of as many rows for each.
Status checkTransfers(const OperationTexts &texts, const NamedText &row, const std::string &name,
                      const RowProblem &problem) {
  using schedule::Transfers;
  const Configuration &config = problem.config;
  const bool isCollective = config.transfers() == Transfers::Collective;
  if (config.transfers() != Transfers::Pairs && !(isCollective && row.mayBeCollective))
    return badInput("--impl {}: {} has only transfers=pairs{}", name, row.name,
                    row.mayBeCollective ? " and transfers=collective" : "");
  if (isCollective &&
      (config.protocol() != Protocol::Get || config.chunks() > 1 || config.tailSplit() > 1))
    return badInput("--impl {}: a collective has no protocol, and is not cut", name);
  if (isCollective && texts.hasBlocks && !problem.areBlocksEqual())
    return unsupported("{}: some ranks have fewer rows, and a collective is of as many for each",
                       name);
  return Status::ok();
}

} // namespace

std::string RowProblem::blockExtent() const {
  return areBlocksEqual() ? std::to_string(blockRows())
                          : fmt::format("ceil({}, {})", shape.m, ranks);
}

std::string RowProblem::rowsOf(const std::string &rank) const {
  if (areBlocksEqual())
    return "";
  return fmt::format("max(min({0} - ({1}) * {2}, {2}), 0)", shape.m, rank, blockRows());
}

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
    BRAID_TRY(checkTransfers(texts, *other, name, problem));
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

std::string selectBlock(const std::string &name, const std::string &entry,
                        const std::string &rows) {
  if (rows.empty())
    return fmt::format("  {} = select {}\n", name, entry);
  return fmt::format("  {0}_full = select {1}\n  {0} = slice {0}_full[0 .. {2}]\n", name, entry,
                     rows);
}

} // namespace braid
