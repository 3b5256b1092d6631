//===- ir/verify/verify_nodes.cpp - rules for each kind of program node -----------------------===//

#include "ir/verify/verify.h"
#include "ir/visitor.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Returns true unless both extents are constant and differ. Extents that are not constant are
/// checked when a Plan is created.
bool mayBeEqual(const Scalar *a, const Scalar *b) {
  return a == b || !a->isConstant() || !b->isConstant();
}

bool mayBeEqual(llvm::ArrayRef<const Scalar *> a, llvm::ArrayRef<const Scalar *> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           return mayBeEqual(std::get<0>(pair), std::get<1>(pair));
         });
}

class NodeVerifier : public OpVisitor<NodeVerifier> {
public:
  explicit NodeVerifier(ProgramContext &context) : context_(context) {}
#define BRAID_OP(Kind, keyword, results, summary) void visit##Kind(const Kind##Op &op);
#include "ir/program_kinds.def"

private:
  Diagnostics::InFlight error(const Op &op) { return context_.diags.error(op.location()); }
  std::string quoted(const Op &op) const { return "'" + keyword(op).str() + "'"; }

  bool expectKind(const Op &op, const Value *value, ValueKind kind);
  bool expectTensors(const Op &op, llvm::ArrayRef<const Value *> values);
  bool expectWritable(const Op &op, const Value *dst);
  bool expectDistinct(const Op &op, const Value *dst, llvm::ArrayRef<const Value *> operands);
  bool expectOneDType(const Op &op, llvm::ArrayRef<const Value *> values);
  bool expectAddend(const Op &op, const Value *dst, const Value *addend);
  bool expectAxes(const Op &op, const Value *tensor);
  bool expectRange(const Op &op, const Scalar *begin, const Scalar *end, const Value *tensor,
                   size_t axis);
  bool expectContraction(const Op &op, const Value *lhs, size_t lhsAxis, const Value *rhs,
                         size_t rhsAxis);
  bool expectMixable(const Op &op, const Value *first, const Value *other);
  bool expectPartialType(const Op &op, const Value *partial, DType result);
  void expectShape(const Op &op, const Value *value, const TensorType &expected);
  bool expectRank(const Op &op, llvm::StringRef what, const Scalar *rank);
  void verifyStream(const Op &op, const StreamRef &stream);
  void expectLength(const SumOp &op);
  void verifyBias(const SumOp &op);
  bool verifySentGemm(const P2POp &op);
  void verifyTeam(const CollectiveOp &op);
  void verifyRoot(const CollectiveOp &op);

  const Program &program() const { return context_.program; }
  bool isParam(const Value *value) const {
    return llvm::any_of(program().params(), [&](const auto &p) { return p.get() == value; });
  }

  ProgramContext &context_;
};

//===----------------------------------------------------------------------------------------===//
// Rules shared by several nodes
//===----------------------------------------------------------------------------------------===//

bool NodeVerifier::expectKind(const Op &op, const Value *value, ValueKind kind) {
  if (value->kind == kind)
    return true;
  auto noun = [](ValueKind k) { return (k == ValueKind::Handles ? "" : "a ") + name(k).str(); };
  return error(op) << quoted(op) << " expects " << noun(kind) << ", got " << ref(value) << ", "
                   << noun(value->kind);
}

bool NodeVerifier::expectTensors(const Op &op, llvm::ArrayRef<const Value *> values) {
  return llvm::all_of(values,
                      [&](const Value *value) { return expectKind(op, value, ValueKind::Tensor); });
}

/// A program must not write its parameters, because the caller may reuse them.
bool NodeVerifier::expectWritable(const Op &op, const Value *dst) {
  const Value *root = rootOf(dst);
  if (!isParam(root))
    return true;
  return error(op).note(root->location, "the parameter is declared here")
         << quoted(op) << " writes " << ref(dst)
         << (root == dst ? "" : ", an alias of " + ref(root))
         << ", but parameters are read-only; expected a result or an allocated buffer";
}

bool NodeVerifier::expectDistinct(const Op &op, const Value *dst,
                                  llvm::ArrayRef<const Value *> operands) {
  if (!llvm::is_contained(operands, dst))
    return true;
  return error(op) << quoted(op) << " reads and writes " << ref(dst)
                   << "; the destination must not be an operand";
}

bool NodeVerifier::expectOneDType(const Op &op, llvm::ArrayRef<const Value *> values) {
  for (const Value *value : values)
    if (value->type.dtype != values.front()->type.dtype)
      return error(op) << quoted(op) << " mixes element types: " << ref(values.front()) << " is "
                       << name(values.front()->type.dtype) << ", " << ref(value) << " is "
                       << name(value->type.dtype);
  return true;
}

bool NodeVerifier::expectAxes(const Op &op, const Value *tensor) {
  if (!tensor->type.shape.empty())
    return true;
  return error(op) << quoted(op) << " expects a tensor with at least one axis, got "
                   << typed(tensor);
}

bool NodeVerifier::expectContraction(const Op &op, const Value *lhs, size_t lhsAxis,
                                     const Value *rhs, size_t rhsAxis) {
  const Scalar *left = lhs->type.shape[lhsAxis], *right = rhs->type.shape[rhsAxis];
  if (mayBeEqual(left, right))
    return true;
  return error(op) << quoted(op) << " contracts axis " << lhsAxis << " of " << ref(lhs)
                   << " with axis " << rhsAxis << " of " << ref(rhs)
                   << "; expected equal extents, got " << left->str() << " and " << right->str();
}

/// Checks the type of a GEMM's result, or of a sum's operand or result.
bool NodeVerifier::expectPartialType(const Op &op, const Value *partial, DType result) {
  if (isPartialType(partial->type.dtype, result))
    return true;
  return error(op) << quoted(op) << " expects " << ref(partial) << " to be of type " << name(result)
                   << (sizeOf(result) == 2 ? " or f32" : "") << ", got "
                   << name(partial->type.dtype);
}

void NodeVerifier::expectShape(const Op &op, const Value *value, const TensorType &expected) {
  if (!mayBeEqual(value->type.shape, expected.shape))
    error(op) << quoted(op) << " expects " << ref(value) << " to be " << expected.str() << ", got "
              << value->type.str();
}

bool NodeVerifier::expectRank(const Op &op, llvm::StringRef what, const Scalar *rank) {
  if (!rank->isConstant() || (rank->value() >= 0 && rank->value() < program().ranks()))
    return true;
  return error(op) << "expected a " << what << " in the mesh [0 .. " << program().ranks()
                   << "), got " << rank->value();
}

void NodeVerifier::verifyStream(const Op &op, const StreamRef &stream) {
  if (stream.named) {
    expectKind(op, stream.named, ValueKind::Stream);
    return;
  }
  if (!stream.index)
    error(op) << quoted(op) << " lacks a stream";
  else if (stream.index->isConstant() &&
           (stream.index->value() < 0 || stream.index->value() >= kMaxStreams))
    error(op) << "expected a stream number from 0 to " << kMaxStreams - 1 << ", got "
              << stream.index->value();
}

//===----------------------------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------------------------===//

/// verify_program.cpp checks the type.
void NodeVerifier::visitAllocate(const AllocateOp &op) {
  context_.allocated[&op.result] = context_.frames.back().block;
}

void NodeVerifier::visitDeallocate(const DeallocateOp &op) {
  const auto *allocate = llvm::dyn_cast_or_null<AllocateOp>(op.buffer->definition);
  if (!allocate) {
    error(op) << "'deallocate' expects the result of an 'allocate', got " << ref(op.buffer);
    return;
  }
  auto [entry, isNew] = context_.deallocated.try_emplace(op.buffer, op.location());
  if (!isNew) {
    error(op).note(entry->second, "deallocated here") << ref(op.buffer) << " is deallocated twice";
    return;
  }
  if (context_.allocated.lookup(op.buffer) != context_.frames.back().block)
    error(op).note(allocate->location(), "allocated here")
        << "'deallocate' expects a buffer from the same block, got " << ref(op.buffer)
        << ", which is allocated outside the block";
}

void NodeVerifier::visitSelect(const SelectOp &op) {
  if (!expectTensors(op, {op.tensor}) || !expectAxes(op, op.tensor) || !op.index->isConstant())
    return;
  const Scalar *extent = op.tensor->type.shape.front();
  int64_t index = op.index->value();
  if (index < 0)
    error(op) << "expected an index of at least 0, got " << index;
  else if (extent->isConstant() && index >= extent->value())
    error(op) << "expected an index below " << extent->value() << ", the extent of axis 0 of "
              << ref(op.tensor) << ", got " << index;
}

void NodeVerifier::visitSlice(const SliceOp &op) {
  if (expectTensors(op, {op.tensor}) && expectAxes(op, op.tensor))
    expectRange(op, op.begin, op.end, op.tensor, 0);
}

/// Checks a range along one axis of a tensor.
bool NodeVerifier::expectRange(const Op &op, const Scalar *begin, const Scalar *end,
                               const Value *tensor, size_t axis) {
  const std::string range = begin->str() + " .. " + end->str();
  const Scalar *extent = tensor->type.shape[axis];
  const bool areConstant = begin->isConstant() && end->isConstant();
  if (begin == end || (areConstant && end->value() <= begin->value()))
    return error(op) << "expected a nonempty range, got " << range;
  if (begin->isConstant() && begin->value() < 0)
    return error(op) << "expected a range that starts at or above 0, got " << range;
  if (end->isConstant() && extent->isConstant() && end->value() > extent->value())
    return error(op) << "expected a range that ends at or below " << extent->value()
                     << ", the extent of axis " << axis << " of " << ref(tensor) << ", got "
                     << range;
  return true;
}

void NodeVerifier::visitFlatten(const FlattenOp &op) {
  if (expectTensors(op, {op.tensor}) && op.tensor->type.shape.size() < 2)
    error(op) << quoted(op) << " expects a tensor with at least two axes, got " << typed(op.tensor);
}

//===----------------------------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------------------------===//

void NodeVerifier::visitSet(const SetOp &op) {
  if (!expectTensors(op, {op.dst, op.src}) || !expectWritable(op, op.dst) ||
      !expectDistinct(op, op.dst, {op.src}) || !expectOneDType(op, {op.dst, op.src}))
    return;
  expectShape(op, op.dst, op.src->type);
}

/// Checks that the addend of a GEMM has the type of the result.
bool NodeVerifier::expectAddend(const Op &op, const Value *dst, const Value *addend) {
  if (!addend)
    return true;
  if (!expectTensors(op, {addend}) || !expectOneDType(op, {dst, addend}))
    return false;
  expectShape(op, addend, dst->type);
  return true;
}

void NodeVerifier::visitMatmul(const MatmulOp &op) {
  if (op.bias && op.addend) {
    error(op) << quoted(op) << " cannot have both a bias and an addend, got " << ref(op.bias)
              << " and " << ref(op.addend);
    return;
  }
  llvm::SmallVector<const Value *, 4> operands = {op.a, op.b};
  if (op.bias)
    operands.push_back(op.bias);
  llvm::SmallVector<const Value *, 4> all = operands;
  all.insert(all.begin(), op.dst);
  if (!expectTensors(op, all) || !expectWritable(op, op.dst) ||
      !expectDistinct(op, op.dst, operands) || !expectOneDType(op, operands) ||
      !expectAddend(op, op.dst, op.addend) || !expectPartialType(op, op.dst, op.a->type.dtype) ||
      !expectAxes(op, op.a) || !expectAxes(op, op.b))
    return;
  const size_t count = contractedAxes(op.a->type.rank(), op.b->type.rank(), op.dst->type.rank());
  const size_t first = op.transposeB ? op.b->type.rank() - count : 0;
  TensorType expected = op.a->type, columns = op.b->type;
  expected.dtype = op.dst->type.dtype;
  expected.shape.truncate(op.a->type.rank() - count);
  columns.shape.erase(columns.shape.begin() + first, columns.shape.begin() + first + count);
  for (size_t i = 0; i < count; ++i)
    if (!expectContraction(op, op.a, expected.rank() + i, op.b, first + i))
      return;
  if (op.bias)
    expectShape(op, op.bias, columns);
  llvm::append_range(expected.shape, columns.shape);
  expectShape(op, op.dst, expected);
}

void NodeVerifier::visitSum(const SumOp &op) {
  llvm::SmallVector<const Value *, 3> operands = {op.parts};
  if (op.bias)
    operands.push_back(op.bias);
  if (!expectTensors(op, {op.dst}) || !expectTensors(op, operands) || !expectWritable(op, op.dst) ||
      !expectDistinct(op, op.dst, operands) || !expectPartialType(op, op.parts, op.elementType()) ||
      !expectPartialType(op, op.dst, op.elementType()))
    return;
  if (!expectAxes(op, op.parts))
    return;
  TensorType expected = selectedType(op.parts->type);
  expected.dtype = op.dst->type.dtype;
  if (op.begin && op.parts->type.rank() < 2) {
    error(op) << quoted(op) << " with a range expects a tensor with at least two axes, got "
              << typed(op.parts);
    return;
  }
  if (op.begin && !expectRange(op, op.begin, op.end, op.parts, 1))
    return;
  if (op.begin) // the length of the range is checked separately
    expected.shape.front() = op.dst->type.shape.empty() ? op.end : op.dst->type.shape.front();
  expectShape(op, op.dst, expected);
  if (op.begin)
    expectLength(op);
  if (op.bias)
    verifyBias(op);
}

void NodeVerifier::visitPointwise(const PointwiseOp &op) {
  llvm::SmallVector<const Value *, 4> operands = {op.first};
  for (const PointwiseStep<Value *> &step : op.steps)
    if (isBinary(step.function))
      operands.push_back(step.operand);
  if (!expectTensors(op, {op.dst}) || !expectTensors(op, operands) || !expectWritable(op, op.dst) ||
      !expectDistinct(op, op.dst, operands))
    return;
  if (op.steps.size() > kMostPointwiseSteps) {
    error(op) << quoted(op) << " expects at most " << kMostPointwiseSteps << " functions, got "
              << op.steps.size();
    return;
  }
  operands.insert(operands.begin(), op.dst);
  const Value *narrow = *llvm::find_if(
      operands, [&](const Value *v) { return v == operands.back() || sizeOf(v->type.dtype) == 2; });
  for (const Value *operand : operands) {
    TensorType expected = op.dst->type;
    expected.dtype = operand->type.dtype;
    if (!expectMixable(op, narrow, operand))
      return;
    expectShape(op, operand, expected);
  }
}

/// Checks the element types in a pointwise node: one type, or f32 mixed with one 16-bit type.
bool NodeVerifier::expectMixable(const Op &op, const Value *first, const Value *other) {
  const DType a = first->type.dtype, b = other->type.dtype;
  if (isPartialType(a, b) || isPartialType(b, a))
    return true;
  return error(op) << quoted(op)
                   << " expects all tensors to have the same element type, or a mix of f32 and one "
                      "16-bit type, "
                   << "got " << typed(first) << " and " << typed(other);
}

/// Checks that the range of a sum is as long as its destination. Non-constant lengths are checked
/// when a Plan is created.
void NodeVerifier::expectLength(const SumOp &op) {
  const auto &shape = op.dst->type.shape;
  if (shape.empty() || !shape.front()->isConstant() || !op.begin->isConstant() ||
      !op.end->isConstant() || shape.front()->value() == op.end->value() - op.begin->value())
    return;
  error(op) << quoted(op) << " expects a range of length " << shape.front()->value()
            << ", the extent of axis 0 of " << ref(op.dst) << ", got " << op.begin->str() << " .. "
            << op.end->str();
}

/// Checks that the axes of the bias are the last axes of the destination.
void NodeVerifier::verifyBias(const SumOp &op) {
  if (op.bias->type.dtype != op.elementType()) {
    error(op) << quoted(op) << " expects " << ref(op.bias) << " to be of type "
              << name(op.elementType()) << ", got " << name(op.bias->type.dtype);
    return;
  }
  const llvm::ArrayRef<const Scalar *> axes = op.dst->type.shape, bias = op.bias->type.shape;
  if (bias.size() > axes.size() || !mayBeEqual(bias, axes.take_back(bias.size())))
    error(op) << quoted(op) << " expects the bias " << ref(op.bias) << " to have the last axes of "
              << typed(op.dst) << ", got " << op.bias->type.str();
}

//===----------------------------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------------------------===//

/// All ranks exchange handles once, for entire symmetric buffers.
void NodeVerifier::visitShareMemHandles(const ShareMemHandlesOp &op) {
  if (context_.frames.size() > 1)
    error(op) << "'share_mem_handles' must be at the top level of the program, not in "
              << "'" << keyword(*context_.frames.back().owner) << "'";
  if (op.buffers.empty())
    error(op) << "'share_mem_handles' lists no buffers";
  for (const Value *buffer : op.buffers) {
    const auto *allocate = llvm::dyn_cast_or_null<AllocateOp>(buffer->definition);
    if (!allocate || allocate->space != MemorySpace::Symmetric) {
      error(op) << "'share_mem_handles' expects the result of an 'allocate symmetric', got "
                << ref(buffer);
      continue;
    }
    auto [entry, isNew] = context_.shared.try_emplace(buffer, op.location());
    if (!isNew)
      error(op).note(entry->second, "first shared here") << ref(buffer) << " is shared twice";
  }
}

void NodeVerifier::visitP2P(const P2POp &op) {
  bool areKindsFine = expectKind(op, op.tensor, ValueKind::Tensor);
  areKindsFine &= expectKind(op, op.handles, ValueKind::Handles);
  bool isReceive = op.direction == Direction::Receive;
  if (!areKindsFine || (isReceive && !expectWritable(op, op.tensor)) ||
      (op.gemm && !verifySentGemm(op)))
    return;
  if (op.peer->kind() == ScalarKind::Rank)
    error(op) << "expected a peer other than the rank itself, got 'rank'";
  expectRank(op, "peer", op.peer);
  // The peer reads the sent tensor under get, and writes the received tensor under put.
  bool isPassive = isReceive == (op.protocol() == Protocol::Put);
  const auto &handles = *llvm::cast<ShareMemHandlesOp>(op.handles->definition);
  if (!isPassive || llvm::is_contained(handles.buffers, rootOf(op.tensor)))
    return;
  error(op).note(handles.location(), "the handles are created here")
      << "expected a tensor in a buffer that " << ref(op.handles) << " shares, got "
      << ref(op.tensor) << ": with '" << name(op.protocol()) << "', the peer "
      << (isReceive ? "writes" : "reads") << " the tensor";
}

/// Checks the send, then checks the GEMM against the rules for a matmul node.
bool NodeVerifier::verifySentGemm(const P2POp &op) {
  if (op.protocol() != Protocol::Put)
    return error(op).note(op.handles->location, "the handles are created here")
           << "a GEMM in 'p2p' writes its result directly into the receiver's memory, which "
           << "requires 'put' handles, but " << ref(op.handles) << " is created with 'get'";
  if (op.gemm->bias)
    return error(op) << quoted(*op.gemm) << " in 'p2p' expects no bias, got " << ref(op.gemm->bias);
  const Value *addend = op.gemm->addend;
  if (addend && addend->type.dtype != op.product.type.dtype)
    return error(op) << quoted(*op.gemm) << " in 'p2p' mixes element types: the sent value is "
                     << name(op.product.type.dtype) << ", " << ref(addend) << " is "
                     << name(addend->type.dtype);
  visitMatmul(*op.gemm);
  return true;
}

void NodeVerifier::visitGroup(const GroupOp &op) {
  if (op.body.empty())
    error(op) << "expected at least one 'p2p' in 'group', got none";
  for (const Op &inner : op.body)
    if (!llvm::isa<P2POp>(&inner))
      error(inner) << "expected only 'p2p' in 'group', got " << quoted(inner);
}

void NodeVerifier::visitCollective(const CollectiveOp &op) {
  if (context_.rankBranches > 0)
    error(op)
        << "every rank must execute 'collective', but it is in an 'if' that depends on 'rank'";
  const bool reduces = rowOf(op.collective).adds;
  if (reduces && !op.reduction)
    error(op) << "'" << name(op.collective) << "' expects an operator (sum, prod, min or max)";
  if (!reduces && op.reduction)
    error(op) << "'" << name(op.collective) << "' expects no operator, got '" << name(*op.reduction)
              << "'";
  verifyTeam(op);
  verifyRoot(op);
  if (expectTensors(op, {op.dst, op.src}) && expectWritable(op, op.dst) &&
      expectDistinct(op, op.dst, {op.src}))
    expectOneDType(op, {op.dst, op.src});
}

void NodeVerifier::verifyTeam(const CollectiveOp &op) {
  llvm::SmallVector<const Scalar *, 8> known;
  for (const Scalar *member : op.team) {
    if (!member->isConstant())
      error(op) << "expected team members to be constants, got '" << member->str() << "'";
    else if (expectRank(op, "member of the team", member) && llvm::is_contained(known, member))
      error(op) << "expected distinct team members, got " << member->value() << " twice";
    known.push_back(member);
  }
}

void NodeVerifier::verifyRoot(const CollectiveOp &op) {
  const bool hasRoot = rowOf(op.collective).root != CollectiveRow::Root::None;
  if (hasRoot && !op.root)
    error(op) << "'" << name(op.collective) << "' expects a root";
  if (!hasRoot && op.root)
    error(op) << "'" << name(op.collective) << "' expects no root, got " << op.root->str();
  if (!hasRoot || !op.root || !expectRank(op, "root", op.root))
    return;
  if (op.root->isConstant() && !op.team.empty() && !llvm::is_contained(op.team, op.root))
    error(op) << "expected the root to be a member of the team, got " << op.root->value();
}

void NodeVerifier::visitWait(const WaitOp &op) { expectKind(op, op.request, ValueKind::Request); }

//===----------------------------------------------------------------------------------------===//
// Control and streams
//===----------------------------------------------------------------------------------------===//

/// Every rank must execute the same iterations, so that the n-th send matches the n-th receive.
void NodeVerifier::visitFor(const ForOp &op) {
  if (op.index->kind() != ScalarKind::LoopIndex)
    error(op) << "expected a loop index, got '" << op.index->str() << "'";
  for (const Scalar *bound : {op.begin, op.end})
    if (dependsOnRank(bound))
      error(op) << "expected bounds that are the same on every rank, got '" << bound->str() << "'";
}

/// Comparisons of constants fold to 0 or 1.
void NodeVerifier::visitIf(const IfOp &op) {
  bool isDecided = op.condition->isConstant(0) || op.condition->isConstant(1);
  if (!isComparison(op.condition->kind()) && !isDecided)
    error(op) << "expected a comparison, got '" << op.condition->str() << "'";
}

void NodeVerifier::visitSynchronize(const SynchronizeOp &op) { verifyStream(op, op.stream); }

void NodeVerifier::visitGetCurrentStream(const GetCurrentStreamOp &) {} // nothing to check

void NodeVerifier::visitSetCurrentStream(const SetCurrentStreamOp &op) {
  verifyStream(op, op.stream);
}

} // namespace

void verifyNode(const Op &op, ProgramContext &context) { NodeVerifier(context).visit(op); }

} // namespace braid
