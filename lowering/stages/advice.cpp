//===- lowering/stages/advice.cpp - suggested changes for nodes that lowering rejects ---------===//

#include "lowering/stages/advice.h"

#include "ir/module.h"
#include "lowering/stages/elementwise.h"
#include "lowering/stages/legality.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <optional>

namespace braid {
namespace {

std::vector<std::string> refusedNodes(const Fusion &fusion) {
  std::vector<std::string> names;
  for (const auto &node : fusion.nodes())
    if (!whyNotLowered(fusion, *node).empty())
      names.push_back(resultOf(*node)->name);
  return names;
}

/// Returns the nodes that lowering rejects in a fusion given as text, or std::nullopt if the text
/// is not a valid fusion.
std::optional<std::vector<std::string>> refusedIn(const std::vector<std::string> &lines) {
  Diagnostics diags("", llvm::join(lines, "\n"));
  const Module module = parse(diags);
  if (diags.hasErrors() || !verify(module, diags))
    return std::nullopt;
  return refusedNodes(*module.fusions.front());
}

/// Returns the cost of changing one axis. Moving a tensor costs more than making an axis Stream,
/// and changing an operand costs more than changing the result.
int costOf(const Axis &from, const Axis &to, bool isResult) {
  if (from.kind == to.kind)
    return 0;
  if (from.kind != AxisKind::DIDx && to.kind != AxisKind::DIDx)
    return 1;
  return isResult ? 4 : 5;
}

/// An alternative to a type, with different axis kinds, and the cost of the change.
struct OtherKinds {
  FusionType type;
  int cost;
};

/// Returns every alternative to the tensor's type that the language allows: DIDx on any axis whose
/// extent is the mesh size, and, except for inputs, Stream on the leading axis.
std::vector<OtherKinds> otherKindsOf(const Fusion &fusion, const FusionTensor &tensor,
                                     bool isResult) {
  const auto &axes = tensor.type.axes;
  const bool isGiven = tensor.definition->kind == FusionOpKind::Input;
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

/// Returns `type` with plain axes instead of Stream axes, which inputs cannot have.
FusionType asInput(FusionType type) {
  for (Axis &axis : type.axes)
    if (axis.kind == AxisKind::Stream)
      axis.kind = AxisKind::Plain;
  return type;
}

/// Returns `line` with its type, everything after ` : ` or ` = input `, replaced by `type`.
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

size_t Adviser::lineOf(const FusionTensor &tensor) const {
  const std::string begin = "  %" + tensor.name + " = ";
  const auto line = llvm::find_if(
      lines_, [&](const std::string &each) { return llvm::StringRef(each).find(begin) == 0; });
  return static_cast<size_t>(line - lines_.begin());
}

std::vector<std::string> Adviser::linesWith(const Change &change) const {
  std::vector<std::string> lines = lines_;
  for (const auto &[number, line] : change.lines)
    lines[number] = line;
  return lines;
}

bool Adviser::accepts(const Change &change, const std::string &result) const {
  const auto refused = refusedIn(linesWith(change));
  return refused && llvm::all_of(*refused, [&](const std::string &name) {
           return name != result && llvm::is_contained(refused_, name);
         });
}

void Adviser::apply(const Change &change) {
  const std::vector<std::string> refused = refusedIn(linesWith(change)).value_or(refused_);
  for (const std::string &name : refused_)
    if (!llvm::is_contained(refused, name))
      solved_[name] = change.text;
  lines_ = linesWith(change);
  refused_ = refused;
}

/// Replaces resharded operands with their origins, except for a GEMM's first operand, which may be
/// resharded.
Adviser::Change Adviser::withoutReshards(const FusionNode &node) const {
  Change change;
  const auto operands = node.operands;
  const size_t number = lineOf(*resultOf(node));
  for (const FusionTensor *operand : llvm::drop_begin(operands, isGemm(node) ? 1 : 0)) {
    if (operand->definition->kind != FusionOpKind::Reshard)
      continue;
    const std::string origin = "%" + originOf(*operand).name, name = "%" + operand->name;
    std::string &line = change.lines.try_emplace(number, lines_[number]).first->second;
    size_t at = line.find('=');
    do // skip longer names with the same prefix
      at = line.find(name, at + 1);
    while (at != std::string::npos && line[at + name.size()] != ',' &&
           line[at + name.size()] != ' ');
    if (at == std::string::npos)
      continue;
    line.replace(at, name.size(), origin);
    change.text += (change.text.empty() ? "" : " and ") + origin + " for %" + operand->name;
  }
  return change;
}

/// Returns at most 256 combinations of types for the node's tensors, in order of increasing cost.
std::vector<Adviser::Change> Adviser::typesFor(const FusionNode &node, const Change &start) const {
  constexpr size_t kMostTried = 256;
  const FusionTensor &result = *resultOf(node);
  llvm::SmallVector<const FusionTensor *, 4> tensors;
  for (const FusionTensor *operand : node.operands)
    if (const FusionTensor *origin = &originOf(*operand); !llvm::is_contained(tensors, origin))
      tensors.push_back(origin);
  tensors.push_back(&result);
  std::vector<Change> changes = {start};
  for (const FusionTensor *tensor : tensors) {
    const size_t number = lineOf(*tensor);
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
        std::string &line = changed.lines.try_emplace(number, lines_[number]).first->second;
        line = withType(line, other.type);
      }
    llvm::stable_sort(next, [](const Change &a, const Change &b) { return a.cost < b.cost; });
    next.resize(std::min(next.size(), kMostTried));
    changes = std::move(next);
  }
  return changes;
}

/// Returns alternative definitions for the node's result or for its resharded operands: as an input
/// or, if a reshard moves a computed tensor, as the node that computes this tensor, with the
/// reshard's type.
std::vector<Adviser::Change> Adviser::definitionsFor(const FusionNode &node) const {
  std::vector<Change> changes;
  auto define = [&](const FusionTensor &tensor, const std::string &definition) {
    Change &change = changes.emplace_back();
    change.text = "%" + tensor.name + " = " + definition;
    change.lines[lineOf(tensor)] = "  " + change.text;
  };
  auto isInput = [](const FusionTensor *tensor) {
    return originOf(*tensor).definition->kind == FusionOpKind::Input;
  };
  const auto operands = node.operands;
  const FusionTensor &result = *resultOf(node);
  if (!isGemm(node) && llvm::all_of(operands, isInput)) {
    define(result, "input " + asInput(result.type).str());
  } else if (node.kind == FusionOpKind::Reshard) {
    const std::string made = withType(lines_[lineOf(*operands.front())], result.type);
    define(result, made.substr(made.find('=') + 2));
  }
  for (const FusionTensor *operand : operands)
    if (operand->definition->kind == FusionOpKind::Reshard)
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
  // Changing both types of a reshard would replace the data movement that the user requested.
  if (found.empty() && node.kind != FusionOpKind::Reshard)
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
