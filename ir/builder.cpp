//===- ir/builder.cpp - creates the nodes of a program ----------------------------------------===//

#include "ir/builder.h"

#include "ir/visitor.h"

namespace braid {

ProgramBuilder::ProgramBuilder(Program &program, NamePolicy policy)
    : program_(program), policy_(policy), block_(&program.body_), at_(program.body_.end()) {
  if (policy == NamePolicy::AsWritten)
    return;
  for (const auto &list : {&program.params_, &program.results_})
    for (const auto &value : *list)
      names_.insert(value->name);
  walk(program.body_, [&](Op &op) {
    if (const Value *value = resultOf(op))
      names_.insert(value->name);
    if (const auto *loop = llvm::dyn_cast<ForOp>(&op))
      names_.insert(loop->index->name());
  });
}

std::string ProgramBuilder::uniqueName(llvm::StringRef wanted) {
  if (policy_ == NamePolicy::AsWritten || names_.insert(wanted).second)
    return wanted.str();
  for (int suffix = 2;; ++suffix) {
    std::string candidate = wanted.str() + "_" + std::to_string(suffix);
    if (names_.insert(candidate).second)
      return candidate;
  }
}

void ProgramBuilder::define(Value &value, llvm::StringRef name, Op *definition) {
  value.name = uniqueName(name);
  value.location = location_;
  value.definition = definition;
}

/// Returns a tensor with fewer than two axes unchanged; the verifier reports the error.
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
  // Loop indices are scoped to their loop, so sibling loops may share a name; no uniquing needed.
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
  block_->remove(gemm.getIterator());
  op->gemm.reset(&gemm);
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

/// Clones one node at the builder's insertion point.
class ProgramBuilder::Cloner : public OpVisitor<Cloner, Op *> {
public:
  Cloner(ProgramBuilder &builder, Mapping &mapping) : b_(builder), mapping_(mapping) {}

#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  Op *visit##Kind(const Kind##Op &op) { return copy(op); }
#include "ir/program_kinds.def"

private:
  template <class OpClass> OpClass *copy(const OpClass &op) {
    auto *made = new OpClass(op);
    b_.block_->insert(b_.at_, made);
    forEachOperand(*made, [&](Value *&value) { value = map(value); });
    forEachScalar(*made, [&](const Scalar *&scalar) { scalar = map(scalar); });
    if (Value *result = resultOf(*made)) {
      b_.define(*result, result->name, made);
      for (const Scalar *&extent : result->type.shape)
        extent = map(extent);
      mapping_.values[resultOf(op)] = result;
    }
    return made;
  }
  Op *copy(const ForOp &op) {
    ForOp *made = b_.forLoop(op.index->name(), map(op.begin), map(op.end));
    mapping_.scalars.emplace_back(op.index, made->index);
    cloneBlock(op.body, made->body);
    return made;
  }
  Op *copy(const IfOp &op) {
    IfOp *made = b_.ifOp(map(op.condition));
    cloneBlock(op.thenBlock, made->thenBlock);
    cloneBlock(op.elseBlock, made->elseBlock);
    return made;
  }
  Op *copy(const GroupOp &op) {
    GroupOp *made = b_.group();
    cloneBlock(op.body, made->body);
    return made;
  }
  Op *copy(const P2POp &op) {
    Value *request = nullptr;
    if (op.gemm) {
      TensorType type = op.product.type;
      for (const Scalar *&extent : type.shape)
        extent = map(extent);
      request = b_.send(op.result.name, *copy(*op.gemm), type, map(op.peer), map(op.handles));
    } else {
      request =
          b_.transfer(op.direction, op.result.name, map(op.tensor), map(op.peer), map(op.handles));
    }
    mapping_.values[&op.result] = request;
    return request->definition;
  }

  Value *map(Value *value) {
    auto found = mapping_.values.find(value);
    return found == mapping_.values.end() ? value : found->second;
  }
  const Scalar *map(const Scalar *scalar) {
    for (const auto &[from, to] : mapping_.scalars)
      scalar = b_.scalars().substitute(scalar, from, to);
    return scalar;
  }
  void cloneBlock(const Block &from, Block &to) {
    Block *block = b_.block_;
    Block::iterator at = b_.at_;
    b_.insertAtEnd(to);
    for (const Op &op : from)
      b_.clone(op, mapping_);
    b_.setInsertionPoint(*block, at);
  }

  ProgramBuilder &b_;
  Mapping &mapping_;
};

Op *ProgramBuilder::clone(const Op &op, Mapping &mapping) {
  Location saved = location_;
  location_ = op.location();
  Op *copy = Cloner(*this, mapping).visit(op);
  location_ = saved;
  return copy;
}

} // namespace braid
