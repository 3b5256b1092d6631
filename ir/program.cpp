//===- ir/program.cpp - the nodes of a program, and walks over them ---------------------------===//

#include "ir/program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace braid {

llvm::StringRef keyword(const Op &op) {
  const auto *matmul = llvm::dyn_cast<MatmulOp>(&op);
  if (matmul && matmul->transposeB)
    return "linear";
  switch (op.kind()) {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  case OpKind::Kind:                                                                               \
    return keyword;
#include "ir/program_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

llvm::StringRef name(ValueKind kind) {
  static constexpr llvm::StringLiteral kNames[] = {"tensor", "stream", "request", "handles"};
  return kNames[static_cast<size_t>(kind)];
}

llvm::StringRef name(Protocol protocol) { return protocol == Protocol::Get ? "get" : "put"; }

namespace {

constexpr llvm::StringLiteral kCollectives[] = {"allgather", "reduce_scatter", "allreduce",
                                                "broadcast", "reduce",         "alltoall"};
constexpr llvm::StringLiteral kReductions[] = {"sum", "prod", "min", "max"};

/// The enumerator that has `name` in the list of their names.
template <class Enum>
std::optional<Enum> fromName(llvm::ArrayRef<llvm::StringLiteral> names, llvm::StringRef name) {
  const auto *found = llvm::find(names, name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Enum>(found - names.begin()));
}

template <class OpClass> const Value *resultIn(const OpClass &op) {
  if constexpr (requires { op.result; })
    return &op.result;
  else
    return nullptr;
}

} // namespace

llvm::StringRef name(CollectiveKind kind) { return kCollectives[static_cast<size_t>(kind)]; }

std::optional<CollectiveKind> collectiveFromName(llvm::StringRef name) {
  return fromName<CollectiveKind>(kCollectives, name);
}

llvm::StringRef name(ReductionOperator op) { return kReductions[static_cast<size_t>(op)]; }

std::optional<ReductionOperator> reductionFromName(llvm::StringRef name) {
  return fromName<ReductionOperator>(kReductions, name);
}

const Value *resultOf(const Op &op) {
  switch (op.kind()) {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  case OpKind::Kind:                                                                               \
    return resultIn(*llvm::cast<Kind##Op>(&op));
#include "ir/program_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

Value *resultOf(Op &op) { return const_cast<Value *>(resultOf(static_cast<const Op &>(op))); }

DType SumOp::elementType() const {
  for (const Value *value : {dst, parts, bias})
    if (value && sizeOf(value->type.dtype) == 2)
      return value->type.dtype;
  return dst->type.dtype;
}

namespace {

using ValueFn = llvm::function_ref<void(Value *&)>;

void callIfSet(Value *&value, ValueFn fn) {
  if (value)
    fn(value);
}

} // namespace

void forEachOperand(Op &op, ValueFn fn) {
  switch (op.kind()) {
  case OpKind::Allocate:
  case OpKind::For:
  case OpKind::If:
  case OpKind::Group:
  case OpKind::GetCurrentStream:
    return;
  case OpKind::Deallocate:
    return fn(llvm::cast<DeallocateOp>(&op)->buffer);
  case OpKind::Select:
    return fn(llvm::cast<SelectOp>(&op)->tensor);
  case OpKind::Slice:
    return fn(llvm::cast<SliceOp>(&op)->tensor);
  case OpKind::Flatten:
    return fn(llvm::cast<FlattenOp>(&op)->tensor);
  case OpKind::Set: {
    auto &set = *llvm::cast<SetOp>(&op);
    fn(set.dst);
    return fn(set.src);
  }
  case OpKind::Matmul: {
    auto &matmul = *llvm::cast<MatmulOp>(&op);
    fn(matmul.dst);
    fn(matmul.a);
    fn(matmul.b);
    callIfSet(matmul.bias, fn);
    return callIfSet(matmul.addend, fn);
  }
  case OpKind::Sum: {
    auto &sum = *llvm::cast<SumOp>(&op);
    fn(sum.dst);
    fn(sum.parts);
    return callIfSet(sum.bias, fn);
  }
  case OpKind::Pointwise: {
    auto &pointwise = *llvm::cast<PointwiseOp>(&op);
    fn(pointwise.dst);
    fn(pointwise.first);
    for (PointwiseStep<Value *> &step : pointwise.steps)
      callIfSet(step.operand, fn);
    return;
  }
  case OpKind::ShareMemHandles:
    for (Value *&buffer : llvm::cast<ShareMemHandlesOp>(&op)->buffers)
      fn(buffer);
    return;
  case OpKind::P2P: {
    auto &p2p = *llvm::cast<P2POp>(&op);
    if (p2p.gemm)
      forEachOperand(*p2p.gemm, [&](Value *&value) {
        if (value != &p2p.product)
          fn(value);
      });
    else
      fn(p2p.tensor);
    return fn(p2p.handles);
  }
  case OpKind::Collective: {
    auto &collective = *llvm::cast<CollectiveOp>(&op);
    fn(collective.dst);
    return fn(collective.src);
  }
  case OpKind::Wait:
    return fn(llvm::cast<WaitOp>(&op)->request);
  case OpKind::Synchronize:
    return callIfSet(llvm::cast<SynchronizeOp>(&op)->stream.named, fn);
  case OpKind::SetCurrentStream:
    return callIfSet(llvm::cast<SetCurrentStreamOp>(&op)->stream.named, fn);
  }
}

void forEachOperand(const Op &op, llvm::function_ref<void(const Value *)> fn) {
  forEachOperand(const_cast<Op &>(op), [&](Value *&value) { fn(value); });
}

void forEachScalar(Op &op, llvm::function_ref<void(const Scalar *&)> fn) {
  auto callIfSet = [&](const Scalar *&scalar) {
    if (scalar)
      fn(scalar);
  };
  if (auto *loop = llvm::dyn_cast<ForOp>(&op)) {
    fn(loop->begin);
    fn(loop->end);
  } else if (auto *branch = llvm::dyn_cast<IfOp>(&op)) {
    fn(branch->condition);
  } else if (auto *select = llvm::dyn_cast<SelectOp>(&op)) {
    fn(select->index);
  } else if (auto *slice = llvm::dyn_cast<SliceOp>(&op)) {
    fn(slice->begin);
    fn(slice->end);
  } else if (auto *sum = llvm::dyn_cast<SumOp>(&op)) {
    callIfSet(sum->begin);
    callIfSet(sum->end);
  } else if (auto *p2p = llvm::dyn_cast<P2POp>(&op)) {
    for (const Scalar *&extent : p2p->product.type.shape)
      fn(extent);
    fn(p2p->peer);
  } else if (auto *collective = llvm::dyn_cast<CollectiveOp>(&op)) {
    for (const Scalar *&member : collective->team)
      fn(member);
    callIfSet(collective->root);
  } else if (auto *synchronize = llvm::dyn_cast<SynchronizeOp>(&op)) {
    callIfSet(synchronize->stream.index);
  } else if (auto *current = llvm::dyn_cast<SetCurrentStreamOp>(&op)) {
    callIfSet(current->stream.index);
  }
}

void forEachBlock(Op &op, llvm::function_ref<void(Block &)> fn) {
  if (auto *loop = llvm::dyn_cast<ForOp>(&op))
    return fn(loop->body);
  if (auto *group = llvm::dyn_cast<GroupOp>(&op))
    return fn(group->body);
  if (auto *branch = llvm::dyn_cast<IfOp>(&op)) {
    fn(branch->thenBlock);
    fn(branch->elseBlock);
  }
}

void forEachBlock(const Op &op, llvm::function_ref<void(const Block &)> fn) {
  forEachBlock(const_cast<Op &>(op), [&](Block &block) { fn(block); });
}

void walk(Block &block, llvm::function_ref<void(Op &)> fn) {
  for (Op &op : block) {
    fn(op);
    forEachBlock(op, [&](Block &inner) { walk(inner, fn); });
  }
}

void walk(const Block &block, llvm::function_ref<void(const Op &)> fn) {
  walk(const_cast<Block &>(block), [&](Op &op) { fn(op); });
}

const Value *rootOf(const Value *tensor) {
  while (tensor->definition) {
    if (const auto *select = llvm::dyn_cast<SelectOp>(tensor->definition))
      tensor = select->tensor;
    else if (const auto *slice = llvm::dyn_cast<SliceOp>(tensor->definition))
      tensor = slice->tensor;
    else if (const auto *flatten = llvm::dyn_cast<FlattenOp>(tensor->definition))
      tensor = flatten->tensor;
    else
      break;
  }
  return tensor;
}

TensorType selectedType(const TensorType &type) {
  TensorType result = type;
  if (!result.shape.empty())
    result.shape.erase(result.shape.begin());
  return result;
}

TensorType slicedType(const TensorType &type, const Scalar *extent) {
  TensorType result = type;
  if (!result.shape.empty())
    result.shape.front() = extent;
  return result;
}

} // namespace braid
