//===- ir/text/printer.cpp - fusions and programs as text -------------------------------------===//

#include "ir/module.h"
#include "ir/visitor.h"

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
  for (const FusionTensor *operand : operandsOf(node)) {
    os << separator << "%" << operand->name;
    separator = ", ";
  }
  if (const auto *matmul = llvm::dyn_cast<MatmulNode>(&node); matmul && matmul->partial)
    os << " partial " << name(*matmul->partial);
  if (result)
    os << (llvm::isa<InputNode>(&node) ? " " : " : ") << result->type.str();
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

/// Prints a node on one line, without its blocks.
class NodePrinter : public OpVisitor<NodePrinter> {
public:
  explicit NodePrinter(llvm::raw_ostream &os) : os_(os) {}

  void visitAllocate(const AllocateOp &op) {
    bool isSymmetric = op.space == MemorySpace::Symmetric;
    begin(op) << (isSymmetric ? " symmetric " : " device ") << op.result.type.str();
  }
  void visitDeallocate(const DeallocateOp &op) { begin(op) << " " << ref(op.buffer); }
  void visitFor(const ForOp &op) {
    begin(op) << " " << op.index->str() << " in " << op.begin->str() << " .. " << op.end->str();
  }
  void visitIf(const IfOp &op) {
    begin(op) << " " << op.condition->str();
    // A comparison of constants was folded to 0 or 1.
    if (!isComparison(op.condition->kind()))
      os_ << " != 0";
  }
  void visitSelect(const SelectOp &op) {
    begin(op) << " " << ref(op.tensor) << "[" << op.index->str() << "]";
  }
  void visitSlice(const SliceOp &op) {
    begin(op) << " " << ref(op.tensor) << "[" << op.begin->str() << " .. " << op.end->str() << "]";
  }
  void visitFlatten(const FlattenOp &op) { begin(op) << " " << ref(op.tensor); }
  void visitSet(const SetOp &op) { begin(op) << " " << list({op.dst, op.src}); }
  void visitMatmul(const MatmulOp &op) {
    begin(op) << " " << list({op.dst, op.a, op.b});
    if (op.bias)
      os_ << ", " << ref(op.bias);
    if (op.addend)
      os_ << " add " << ref(op.addend);
  }
  void visitSum(const SumOp &op) {
    begin(op) << " " << list({op.dst, op.parts});
    if (op.begin)
      os_ << "[" << op.begin->str() << " .. " << op.end->str() << "]";
    if (op.bias)
      os_ << ", " << ref(op.bias);
  }
  void visitPointwise(const PointwiseOp &op) {
    begin(op) << " " << ref(op.dst) << ", "
              << strChain(op.first, op.steps, [](const Value *value) { return ref(value); });
  }
  void visitShareMemHandles(const ShareMemHandlesOp &op) {
    begin(op) << " " << name(op.protocol) << " " << list(op.buffers);
  }
  void visitP2P(const P2POp &op) {
    bool isSend = op.direction == Direction::Send;
    begin(op) << (isSend ? " send " : " recv ") << (op.gemm ? strGemm(op) : ref(op.tensor))
              << (isSend ? " to " : " from ") << op.peer->str() << " via " << ref(op.handles);
  }
  void visitGroup(const GroupOp &op) { begin(op); }
  void visitCollective(const CollectiveOp &op);
  void visitWait(const WaitOp &op) { begin(op) << " " << ref(op.request); }
  void visitSynchronize(const SynchronizeOp &op) { begin(op) << " " << ref(op.stream); }
  void visitGetCurrentStream(const GetCurrentStreamOp &op) { begin(op); }
  void visitSetCurrentStream(const SetCurrentStreamOp &op) { begin(op) << " " << ref(op.stream); }

private:
  /// `%result = keyword`
  llvm::raw_ostream &begin(const Op &op) {
    if (const Value *result = resultOf(op))
      os_ << ref(result) << " = ";
    return os_ << keyword(op);
  }
  /// The GEMM of a send that computes: `matmul %a, %b : f32[4, 8]`
  static std::string strGemm(const P2POp &op) {
    const MatmulOp &gemm = *op.gemm;
    return keyword(gemm).str() + " " + list({gemm.a, gemm.b}) +
           (gemm.addend ? " add " + ref(gemm.addend) : "") + " : " + op.product.type.str();
  }
  static std::string ref(const Value *value) { return value ? "%" + value->name : "<none>"; }
  static std::string ref(const StreamRef &stream) {
    return stream.named ? ref(stream.named) : "stream(" + stream.index->str() + ")";
  }
  static std::string list(llvm::ArrayRef<Value *> values) {
    return llvm::join(llvm::map_range(values, [](const Value *v) { return ref(v); }), ", ");
  }

  llvm::raw_ostream &os_;
};

void NodePrinter::visitCollective(const CollectiveOp &op) {
  begin(op) << " " << name(op.collective);
  if (op.reduction)
    os_ << " " << name(*op.reduction);
  os_ << " " << list({op.dst, op.src});
  if (!op.team.empty()) {
    auto members = llvm::map_range(op.team, [](const Scalar *member) { return member->str(); });
    os_ << " team [" << llvm::join(members, ", ") << "]";
  }
  if (op.root)
    os_ << " root " << op.root->str();
}

/// Prints nodes with their blocks, indented.
class BlockPrinter {
public:
  explicit BlockPrinter(llvm::raw_ostream &os) : os_(os), nodes_(os) {}

  /// ` {`, the nodes, and `}` without a line break behind it.
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
    nodes_.visit(op);
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
  NodePrinter nodes_;
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
// As strings
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
  NodePrinter(os).visit(op);
  return os.str();
}

} // namespace braid
