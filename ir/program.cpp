//===- ir/program.cpp - the nodes of a program, and walks over them ---------------------------===//

#include "ir/program.h"

#include "ir/syntax.h"

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

llvm::StringRef name(Direction direction) { return direction == Direction::Send ? "send" : "recv"; }

llvm::StringRef name(MemorySpace space) {
  return space == MemorySpace::Symmetric ? "symmetric" : "device";
}

llvm::ArrayRef<CollectiveRow> allCollectives() {
  static constexpr CollectiveRow kRows[] = {
#define BRAID_COLLECTIVE(Kind, keyword, root, adds, src, dst)                                      \
  {keyword, CollectiveRow::Root::root, adds != 0, CollectiveRow::Blocks::src,                      \
   CollectiveRow::Blocks::dst},
#include "ir/collective_kinds.def"
  };
  return kRows;
}

std::string collectiveNames() {
  std::string names;
  for (const CollectiveRow &row : allCollectives())
    names += (names.empty()                      ? ""
              : &row == &allCollectives().back() ? " or "
                                                 : ", ") +
             row.keyword.str();
  return names;
}

llvm::StringRef name(ReductionOperator op) {
  static constexpr llvm::StringLiteral kNames[] = {"sum", "prod", "min", "max"};
  return kNames[static_cast<size_t>(op)];
}

template <class OpClass> static const Value *resultIn(const OpClass &op) {
  if constexpr (requires { op.result; })
    return &op.result;
  else
    return nullptr;
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
using ScalarFn = llvm::function_ref<void(const Scalar *&)>;

class Operands : public IgnoreParts {
public:
  explicit Operands(ValueFn fn) : fn_(fn) {}

  void value(llvm::StringRef, Value *&value) { fn_(value); }
  void list(llvm::StringRef, llvm::SmallVectorImpl<Value *> &values) {
    llvm::for_each(values, fn_);
  }
  void list(llvm::StringRef, llvm::SmallVectorImpl<const Scalar *> &) {}
  void stream(StreamRef &stream) {
    if (stream.named)
      fn_(stream.named);
  }
  void chain(PointwiseOp &op) {
    fn_(op.first);
    for (PointwiseStep<Value *> &step : op.steps)
      if (step.operand)
        fn_(step.operand);
  }
  void payload(P2POp &op) {
    if (!op.gemm)
      return fn_(op.tensor);
    forEachOperand(*op.gemm, [&](Value *&value) {
      if (value != &op.product)
        fn_(value);
    });
  }

private:
  ValueFn fn_;
};

class Scalars : public IgnoreParts {
public:
  explicit Scalars(ScalarFn fn) : fn_(fn) {}

  void scalar(llvm::StringRef, const Scalar *&scalar) { fn_(scalar); }
  void list(llvm::StringRef, llvm::SmallVectorImpl<Value *> &) {}
  void list(llvm::StringRef, llvm::SmallVectorImpl<const Scalar *> &scalars) {
    llvm::for_each(scalars, fn_);
  }
  void condition(const Scalar *&condition) { fn_(condition); }
  void stream(StreamRef &stream) {
    if (stream.index)
      fn_(stream.index);
  }
  void payload(P2POp &op) { llvm::for_each(op.product.type.shape, fn_); }

private:
  ScalarFn fn_;
};

} // namespace

void forEachOperand(Op &op, ValueFn fn) { forEachPart(Operands(fn), op); }

void forEachOperand(const Op &op, llvm::function_ref<void(const Value *)> fn) {
  forEachOperand(const_cast<Op &>(op), [&](Value *&value) { fn(value); });
}

void forEachScalar(Op &op, ScalarFn fn) { forEachPart(Scalars(fn), op); }

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
