//===- ir/program.h - the host program that every rank executes -------------------------------===//
//
// All ranks of a mesh [0 .. ranks) execute the same Program. The ranks are on one host, or on
// several hosts, each with the same number of consecutive ranks. Executing a node issues work to
// the rank's current stream without blocking the host; only stream order, `synchronize` and `wait`
// order the work. Buffers, streams, requests and handles are named values, so that ordering can be
// verified and the text contains no addresses. The comment on each class below describes the node's
// semantics and syntax; the grammar is in ir/README.md.
//
// Only ProgramBuilder (ir/builder.h) creates nodes. Each node is owned by the Block that contains
// it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"
#include "ir/pointwise.h"
#include "ir/type.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/ilist.h"
#include "llvm/ADT/ilist_node.h"
#include "llvm/Support/Casting.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// Maximum numbers of ranks and streams in a program; every backend supports them. `stream(k)`
/// requires 0 <= k < kMaxStreams.
inline constexpr int64_t kMaxRanks = 4096;
inline constexpr int64_t kMaxStreams = 1024;

class Op;
class ProgramBuilder;

enum class OpKind : uint8_t {
#define BRAID_OP(Kind, keyword, results, summary) Kind,
#include "ir/program_kinds.def"
};

enum class ValueKind : uint8_t { Tensor, Stream, Request, Handles };
llvm::StringRef name(ValueKind kind);

/// A named value, defined exactly once. Nodes that use the value store pointers to it, which remain
/// valid until the node that defines the value is destroyed.
struct Value {
  ValueKind kind = ValueKind::Tensor;
  std::string name = {}; ///< without `%`; unique among the names visible at its definition
  Location location = {};
  TensorType type = {};     ///< only for tensors
  Op *definition = nullptr; ///< null for program parameters and results
};

/// A stream in a program: a named stream, or `stream(index)`, a stream in the rank's pool.
struct StreamRef {
  Value *named = nullptr;
  const Scalar *index = nullptr;
  bool operator==(const StreamRef &) const = default;
};

/// Base class of all nodes. The hierarchy is closed: use `kind()`, llvm::isa, cast and dyn_cast.
class Op : public llvm::ilist_node<Op> {
public:
  virtual ~Op() = default;
  OpKind kind() const { return kind_; }
  Location location() const { return location_; }

protected:
  Op(OpKind kind, Location location) : kind_(kind), location_(location) {}

private:
  OpKind kind_;
  Location location_;
};

/// An ordered list that owns its nodes. Moving a node between blocks does not change its address.
using Block = llvm::iplist<Op>;

/// Provides `classof` and the constructor for one kind of node.
template <OpKind K> class OpOf : public Op {
public:
  static bool classof(const Op *op) { return op->kind() == K; }
  explicit OpOf(Location location) : Op(K, location) {}
};

enum class MemorySpace : uint8_t {
  Symmetric, ///< one buffer per rank, which peers can access through handles
  Device,    ///< private to the rank
};
llvm::StringRef name(MemorySpace space);

/// `%buf = allocate symmetric bf16[8, 128, 1024]`. The initial contents are undefined. The node
/// only starts the buffer's lifetime; the Plan places all buffers in arenas before the first run.
struct AllocateOp : OpOf<OpKind::Allocate> {
  using OpOf::OpOf;
  MemorySpace space = MemorySpace::Device;
  Value result;
};

/// `deallocate %buf`. `buf` must be the result of an `allocate`. Neither `buf` nor any alias of it
/// may be used afterwards.
struct DeallocateOp : OpOf<OpKind::Deallocate> {
  using OpOf::OpOf;
  Value *buffer = nullptr;
};

/// `for %i in a .. b { ... }`. Executes iterations a, a+1, ..., b-1, or none if b <= a. The bounds
/// must not depend on `rank`. Values defined inside the loop are not visible outside.
struct ForOp : OpOf<OpKind::For> {
  using OpOf::OpOf;
  const Scalar *index = nullptr; ///< a LoopIndex leaf of the program's context
  const Scalar *begin = nullptr;
  const Scalar *end = nullptr;
  Block body;
};

/// `if %i != 0 { ... } else { ... }`. The condition is a comparison.
struct IfOp : OpOf<OpKind::If> {
  using OpOf::OpOf;
  const Scalar *condition = nullptr;
  Block thenBlock;
  Block elseBlock; ///< may be empty
};

/// `%x = select %t[i]`: entry i of t's leading axis, with that axis removed. An alias, not a copy.
struct SelectOp : OpOf<OpKind::Select> {
  using OpOf::OpOf;
  Value *tensor = nullptr;
  const Scalar *index = nullptr;
  Value result;
};

/// `%x = slice %t[a .. b]`: entries a, ..., b-1 of the leading axis, which is kept. An alias, not a
/// copy. Slices may differ in size. The verifier rejects an empty range if both bounds are
/// constants or the same scalar; a range that depends on `rank` or a loop index may be empty.
struct SliceOp : OpOf<OpKind::Slice> {
  using OpOf::OpOf;
  Value *tensor = nullptr;
  const Scalar *begin = nullptr;
  const Scalar *end = nullptr;
  Value result;
};

/// `%x = flatten %t`: t with its two leading axes merged, in order. An alias, not a copy. A slice
/// of the result may begin and end in the middle of t's entries.
struct FlattenOp : OpOf<OpKind::Flatten> {
  using OpOf::OpOf;
  Value *tensor = nullptr;
  Value result;
};

/// `set %dst, %src`: copies src to dst. Both tensors have the same type, and they must not overlap.
struct SetOp : OpOf<OpKind::Set> {
  using OpOf::OpOf;
  Value *dst = nullptr;
  Value *src = nullptr;
};

/// `matmul %dst, %a, %b [add %addend]`: dst = a·b + addend, contracting a's last c axes with b's
/// first c axes; c is 1 or 2 (contractedAxes). dst has a's remaining axes, then b's. dst must not
/// overlap an operand, except that it may be the addend. dst has the element type of a and b, or a
/// partial type (isPartialType). The addend has dst's type. It is added before the result is
/// rounded; but if it is dst itself, the product may also be rounded first.
///
/// `linear %dst, %a, %b [, %bias | add %addend]`: a matmul with b transposed, which contracts the
/// last c axes of both a and b. The bias has b's remaining axes.
struct MatmulOp : OpOf<OpKind::Matmul> {
  using OpOf::OpOf;
  Value *dst = nullptr;
  Value *a = nullptr;
  Value *b = nullptr;
  Value *bias = nullptr;   ///< may be null; always null unless transposeB
  Value *addend = nullptr; ///< may be null; always null with a bias
  bool transposeB = false; ///< written as `linear`
};

/// `sum %dst, %parts[a .. b][, %bias]`: dst = parts[0] + parts[1] + ... + bias, added in this order
/// in f32 (f64 for f64) and rounded once. A range selects entries a, ..., b-1 of each part's
/// leading axis. parts has dst's axes after one additional leading axis; bias has dst's last axes.
/// All operands have the same element type, except that dst, parts or both may be f32 if the others
/// are 16-bit. dst is not read.
struct SumOp : OpOf<OpKind::Sum> {
  using OpOf::OpOf;
  Value *dst = nullptr;
  Value *parts = nullptr;
  const Scalar *begin = nullptr; ///< first entry of the range; null for all entries
  const Scalar *end = nullptr;
  Value *bias = nullptr; ///< may be null

  /// Returns the element type of the bias: the 16-bit type if any operand has one, else dst's.
  DType elementType() const;
};

/// `pointwise %dst, multiply(silu(%x), %y)`: applies a chain of functions to each element of the
/// first operand, computed in f32 (f64 for f64) and rounded once. All operands have the same shape
/// and element type, except that some may be f32 if the others are 16-bit. An empty chain only
/// copies and rounds. dst is not read.
struct PointwiseOp : OpOf<OpKind::Pointwise> {
  using OpOf::OpOf;
  Value *dst = nullptr;
  Value *first = nullptr;
  std::vector<PointwiseStep<Value *>> steps;
};

enum class Protocol : uint8_t {
  Get, ///< the receiver copies the data once the sender signals that the source may be read
  Put, ///< the sender copies the data once the receiver signals that the destination is free
};
llvm::StringRef name(Protocol protocol);

/// `%h = share_mem_handles get %a, %b`: lets peers access the symmetric buffers a and b with the
/// given protocol. All ranks execute this collective operation once, before the first run.
struct ShareMemHandlesOp : OpOf<OpKind::ShareMemHandles> {
  using OpOf::OpOf;
  Protocol protocol = Protocol::Get;
  llvm::SmallVector<Value *, 2> buffers;
  Value result = {.kind = ValueKind::Handles};
};

enum class Direction : uint8_t { Send, Receive };
llvm::StringRef name(Direction direction);

/// `%s = p2p send %x to p via %h`, `%r = p2p recv %x from p via %h`. The n-th send from p to q via
/// h, in program order, matches the n-th receive on q from p via h; both must have the same size
/// and element type.
///
/// Under the `get` protocol, the send signals, in stream order, that the source may be read; the
/// receive waits for the signal, copies the data, and signals the sender. Under the `put` protocol,
/// the receive signals that its destination may be written; the send waits for the signal, copies
/// the data, and signals the receiver. Each side uses its rank's current stream. The tensor that
/// the peer accesses (source for get, destination for put) must be in a buffer shared through `h`.
///
/// `%s = p2p send matmul %a, %b : f32[128, 1024] to p via %h`, allowed only with put, stores the
/// matmul's result directly in the receiver's memory, once the destination may be written. An
/// addend is written `add %c` after b. After a wait for the request, a, b and c may be overwritten.
struct P2POp : OpOf<OpKind::P2P> {
  using OpOf::OpOf;
  Direction direction = Direction::Send;
  Value *tensor = nullptr; ///< `product` if there is a `gemm`
  const Scalar *peer = nullptr;
  Value *handles = nullptr;
  Value result = {.kind = ValueKind::Request};
  /// The GEMM whose result is sent, if any. It has no bias and is not in any block.
  std::optional<MatmulOp> gemm = {};
  Value product; ///< the result of `gemm`; no other node can use it
  Protocol protocol() const { return llvm::cast<ShareMemHandlesOp>(handles->definition)->protocol; }
};

/// `group { ... }`: contains only p2p nodes, which are posted together, so their order does not
/// matter. Their requests are visible after the group.
struct GroupOp : OpOf<OpKind::Group> {
  using OpOf::OpOf;
  Block body;
};

enum class CollectiveKind : uint8_t {
#define BRAID_COLLECTIVE(Kind, ...) Kind,
#include "ir/collective_kinds.def"
};

/// A row of collective_kinds.def.
struct CollectiveRow {
  enum class Root : uint8_t { None, Sends, Receives };
  enum class Blocks : uint8_t { One, All };
  llvm::StringLiteral keyword;
  Root root;
  bool adds;
  Blocks src, dst;

  bool splitsSrc() const { return src == Blocks::All; }
  bool splitsDst() const { return dst == Blocks::All; }
};
/// Returns all rows, indexed by CollectiveKind.
llvm::ArrayRef<CollectiveRow> allCollectives();
inline const CollectiveRow &rowOf(CollectiveKind kind) {
  return allCollectives()[static_cast<size_t>(kind)];
}
inline llvm::StringRef name(CollectiveKind kind) { return rowOf(kind).keyword; }
/// Returns "allgather, reduce_scatter, ... or alltoall".
std::string collectiveNames();

enum class ReductionOperator : uint8_t { Sum, Product, Min, Max };
llvm::StringRef name(ReductionOperator op);

/// `%c = collective reduce_scatter sum %dst, %src team [0, 2] root 0`. Only reduce_scatter,
/// allreduce and reduce have an operator, and only broadcast and reduce have a root. The default
/// team is the whole mesh. All ranks of a team must issue the same collectives in the same order.
struct CollectiveOp : OpOf<OpKind::Collective> {
  using OpOf::OpOf;
  CollectiveKind collective = CollectiveKind::AllGather;
  std::optional<ReductionOperator> reduction;
  Value *dst = nullptr;
  Value *src = nullptr;
  llvm::SmallVector<const Scalar *, 4> team; ///< empty for the whole mesh
  const Scalar *root = nullptr;              ///< may be null
  Value result = {.kind = ValueKind::Request};
};

/// `wait %r`: makes the current stream wait until the request has completed; the request may have
/// been posted on another stream. Later work on the current stream can read the received data, or
/// overwrite the sent data. Every request must be waited for exactly once.
struct WaitOp : OpOf<OpKind::Wait> {
  using OpOf::OpOf;
  Value *request = nullptr;
};

/// `synchronize s`: the current stream, not the host, waits for all work issued to `s` so far.
struct SynchronizeOp : OpOf<OpKind::Synchronize> {
  using OpOf::OpOf;
  StreamRef stream;
};

/// `%main = get_current_stream`. At the start of a run, the current stream is the caller's.
struct GetCurrentStreamOp : OpOf<OpKind::GetCurrentStream> {
  using OpOf::OpOf;
  Value result = {.kind = ValueKind::Stream};
};

/// `set_current_stream s`: later nodes use s, even past the end of the enclosing loop or branch.
struct SetCurrentStreamOp : OpOf<OpKind::SetCurrentStream> {
  using OpOf::OpOf;
  StreamRef stream;
};

/// Returns `linear` for a matmul with transposeB, otherwise the keyword of the node's kind.
llvm::StringRef keyword(const Op &op);

/// Returns the value that `op` defines, or null.
Value *resultOf(Op &op);
const Value *resultOf(const Op &op);

/// Calls `fn` for every value that `op` itself uses, in source order; `fn` may replace the value.
/// Does not visit nodes nested in the blocks of `op`.
void forEachOperand(Op &op, llvm::function_ref<void(Value *&)> fn);
void forEachOperand(const Op &op, llvm::function_ref<void(const Value *)> fn);

/// Calls `fn` for every scalar of `op`: indices, bounds, peers, stream numbers, conditions.
void forEachScalar(Op &op, llvm::function_ref<void(const Scalar *&)> fn);
/// Calls `fn` for every block directly inside `op`.
void forEachBlock(Op &op, llvm::function_ref<void(Block &)> fn);
void forEachBlock(const Op &op, llvm::function_ref<void(const Block &)> fn);
/// Visits every node in a block and its nested blocks, in source order, enclosing nodes first.
void walk(Block &block, llvm::function_ref<void(Op &)> fn);
void walk(const Block &block, llvm::function_ref<void(const Op &)> fn);

/// Returns the buffer, parameter or result that `tensor` aliases, by following `select`, `slice`
/// and `flatten` nodes.
const Value *rootOf(const Value *tensor);

/// Return the result type of a `select` or `slice`. A type without axes is returned unchanged.
TensorType selectedType(const TensorType &type);
TensorType slicedType(const TensorType &type, const Scalar *extent);

/// See the file comment.
class Program {
public:
  /// `ranks`, at least 1, is the mesh size. `implements` is the name of the fusion that the program
  /// implements, or empty. Each host has `ranksPerHost` ranks; by default, there is one host.
  Program(std::string name, std::string implements, int64_t ranks, Location location = {},
          std::optional<int64_t> ranksPerHost = std::nullopt)
      : name_(std::move(name)), implements_(std::move(implements)), ranks_(ranks),
        ranksPerHost_(ranksPerHost.value_or(ranks)), location_(location) {
    scalars_.setRanks(ranks);
  }

  const std::string &name() const { return name_; }
  const std::string &implements() const { return implements_; }
  int64_t ranks() const { return ranks_; }
  /// Rank r is on host r / ranksPerHost(). The verifier checks that ranks() is a multiple of it.
  int64_t ranksPerHost() const { return ranksPerHost_; }
  Location location() const { return location_; }
  ScalarContext &scalars() { return scalars_; }
  const ScalarContext &scalars() const { return scalars_; }

  /// Tensors that the caller writes before a run or reads after it, with constant local shapes.
  llvm::ArrayRef<std::unique_ptr<Value>> params() const { return params_; }
  llvm::ArrayRef<std::unique_ptr<Value>> results() const { return results_; }
  Block &body() { return body_; }
  const Block &body() const { return body_; }

private:
  friend class ProgramBuilder;
  std::string name_;
  std::string implements_;
  int64_t ranks_;
  int64_t ranksPerHost_;
  Location location_;
  ScalarContext scalars_;
  std::vector<std::unique_ptr<Value>> params_;
  std::vector<std::unique_ptr<Value>> results_;
  Block body_;
};

} // namespace braid
