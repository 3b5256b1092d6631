//===- ir/verify/verify_program.cpp - names, scopes, scalars and types of programs ------------===//

#include "ir/text/lexer.h"
#include "ir/verify/verify.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace braid {

std::string ref(const Value *value) { return value ? "%" + value->name : "nothing"; }

std::string typed(const Value *value) { return ref(value) + ": " + value->type.str(); }

/// Reports an error if the parser would not accept `name`.
static void verifyName(llvm::StringRef what, llvm::StringRef name, Location location,
                       Diagnostics &diags) {
  if (!isIdentifier(name))
    diags.error(location)
        << "the " << what << " name '" << name
        << "' must start with a letter or '_' and contain only letters, digits and '_'";
}

bool verifyMeshSize(int64_t ranks, Location location, Diagnostics &diags) {
  if (ranks >= 1 && ranks <= kMaxRanks)
    return true;
  return diags.error(location) << "expected a mesh size from 1 to " << kMaxRanks << ", got "
                               << ranks;
}

bool verifyRanksPerHost(int64_t ranksPerHost, int64_t ranks, Location location,
                        Diagnostics &diags) {
  if (ranksPerHost >= 1 && ranks % ranksPerHost == 0)
    return true;
  return diags.error(location) << "expected the number of ranks per host to divide the mesh size "
                               << ranks << ", got " << ranksPerHost;
}

bool anyLeaf(const Scalar *scalar, llvm::function_ref<bool(const Scalar *)> leaf) {
  if (!isBinary(scalar->kind()))
    return leaf(scalar);
  return anyLeaf(scalar->lhs(), leaf) || anyLeaf(scalar->rhs(), leaf);
}

bool dependsOnRank(const Scalar *scalar) {
  return anyLeaf(scalar, [](const Scalar *leaf) { return leaf->kind() == ScalarKind::Rank; });
}

namespace {

/// Walks the blocks while tracking the names that are visible at the current node.
class ProgramVerifier {
public:
  ProgramVerifier(const Program &program, Diagnostics &diags)
      : program_(program), diags_(diags), context_(program, diags) {}
  void run();

private:
  void verifyBlock(const Block &block, const Op *owner);
  void verifyOp(const Op &op);
  void verifyInner(const Op &op);
  bool verifyOperands(const Op &op);
  bool verifyScalars(const Op &op);
  bool verifyScalar(const Op &op, const Scalar *scalar);
  bool verifyLeaves(const Op &op, const Scalar *scalar);
  bool verifyArithmetic(const Op &op, const Scalar *scalar);
  void verifyLiveness(const Op &op, const Value *operand);
  void verifyConstantType(const Value &value);

  /// Makes the name of a value or a loop index visible.
  void define(llvm::StringRef what, const std::string &name, Location location, const Value *value);
  void define(const Value &value) { define(name(value.kind), value.name, value.location, &value); }
  bool isVisible(const Value *value) const;
  void leaveScope(size_t names);

  const Program &program_;
  Diagnostics &diags_;
  ProgramContext context_;
  struct Visible {
    Location location;
    const Value *value;
  };
  std::map<std::string, Visible> names_;
  std::vector<std::string> order_;    ///< the keys of names_, in order of definition
  std::vector<const Scalar *> loops_; ///< indices of the loops that enclose the current node
};

void ProgramVerifier::run() {
  verifyName("program", program_.name(), program_.location(), diags_);
  if (verifyMeshSize(program_.ranks(), program_.location(), diags_))
    verifyRanksPerHost(program_.ranksPerHost(), program_.ranks(), program_.location(), diags_);
  for (auto list : {program_.params(), program_.results()}) {
    for (const auto &value : list) {
      define(*value);
      verifyConstantType(*value);
    }
  }
  verifyBlock(program_.body(), nullptr);
}

//===----------------------------------------------------------------------------------------===//
// Scopes
//===----------------------------------------------------------------------------------------===//

void ProgramVerifier::verifyBlock(const Block &block, const Op *owner) {
  size_t names = order_.size();
  context_.frames.push_back({&block, owner});
  for (const Op &op : block)
    verifyOp(op);
  context_.frames.pop_back();
  // A group's requests are visible after the group.
  if (!owner || !llvm::isa<GroupOp>(owner))
    leaveScope(names);
}

void ProgramVerifier::verifyOp(const Op &op) {
  bool areOperandsFine = verifyOperands(op);
  bool areScalarsFine = verifyScalars(op);
  if (areOperandsFine && areScalarsFine)
    verifyNode(op, context_);
  if (const Value *result = resultOf(op))
    define(*result);
  if (const auto *allocate = llvm::dyn_cast<AllocateOp>(&op))
    verifyConstantType(allocate->result);
  verifyInner(op);
}

/// Walks the blocks of a node. The index of a loop is visible in its body.
void ProgramVerifier::verifyInner(const Op &op) {
  size_t names = order_.size();
  const auto *loop = llvm::dyn_cast<ForOp>(&op);
  if (loop) {
    define("loop index", loop->index->name().str(), op.location(), nullptr);
    loops_.push_back(loop->index);
  }
  const auto *branch = llvm::dyn_cast<IfOp>(&op);
  int outerBranches = context_.rankBranches;
  if (branch && branch->condition && dependsOnRank(branch->condition))
    ++context_.rankBranches;
  forEachBlock(op, [&](const Block &block) { verifyBlock(block, &op); });
  context_.rankBranches = outerBranches;
  if (!loop)
    return;
  loops_.pop_back();
  leaveScope(names);
}

void ProgramVerifier::define(llvm::StringRef what, const std::string &name, Location location,
                             const Value *value) {
  verifyName(what, name, location, diags_);
  auto [entry, isNew] = names_.try_emplace(name, Visible{location, value});
  if (isNew)
    order_.push_back(name);
  else
    diags_.error(location).note(entry->second.location, "first defined here")
        << "redefinition of '%" << name << "'";
}

bool ProgramVerifier::isVisible(const Value *value) const {
  auto found = names_.find(value->name);
  return found != names_.end() && found->second.value == value;
}

void ProgramVerifier::leaveScope(size_t names) {
  while (order_.size() > names) {
    names_.erase(order_.back());
    order_.pop_back();
  }
}

//===----------------------------------------------------------------------------------------===//
// Operands and scalars
//===----------------------------------------------------------------------------------------===//

/// Checks that every operand is present, defined before the node, and visible to it.
bool ProgramVerifier::verifyOperands(const Op &op) {
  bool isFine = true;
  forEachOperand(op, [&](const Value *operand) {
    if (!operand)
      isFine = diags_.error(op.location()) << "'" << keyword(op) << "' lacks an operand";
    else if (!isVisible(operand))
      isFine = diags_.error(op.location())
               << "'" << keyword(op) << "' uses " << ref(operand)
               << ", which is not defined before this use or is not visible here";
    else
      verifyLiveness(op, operand);
  });
  return isFine;
}

/// Checks that the operand's buffer has not been deallocated.
void ProgramVerifier::verifyLiveness(const Op &op, const Value *operand) {
  if (operand->kind != ValueKind::Tensor || llvm::isa<DeallocateOp>(&op))
    return;
  const Value *buffer = rootOf(operand);
  auto found = context_.deallocated.find(buffer);
  if (found == context_.deallocated.end())
    return;
  diags_.error(op.location()).note(found->second, "deallocated here")
      << "'" << keyword(op) << "' uses " << ref(operand)
      << (buffer == operand ? "" : ", an alias of " + ref(buffer) + ",")
      << " after it was deallocated";
}

bool ProgramVerifier::verifyScalars(const Op &op) {
  bool isFine = true;
  forEachScalar(const_cast<Op &>(op), [&](const Scalar *&scalar) {
    if (!scalar)
      isFine = diags_.error(op.location()) << "'" << keyword(op) << "' lacks an expression";
    else
      isFine &= verifyScalar(op, scalar);
  });
  return isFine;
}

bool ProgramVerifier::verifyScalar(const Op &op, const Scalar *scalar) {
  if (!verifyLeaves(op, scalar))
    return false;
  if (!isComparison(scalar->kind()))
    return verifyArithmetic(op, scalar);
  if (!llvm::isa<IfOp>(&op))
    return diags_.error(op.location())
           << "expected a number, got the comparison '" << scalar->str() << "'";
  return verifyArithmetic(op, scalar->lhs()) && verifyArithmetic(op, scalar->rhs());
}

/// Checks that every leaf is a constant, `rank`, or the index of an enclosing loop.
bool ProgramVerifier::verifyLeaves(const Op &op, const Scalar *scalar) {
  const Scalar *strange = nullptr;
  anyLeaf(scalar, [&](const Scalar *leaf) {
    bool isForeignLoop = leaf->kind() == ScalarKind::LoopIndex && !llvm::is_contained(loops_, leaf);
    if (isForeignLoop || leaf->kind() == ScalarKind::Parameter)
      strange = leaf;
    return strange != nullptr;
  });
  if (!strange)
    return true;
  return diags_.error(op.location())
         << "'" << strange->str()
         << "' is not in scope here, expected 'rank' or the index of a loop "
         << "that encloses this '" << keyword(op) << "'";
}

/// Checks that `scalar` contains no comparison, and no operation that fails on every rank.
bool ProgramVerifier::verifyArithmetic(const Op &op, const Scalar *scalar) {
  if (!isBinary(scalar->kind()))
    return true;
  if (isComparison(scalar->kind()))
    return diags_.error(op.location())
           << "expected a number, got the comparison '" << scalar->str() << "'";
  if (scalar->kind() == ScalarKind::Ceil)
    return diags_.error(op.location())
           << "expected a number, got '" << scalar->str()
           << "', which is allowed only in the extents of a fusion's tensors";
  if (!verifyArithmetic(op, scalar->lhs()) || !verifyArithmetic(op, scalar->rhs()))
    return false;
  ScalarError error = ScalarError::None;
  if (divides(scalar->kind()) && scalar->rhs()->isConstant(0))
    error = ScalarError::DivideByZero;
  else if (scalar->lhs()->isConstant() && scalar->rhs()->isConstant())
    error = evaluate(scalar, {}).error; // an operation that fails is never folded
  if (error == ScalarError::None)
    return true;
  return diags_.error(op.location()) << "'" << scalar->str() << "' " << describe(error);
}

//===----------------------------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------------------------===//

/// Checks that a parameter, result or buffer has constant, positive extents and a size in bytes
/// that fits in 64 bits.
void ProgramVerifier::verifyConstantType(const Value &value) {
  Shape shape;
  for (size_t axis = 0; axis < value.type.rank(); ++axis) {
    const Scalar *extent = value.type.shape[axis];
    if (extent && extent->isConstant() && extent->value() >= 1) {
      shape.push_back(extent->value());
      continue;
    }
    diags_.error(value.location) << "axis " << axis << " of " << ref(&value) << " has extent "
                                 << (extent ? extent->str() : "none")
                                 << ", expected a constant of at least 1";
  }
  if (shape.size() == value.type.rank() && !byteCount(value.type.dtype, shape))
    diags_.error(value.location) << "the size of " << typed(&value)
                                 << " in bytes overflows 64 bits";
}

} // namespace

bool verify(const Program &program, const Module &module, Diagnostics &diags) {
  size_t errorsBefore = diags.errorCount();
  ProgramVerifier(program, diags).run();
  verifyRequests(program, diags);
  verifyInterface(program, module, diags);
  return diags.errorCount() == errorsBefore && !diags.isFull();
}

bool verify(const Module &module, Diagnostics &diags) {
  size_t errorsBefore = diags.errorCount();
  for (const auto &fusion : module.fusions)
    verify(*fusion, diags);
  for (const auto &program : module.programs)
    verify(*program, module, diags);
  return diags.errorCount() == errorsBefore && !diags.isFull();
}

} // namespace braid
