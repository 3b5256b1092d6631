//===- ir/text/printer.cpp - prints fusions and programs --------------------------------------===//

#include "ir/module.h"
#include "ir/syntax.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace braid {

//===----------------------------------------------------------------------------------------===//
// Fusions
//===----------------------------------------------------------------------------------------===//

std::string meshText(const Fusion &fusion) {
  std::string text = "mesh [0 .. " + fusion.mesh()->str() + ")";
  return fusion.hostSize() ? text + " of " + fusion.hostSize()->str() : text;
}

static void printHeader(const Fusion &fusion, llvm::raw_ostream &os) {
  os << "fusion @" << fusion.name();
  if (!fusion.parameters().empty()) {
    auto texts = llvm::map_range(fusion.parameters(), [](const FusionParameter &parameter) {
      return parameter.name + " = " + std::to_string(parameter.value);
    });
    os << "(" << llvm::join(texts, ", ") << ")";
  }
  os << " {\n";
  if (fusion.mesh())
    os << "  " << meshText(fusion) << "\n";
}

static void printNode(const FusionNode &node, llvm::raw_ostream &os) {
  const FusionTensor *result = resultOf(node);
  if (result)
    os << "%" << result->name << " = ";
  os << keyword(node);
  llvm::StringRef separator = " ";
  for (const FusionTensor *operand : node.operands) {
    os << separator << "%" << operand->name;
    separator = ", ";
  }
  if (node.partial)
    os << " partial " << name(*node.partial);
  if (result)
    os << (node.kind == FusionOpKind::Input ? " " : " : ") << result->type.str();
}

void print(const Fusion &fusion, llvm::raw_ostream &os) {
  printHeader(fusion, os);
  for (const auto &node : fusion.nodes()) {
    os.indent(2);
    printNode(*node, os);
    os << '\n';
  }
  os << "}\n";
}

//===----------------------------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------------------------===//

namespace {

/// Prints the parts of a node on one line.
class PartPrinter : public IgnoreParts {
public:
  explicit PartPrinter(llvm::raw_ostream &os) : os_(os) {}
  static std::string ref(const Value *value) { return value ? "%" + value->name : "<none>"; }

  void text(llvm::StringRef separator, llvm::StringRef = "") { os_ << separator; }
  bool optional(llvm::StringRef separator, bool isThere, bool = true) {
    if (isThere)
      os_ << separator;
    return isThere;
  }
  template <class Enum> void choice(llvm::StringRef, Enum &field, Enum, llvm::StringRef) {
    os_ << name(field);
  }
  void reduction(std::optional<ReductionOperator> &reduction) {
    if (reduction)
      os_ << name(*reduction) << " ";
  }
  void value(llvm::StringRef, Value *&value) { os_ << ref(value); }
  void scalar(llvm::StringRef, const Scalar *&scalar) { os_ << scalar->str(); }
  void list(llvm::StringRef, llvm::SmallVectorImpl<Value *> &values) {
    os_ << llvm::join(llvm::map_range(values, ref), ", ");
  }
  void list(llvm::StringRef, llvm::SmallVectorImpl<const Scalar *> &scalars) {
    auto texts = llvm::map_range(scalars, [](const Scalar *scalar) { return scalar->str(); });
    os_ << llvm::join(texts, ", ");
  }
  void loopIndex(const Scalar *&index) { os_ << index->str(); }
  void condition(const Scalar *&condition) {
    os_ << condition->str();
    // A comparison of constants was folded to 0 or 1.
    if (!isComparison(condition->kind()))
      os_ << " != 0";
  }
  void stream(StreamRef &stream) {
    os_ << (stream.named ? ref(stream.named) : "stream(" + stream.index->str() + ")");
  }
  void type(TensorType &type) { os_ << type.str(); }
  void chain(PointwiseOp &op) { os_ << strChain(op.first, op.steps, ref); }
  /// Prints a GEMM as `matmul %a, %b : f32[4, 8]`.
  void payload(P2POp &op) {
    if (!op.gemm) {
      os_ << ref(op.tensor);
      return;
    }
    const MatmulOp &gemm = *op.gemm;
    os_ << keyword(gemm) << " " << ref(gemm.a) << ", " << ref(gemm.b)
        << (gemm.addend ? " add " + ref(gemm.addend) : "") << " : " << op.product.type.str();
  }

private:
  llvm::raw_ostream &os_;
};

/// Prints a node on one line, without its blocks: `%result = keyword parts`.
void printNode(const Op &op, llvm::raw_ostream &os) {
  if (const Value *result = resultOf(op))
    os << PartPrinter::ref(result) << " = ";
  os << keyword(op);
  if (!llvm::isa<GroupOp>(op) && !llvm::isa<GetCurrentStreamOp>(op))
    os << " ";
  forEachPart(PartPrinter(os), op);
}

/// Prints nodes and their blocks, indented.
class BlockPrinter {
public:
  explicit BlockPrinter(llvm::raw_ostream &os) : os_(os) {}

  /// Prints ` {`, the nodes, and `}`, without a trailing line break.
  void printBlock(const Block &block) {
    os_ << " {\n";
    indent_ += 2;
    for (const Op &op : block) {
      os_.indent(indent_);
      printOp(op);
      os_ << '\n';
    }
    indent_ -= 2;
    os_.indent(indent_) << "}";
  }

private:
  void printOp(const Op &op) {
    printNode(op, os_);
    if (const auto *loop = llvm::dyn_cast<ForOp>(&op))
      printBlock(loop->body);
    else if (const auto *group = llvm::dyn_cast<GroupOp>(&op))
      printBlock(group->body);
    else if (const auto *branch = llvm::dyn_cast<IfOp>(&op))
      printBranches(*branch);
  }

  void printBranches(const IfOp &op) {
    printBlock(op.thenBlock);
    if (op.elseBlock.empty())
      return;
    os_ << " else";
    const Op &first = op.elseBlock.front();
    bool isChain = &first == &op.elseBlock.back() && llvm::isa<IfOp>(&first);
    if (!isChain)
      return printBlock(op.elseBlock);
    os_ << " ";
    printOp(first);
  }

  llvm::raw_ostream &os_;
  unsigned indent_ = 0;
};

} // namespace

std::string meshText(const Program &program) {
  std::string text = "mesh [0 .. " + std::to_string(program.ranks()) + ")";
  if (program.ranksPerHost() == program.ranks())
    return text;
  return text + " of " + std::to_string(program.ranksPerHost());
}

static void printDeclarations(llvm::ArrayRef<std::unique_ptr<Value>> values,
                              llvm::raw_ostream &os) {
  auto texts = llvm::map_range(
      values, [](const auto &value) { return "%" + value->name + ": " + value->type.str(); });
  os << "(" << llvm::join(texts, ", ") << ")";
}

void print(const Program &program, llvm::raw_ostream &os) {
  os << "program @" << program.name();
  if (!program.implements().empty())
    os << " implements @" << program.implements();
  os << " " << meshText(program) << "\n    ";
  printDeclarations(program.params(), os);
  os << " -> ";
  printDeclarations(program.results(), os);
  BlockPrinter(os).printBlock(program.body());
  os << '\n';
}

void print(const Module &module, llvm::raw_ostream &os) {
  llvm::StringRef separator = "";
  for (const auto &fusion : module.fusions) {
    os << separator;
    print(*fusion, os);
    separator = "\n";
  }
  for (const auto &program : module.programs) {
    os << separator;
    print(*program, os);
    separator = "\n";
  }
}

//===----------------------------------------------------------------------------------------===//
// Conversion to strings
//===----------------------------------------------------------------------------------------===//

template <class T> static std::string printed(const T &thing) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(thing, os);
  return os.str();
}

std::string str(const Fusion &fusion) { return printed(fusion); }

std::string str(const Program &program) { return printed(program); }

std::string str(const Op &op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printNode(op, os);
  return os.str();
}

} // namespace braid
