//===- ir/builder.h - creates the nodes of a program ------------------------------------------===//
//
// The parser, lowering and C++ clients use ProgramBuilder to create nodes. The builder infers
// result types. It validates nothing, not even that names are unique, so that the parser can build
// invalid programs for the verifier to diagnose.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/program.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Inserts nodes at an insertion point, in order.
class ProgramBuilder {
public:
  /// Creates a builder whose insertion point is the end of the program's body.
  explicit ProgramBuilder(Program &program)
      : program_(program), block_(&program.body_), at_(program.body_.end()) {}

  Program &program() { return program_; }
  ScalarContext &scalars() { return program_.scalars(); }

  /// Set the insertion point for the next node.
  void insertAtEnd(Block &block) { setInsertionPoint(block, block.end()); }
  void insertBefore(Block &block, Op &before) { setInsertionPoint(block, before.getIterator()); }
  void insertAfter(Block &block, Op &after) { setInsertionPoint(block, ++after.getIterator()); }
  void setInsertionPoint(Block &block, Block::iterator at) {
    block_ = &block;
    at_ = at;
  }
  /// Sets the location of all nodes created from now on.
  void setLocation(Location location) { location_ = location; }

  Value *param(llvm::StringRef name, TensorType type);
  Value *result(llvm::StringRef name, TensorType type);
  TensorType tensorType(DType dtype, llvm::ArrayRef<int64_t> shape);

  /// Creates a node that is not in a block yet. insert() places the node at the insertion point,
  /// names its result, and infers the result type from the operands.
  template <class OpClass> std::unique_ptr<OpClass> make() {
    return std::unique_ptr<OpClass>(new OpClass(location_));
  }
  Op *insert(std::unique_ptr<Op> op, llvm::StringRef name = "");

  Value *allocate(llvm::StringRef name, MemorySpace space, TensorType type);
  DeallocateOp *deallocate(Value *buffer);
  /// Creates a loop with an empty body; call insertAtEnd(loop->body) to fill it.
  ForOp *forLoop(llvm::StringRef indexName, const Scalar *begin, const Scalar *end);
  IfOp *ifOp(const Scalar *condition);
  Value *select(llvm::StringRef name, Value *tensor, const Scalar *index);
  Value *slice(llvm::StringRef name, Value *tensor, const Scalar *begin, const Scalar *end);
  Value *flatten(llvm::StringRef name, Value *tensor);
  SetOp *set(Value *dst, Value *src);
  MatmulOp *matmul(Value *dst, Value *a, Value *b, Value *addend = nullptr);
  /// Creates a matmul with `b` transposed.
  MatmulOp *linear(Value *dst, Value *a, Value *b, Value *bias = nullptr, Value *addend = nullptr);
  /// Creates a sum of all `parts`, or of only entries [begin, end) of each part's leading axis.
  SumOp *sum(Value *dst, Value *parts, const Scalar *begin = nullptr, const Scalar *end = nullptr,
             Value *bias = nullptr);
  PointwiseOp *pointwise(Value *dst, Value *first,
                         llvm::ArrayRef<PointwiseStep<Value *>> steps = {});
  Value *shareMemHandles(llvm::StringRef name, Protocol protocol, llvm::ArrayRef<Value *> buffers);
  Value *send(llvm::StringRef name, Value *tensor, const Scalar *to, Value *handles);
  /// Creates a send that stores the result of `gemm`, with type `type`, directly in the receiver's
  /// memory. Removes `gemm` from its block and ignores its original destination.
  Value *send(llvm::StringRef name, MatmulOp &gemm, TensorType type, const Scalar *to,
              Value *handles);
  Value *receive(llvm::StringRef name, Value *tensor, const Scalar *from, Value *handles);
  GroupOp *group();
  Value *collective(llvm::StringRef name, CollectiveKind kind,
                    std::optional<ReductionOperator> reduction, Value *dst, Value *src,
                    llvm::ArrayRef<const Scalar *> team = {}, const Scalar *root = nullptr);
  WaitOp *wait(Value *request);
  SynchronizeOp *synchronize(StreamRef stream);
  Value *getCurrentStream(llvm::StringRef name);
  SetCurrentStreamOp *setCurrentStream(StreamRef stream);

  /// Clones `op`, which must not have blocks, at the insertion point. Replaces the operands that
  /// are keys of `values`, and the leaves listed in `scalars`. Adds the clone's result to `values`,
  /// so that later clones use the clone instead of the original value.
  struct Mapping {
    llvm::DenseMap<const Value *, Value *> values;
    std::vector<std::pair<const Scalar *, const Scalar *>> scalars;
  };
  Op *clone(const Op &op, Mapping &mapping);

private:
  template <class OpClass> OpClass *insertNode(std::unique_ptr<OpClass> op) {
    return llvm::cast<OpClass>(insert(std::move(op)));
  }
  Value *insertValue(std::unique_ptr<Op> op, llvm::StringRef name) {
    return resultOf(*insert(std::move(op), name));
  }
  void define(Value &value, llvm::StringRef name, Op *definition);
  Value *transfer(Direction direction, llvm::StringRef name, Value *tensor, const Scalar *peer,
                  Value *handles);

  Program &program_;
  Block *block_;
  Block::iterator at_;
  Location location_;
};

} // namespace braid
