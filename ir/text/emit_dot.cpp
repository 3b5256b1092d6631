//===- ir/text/emit_dot.cpp - prints modules as Graphviz graphs -------------------------------===//
//
// Prints a cluster per fusion, program and block, and a box per node. Solid edges go from a value's
// definition to its uses; dotted edges go from each program node to the next node in the source.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/module.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace braid {

std::string dotText(llvm::StringRef text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

namespace {

std::string nodeName(size_t number) { return "n" + std::to_string(number); }

class DotEmitter {
public:
  explicit DotEmitter(llvm::raw_ostream &os) : os_(os) {}
  void emit(const Module &module);

private:
  void emit(const Fusion &fusion);
  void emit(const Program &program);
  void emit(const Op &op);
  void emitBlock(llvm::StringRef label, const Block &block);

  llvm::raw_ostream &line() { return os_.indent(indent_); }
  size_t box(llvm::StringRef label, llvm::StringRef shape = "box");
  void open(llvm::StringRef label);
  void close();

  llvm::raw_ostream &os_;
  unsigned indent_ = 2;
  size_t nodes_ = 0, clusters_ = 0;
  std::vector<std::string> edges_;                   ///< printed last, outside all clusters
  llvm::DenseMap<const void *, size_t> definitions_; ///< node numbers by value or tensor
  std::string previous_;                             ///< the previous program node in source order
};

void DotEmitter::emit(const Module &module) {
  os_ << "digraph braid {\n";
  line() << "node [fontname=\"monospace\"]\n";
  for (const auto &fusion : module.fusions)
    emit(*fusion);
  for (const auto &program : module.programs)
    emit(*program);
  for (const std::string &edge : edges_)
    line() << edge << "\n";
  os_ << "}\n";
}

size_t DotEmitter::box(llvm::StringRef label, llvm::StringRef shape) {
  line() << nodeName(nodes_) << " [shape=" << shape << ", label=" << dotText(label) << "]\n";
  return nodes_++;
}

void DotEmitter::open(llvm::StringRef label) {
  line() << "subgraph cluster" << clusters_++ << " {\n";
  indent_ += 2;
  line() << "label=" << dotText(label) << "\n";
}

void DotEmitter::close() {
  indent_ -= 2;
  line() << "}\n";
}

void DotEmitter::emit(const Fusion &fusion) {
  open("fusion @" + fusion.name() + (fusion.hostSize() ? "\n" + meshText(fusion) : ""));
  for (const auto &node : fusion.nodes()) {
    const FusionTensor *result = resultOf(*node);
    std::string label = keyword(*node).str();
    if (result)
      label = "%" + result->name + " = " + label + "\n" + result->type.str();
    size_t number = box(label);
    if (result)
      definitions_[result] = number;
    for (const FusionTensor *operand : node->operands)
      edges_.push_back(nodeName(definitions_[operand]) + " -> " + nodeName(number));
  }
  close();
}

void DotEmitter::emit(const Program &program) {
  const bool hasHosts = program.ranksPerHost() != program.ranks();
  open("program @" + program.name() + (hasHosts ? "\n" + meshText(program) : ""));
  for (const auto &value : program.params())
    definitions_[value.get()] = box("%" + value->name + ": " + value->type.str(), "ellipse");
  for (const auto &value : program.results())
    definitions_[value.get()] = box("%" + value->name + ": " + value->type.str(), "ellipse");
  previous_.clear();
  for (const Op &op : program.body())
    emit(op);
  close();
}

void DotEmitter::emit(const Op &op) {
  size_t number = box(str(op));
  if (!previous_.empty())
    edges_.push_back(previous_ + " -> " + nodeName(number) + " [style=dotted]");
  previous_ = nodeName(number);
  if (const Value *result = resultOf(op))
    definitions_[result] = number;
  forEachOperand(op, [&](const Value *operand) {
    edges_.push_back(nodeName(definitions_[operand]) + " -> " + nodeName(number));
  });
  bool isElse = false;
  forEachBlock(op, [&](const Block &block) {
    if (!block.empty())
      emitBlock(isElse ? "else" : str(op), block);
    isElse = true;
  });
}

void DotEmitter::emitBlock(llvm::StringRef label, const Block &block) {
  open(label);
  for (const Op &op : block)
    emit(op);
  close();
}

} // namespace

void emitDot(const Module &module, llvm::raw_ostream &os) { DotEmitter(os).emit(module); }

} // namespace braid
