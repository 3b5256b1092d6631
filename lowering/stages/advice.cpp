//===- lowering/stages/advice.cpp - what to write in place of a node that cannot be lowered ---===//

#include "lowering/stages/advice.h"

#include "ir/module.h"
#include "lowering/stages/elementwise.h"
#include "lowering/stages/legality.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

std::vector<std::string> refusedNodes(const Fusion &fusion) {
  std::vector<std::string> names;
  for (const auto &node : fusion.nodes())
    if (!whyNotLowered(fusion, *node).empty())
      names.push_back(resultOf(*node)->name);
  return names;
}

/// The same of a fusion's text; nothing if that is none.
std::optional<std::vector<std::string>> refusedIn(const std::vector<std::string> &lines) {
  Diagnostics diags("", llvm::join(lines, "\n"));
  const Module module = parse(diags);
  if (diags.hasErrors() || !verify(module, diags))
    return std::nullopt;
  return refusedNodes(*module.fusions.front());
}

/// What a change of one axis costs. Where a tensor lies matters more than that it is produced slice
/// by slice, and what the caller hands in more than what is computed.
int costOf(const Axis &from, const Axis &to, bool isResult) {
  if (from.kind == to.kind)
    return 0;
  if (from.kind != AxisKind::DIDx && to.kind != AxisKind::DIDx)
    return 1;
  return isResult ? 4 : 5;
}

/// A type with other kinds of axes.
struct OtherKinds {
  FusionType type;
  int cost;
};

/// All that the language allows: DIDx is an axis of the mesh's extent, and a result may be produced
/// slice by slice along its leading axis.
std::vector<OtherKinds> otherKindsOf(const Fusion &fusion, const FusionTensor &tensor,
                                     bool isResult) {
  const auto &axes = tensor.type.axes;
  const bool isGiven = llvm::isa<InputNode>(tensor.definition);
  std::vector<OtherKinds> all;
  for (bool isStreamed : {true, false}) {
    for (size_t split = 0; split <= axes.size(); ++split) {
      OtherKinds other{tensor.type, 0};
      for (size_t i = 0; i < axes.size(); ++i) {
        AxisKind &kind = other.type.axes[i].kind;
        kind = i == split             ? AxisKind::DIDx
               : isStreamed && i == 0 ? AxisKind::Stream
                                      : AxisKind::Plain;
        other.cost += costOf(axes[i], other.type.axes[i], isResult);
      }
      const bool isAxis = split == axes.size() || axes[split].extent->str() == fusion.mesh()->str();
      if (tensor.type.find(AxisKind::Stream) && !isStreamed)
        other.cost += 2;
      if (isAxis && !(isStreamed && (split == 0 || isGiven)))
        all.push_back(std::move(other));
    }
  }
  return all;
}

/// The caller gives nothing slice by slice.
FusionType asInput(FusionType type) {
  for (Axis &axis : type.axes)
    if (axis.kind == AxisKind::Stream)
      axis.kind = AxisKind::Plain;
  return type;
}

/// `line` with another type, which is all behind ` : ` or ` = input `.
std::string withType(llvm::StringRef line, const FusionType &type) {
  const llvm::StringRef input = " = input ";
  const size_t at = line.find(input);
  const size_t end = at == llvm::StringRef::npos ? line.rfind(" : ") + 3 : at + input.size();
  return line.take_front(end).str() + type.str();
}

} // namespace

Adviser::Adviser(const Fusion &fusion) : fusion_(fusion), refused_(refusedNodes(fusion)) {
  const std::string text = str(fusion);
  llvm::SmallVector<llvm::StringRef, 16> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines)
    lines_.push_back(line.str());
}

std::string &Adviser::lineOf(std::vector<std::string> &lines, const std::string &tensor) const {
  const std::string begin = "  %" + tensor + " = ";
  return *llvm::find_if(
      lines, [&](const std::string &line) { return llvm::StringRef(line).find(begin) == 0; });
}

bool Adviser::accepts(const Change &change, const std::string &result) const {
  const auto refused = refusedIn(change.lines);
  return refused && llvm::all_of(*refused, [&](const std::string &name) {
           return name != result && llvm::is_contained(refused_, name);
         });
}

void Adviser::apply(const Change &change) {
  const std::vector<std::string> refused = refusedIn(change.lines).value_or(refused_);
  for (const std::string &name : refused_)
    if (!llvm::is_contained(refused, name))
      solved_[name] = change.text;
  lines_ = change.lines;
  refused_ = refused;
}

/// What is gathered is no operand of its own, but for the first of a GEMM: its origin has to be.
Adviser::Change Adviser::withoutReshards(const FusionNode &node) const {
  Change change{lines_};
  const auto operands = operandsOf(node);
  std::string &line = lineOf(change.lines, resultOf(node)->name);
  for (const FusionTensor *operand : llvm::drop_begin(operands, isGemm(node) ? 1 : 0)) {
    if (!llvm::isa<ReshardNode>(operand->definition))
      continue;
    const std::string origin = "%" + originOf(*operand).name, name = "%" + operand->name;
    size_t at = line.find('=');
    do
      at = line.find(name, at + 1);
    while (line[at + name.size()] != ',' && line[at + name.size()] != ' ');
    line.replace(at, name.size(), origin);
    change.text += (change.text.empty() ? "" : " and ") + origin + " for %" + operand->name;
  }
  return change;
}

/// Every combination of placements, those of the least cost first.
std::vector<Adviser::Change> Adviser::typesFor(const FusionNode &node, const Change &start) const {
  const FusionTensor &result = *resultOf(node);
  llvm::SmallVector<const FusionTensor *, 4> tensors;
  for (const FusionTensor *operand : operandsOf(node))
    if (const FusionTensor *origin = &originOf(*operand); !llvm::is_contained(tensors, origin))
      tensors.push_back(origin);
  tensors.push_back(&result);
  std::vector<Change> changes = {start};
  for (const FusionTensor *tensor : tensors) {
    std::vector<Change> next;
    for (const Change &change : changes)
      for (const OtherKinds &other : otherKindsOf(fusion_, *tensor, tensor == &result)) {
        Change &changed = next.emplace_back(change);
        changed.cost += other.cost;
        if (other.cost == 0)
          continue;
        (tensor == &result ? changed.changesResult : changed.changesOperands) = true;
        changed.text +=
            (changed.text.empty() ? "%" : " and %") + tensor->name + " : " + other.type.str();
        std::string &line = lineOf(changed.lines, tensor->name);
        line = withType(line, other.type);
      }
    changes = std::move(next);
  }
  llvm::stable_sort(changes, [](const Change &a, const Change &b) { return a.cost < b.cost; });
  return changes;
}

/// Other nodes in the place of this one, or of a reshard that it cannot take: a tensor of the
/// caller's, or what makes the operand of the reshard.
std::vector<Adviser::Change> Adviser::definitionsFor(const FusionNode &node) const {
  std::vector<Change> changes;
  auto define = [&](const FusionTensor &tensor, const std::string &definition) {
    Change &change = changes.emplace_back(Change{lines_});
    change.text = "%" + tensor.name + " = " + definition;
    lineOf(change.lines, tensor.name) = "  " + change.text;
  };
  auto isInput = [](const FusionTensor *tensor) {
    return llvm::isa<InputNode>(tensor->definition);
  };
  const auto operands = operandsOf(node);
  const FusionTensor &result = *resultOf(node);
  if (!isGemm(node) && llvm::all_of(operands, isInput)) {
    define(result, "input " + asInput(result.type).str());
  } else if (llvm::isa<ReshardNode>(node)) {
    std::vector<std::string> lines = lines_;
    const std::string made = withType(lineOf(lines, operands.front()->name), result.type);
    define(result, made.substr(made.find('=') + 2));
  }
  for (const FusionTensor *operand : operands)
    if (llvm::isa<ReshardNode>(operand->definition))
      define(*operand, "input " + asInput(operand->type).str());
  return changes;
}

std::vector<std::string> Adviser::adviceFor(const FusionNode &node) {
  const std::string &name = resultOf(node)->name;
  if (auto solved = solved_.find(name); solved != solved_.end())
    return {solved->second};
  const auto fits = [&](const Change &change) { return accepts(change, name); };
  const std::vector<Change> types = typesFor(node, withoutReshards(node));
  std::vector<Change> found;
  auto addFirst = [&](auto isWanted) {
    const auto change = llvm::find_if(types, [&](const Change &each) {
      return !each.text.empty() && isWanted(each) && fits(each);
    });
    if (change != types.end())
      found.push_back(*change);
  };
  addFirst([](const Change &each) { return !each.changesOperands; });
  addFirst([](const Change &each) { return !each.changesResult; });
  // A reshard of something else to something else is not what was meant.
  if (found.empty() && !llvm::isa<ReshardNode>(node))
    addFirst([](const Change &) { return true; });
  llvm::stable_sort(found, [](const Change &a, const Change &b) { return a.cost < b.cost; });
  if (found.empty())
    llvm::copy_if(definitionsFor(node), std::back_inserter(found), fits);
  std::vector<std::string> advice;
  for (const Change &change : found)
    advice.push_back(change.text);
  if (!found.empty())
    apply(found.front());
  return advice;
}

} // namespace braid
