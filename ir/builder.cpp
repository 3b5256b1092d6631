//===- ir/builder.cpp - creates the nodes of a program ----------------------------------------===//

#include "ir/builder.h"

#include "llvm/Support/ErrorHandling.h"

namespace braid {

void ProgramBuilder::define(Value &value, llvm::StringRef name, Op *definition) {
  value.name = name.str();
  value.location = location_;
  value.definition = definition;
}

/// Returns a type with fewer than two axes unchanged; the verifier reports the error.
static TensorType flattenedType(TensorType type, ScalarContext &scalars) {
  auto &shape = type.shape;
  if (shape.size() >= 2) {
    shape[1] = scalars.mul(shape[0], shape[1]);
    shape.erase(shape.begin());
  }
  return type;
}

Op *ProgramBuilder::insert(std::unique_ptr<Op> made, llvm::StringRef name) {
  Op *op = made.release();
  block_->insert(at_, op);
  Value *result = resultOf(*op);
  if (!result)
    return op;
  define(*result, name, op);
  if (const auto *select = llvm::dyn_cast<SelectOp>(op))
    result->type = selectedType(select->tensor->type);
  else if (const auto *slice = llvm::dyn_cast<SliceOp>(op))
    result->type = slicedType(slice->tensor->type, scalars().sub(slice->end, slice->begin));
  else if (const auto *flatten = llvm::dyn_cast<FlattenOp>(op))
    result->type = flattenedType(flatten->tensor->type, scalars());
  else if (auto *p2p = llvm::dyn_cast<P2POp>(op); p2p && p2p->gemm) {
    p2p->product.name = result->name;
    p2p->product.location = location_;
    p2p->tensor = p2p->gemm->dst = &p2p->product;
  }
  return op;
}

Value *ProgramBuilder::param(llvm::StringRef name, TensorType type) {
  Value *value = program_.params_.emplace_back(std::make_unique<Value>()).get();
  define(*value, name, nullptr);
  value->type = std::move(type);
  return value;
}

Value *ProgramBuilder::result(llvm::StringRef name, TensorType type) {
  Value *value = program_.results_.emplace_back(std::make_unique<Value>()).get();
  define(*value, name, nullptr);
  value->type = std::move(type);
  return value;
}

TensorType ProgramBuilder::tensorType(DType dtype, llvm::ArrayRef<int64_t> shape) {
  TensorType type{dtype, {}};
  for (int64_t extent : shape)
    type.shape.push_back(scalars().constant(extent));
  return type;
}

Value *ProgramBuilder::allocate(llvm::StringRef name, MemorySpace space, TensorType type) {
  auto op = make<AllocateOp>();
  op->space = space;
  op->result.type = std::move(type);
  return insertValue(std::move(op), name);
}

DeallocateOp *ProgramBuilder::deallocate(Value *buffer) {
  auto op = make<DeallocateOp>();
  op->buffer = buffer;
  return insertNode(std::move(op));
}

ForOp *ProgramBuilder::forLoop(llvm::StringRef indexName, const Scalar *begin, const Scalar *end) {
  auto op = make<ForOp>();
  // A loop index is visible only in its loop, so sibling loops may use the same index name.
  op->index = scalars().addLoopIndex(indexName);
  op->begin = begin;
  op->end = end;
  return insertNode(std::move(op));
}

IfOp *ProgramBuilder::ifOp(const Scalar *condition) {
  auto op = make<IfOp>();
  op->condition = condition;
  return insertNode(std::move(op));
}

Value *ProgramBuilder::select(llvm::StringRef name, Value *tensor, const Scalar *index) {
  auto op = make<SelectOp>();
  op->tensor = tensor;
  op->index = index;
  return insertValue(std::move(op), name);
}

Value *ProgramBuilder::slice(llvm::StringRef name, Value *tensor, const Scalar *begin,
                             const Scalar *end) {
  auto op = make<SliceOp>();
  op->tensor = tensor;
  op->begin = begin;
  op->end = end;
  return insertValue(std::move(op), name);
}

/// If `tensor` has fewer than two axes, the verifier reports the error.
Value *ProgramBuilder::flatten(llvm::StringRef name, Value *tensor) {
  auto op = make<FlattenOp>();
  op->tensor = tensor;
  return insertValue(std::move(op), name);
}

SetOp *ProgramBuilder::set(Value *dst, Value *src) {
  auto op = make<SetOp>();
  op->dst = dst;
  op->src = src;
  return insertNode(std::move(op));
}

MatmulOp *ProgramBuilder::matmul(Value *dst, Value *a, Value *b, Value *addend) {
  auto op = make<MatmulOp>();
  op->dst = dst;
  op->a = a;
  op->b = b;
  op->addend = addend;
  return insertNode(std::move(op));
}

MatmulOp *ProgramBuilder::linear(Value *dst, Value *a, Value *b, Value *bias, Value *addend) {
  MatmulOp *op = matmul(dst, a, b, addend);
  op->bias = bias;
  op->transposeB = true;
  return op;
}

SumOp *ProgramBuilder::sum(Value *dst, Value *parts, const Scalar *begin, const Scalar *end,
                           Value *bias) {
  auto op = make<SumOp>();
  op->dst = dst;
  op->parts = parts;
  op->begin = begin;
  op->end = end;
  op->bias = bias;
  return insertNode(std::move(op));
}

PointwiseOp *ProgramBuilder::pointwise(Value *dst, Value *first,
                                       llvm::ArrayRef<PointwiseStep<Value *>> steps) {
  auto op = make<PointwiseOp>();
  op->dst = dst;
  op->first = first;
  op->steps.assign(steps.begin(), steps.end());
  return insertNode(std::move(op));
}

Value *ProgramBuilder::shareMemHandles(llvm::StringRef name, Protocol protocol,
                                       llvm::ArrayRef<Value *> buffers) {
  auto op = make<ShareMemHandlesOp>();
  op->protocol = protocol;
  op->buffers.assign(buffers.begin(), buffers.end());
  return insertValue(std::move(op), name);
}

Value *ProgramBuilder::transfer(Direction direction, llvm::StringRef name, Value *tensor,
                                const Scalar *peer, Value *handles) {
  auto op = make<P2POp>();
  op->direction = direction;
  op->tensor = tensor;
  op->peer = peer;
  op->handles = handles;
  return insertValue(std::move(op), name);
}

Value *ProgramBuilder::send(llvm::StringRef name, Value *tensor, const Scalar *to, Value *handles) {
  return transfer(Direction::Send, name, tensor, to, handles);
}

Value *ProgramBuilder::send(llvm::StringRef name, MatmulOp &gemm, TensorType type, const Scalar *to,
                            Value *handles) {
  auto op = make<P2POp>();
  op->gemm.emplace(
      *std::unique_ptr<MatmulOp>(llvm::cast<MatmulOp>(block_->remove(gemm.getIterator()))));
  op->product.type = std::move(type);
  op->peer = to;
  op->handles = handles;
  return insertValue(std::move(op), name);
}

Value *ProgramBuilder::receive(llvm::StringRef name, Value *tensor, const Scalar *from,
                               Value *handles) {
  return transfer(Direction::Receive, name, tensor, from, handles);
}

GroupOp *ProgramBuilder::group() { return insertNode(make<GroupOp>()); }

Value *ProgramBuilder::collective(llvm::StringRef name, CollectiveKind kind,
                                  std::optional<ReductionOperator> reduction, Value *dst,
                                  Value *src, llvm::ArrayRef<const Scalar *> team,
                                  const Scalar *root) {
  auto op = make<CollectiveOp>();
  op->collective = kind;
  op->reduction = reduction;
  op->dst = dst;
  op->src = src;
  op->team.assign(team.begin(), team.end());
  op->root = root;
  return insertValue(std::move(op), name);
}

WaitOp *ProgramBuilder::wait(Value *request) {
  auto op = make<WaitOp>();
  op->request = request;
  return insertNode(std::move(op));
}

SynchronizeOp *ProgramBuilder::synchronize(StreamRef stream) {
  auto op = make<SynchronizeOp>();
  op->stream = stream;
  return insertNode(std::move(op));
}

Value *ProgramBuilder::getCurrentStream(llvm::StringRef name) {
  return insertValue(make<GetCurrentStreamOp>(), name);
}

SetCurrentStreamOp *ProgramBuilder::setCurrentStream(StreamRef stream) {
  auto op = make<SetCurrentStreamOp>();
  op->stream = stream;
  return insertNode(std::move(op));
}

//===- Cloning --------------------------------------------------------------------------------===//

template <class OpClass> static std::unique_ptr<Op> copyOf(const OpClass &op) {
  if constexpr (std::is_copy_constructible_v<OpClass>)
    return std::make_unique<OpClass>(op);
  llvm_unreachable("nodes with blocks are not cloned");
}

static std::unique_ptr<Op> copyOfAny(const Op &op) {
  switch (op.kind()) {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  case OpKind::Kind:                                                                               \
    return copyOf(*llvm::cast<Kind##Op>(&op));
#include "ir/program_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

Op *ProgramBuilder::clone(const Op &op, Mapping &mapping) {
  std::unique_ptr<Op> copy = copyOfAny(op);
  forEachOperand(*copy, [&](Value *&value) {
    if (Value *clone = mapping.values.lookup(value))
      value = clone;
  });
  forEachScalar(*copy, [&](const Scalar *&scalar) {
    for (const auto &[from, to] : mapping.scalars)
      scalar = scalars().substitute(scalar, from, to);
  });
  const Location saved = std::exchange(location_, op.location());
  const Value *result = resultOf(op);
  Op *made = insert(std::move(copy), result ? result->name : "");
  location_ = saved;
  if (result)
    mapping.values[result] = resultOf(*made);
  return made;
}

} // namespace braid
