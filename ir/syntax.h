//===- ir/syntax.h - the parts of each program node, in source order --------------------------===//
//
// `syntax(io, node)` calls a method of `io` for each part of a node after the keyword. The parser,
// the printer, the JSON writer and the walks over operands and scalars each implement an `io`, so
// that only this file defines the syntax of a node. Blocks are not parts; use forEachBlock().
// Private to ir/.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/program.h"

#include "llvm/Support/ErrorHandling.h"

namespace braid {

/// An `io` that ignores every part. Derived classes redefine the functions that they need.
struct IgnoreParts {
  /// A separator, including the spaces that the printer puts around it. If other tokens are also
  /// allowed here, the second argument lists all allowed tokens for error messages.
  void text(llvm::StringRef, llvm::StringRef = "") {}
  /// A separator before an optional part. Returns true if the part is present.
  bool optional(llvm::StringRef, bool isThere, bool = true) { return isThere; }
  /// An enumerator, written as its name. The third argument is the last enumerator of the type.
  template <class Enum> void choice(llvm::StringRef, Enum &, Enum, llvm::StringRef) {}
  void reduction(std::optional<ReductionOperator> &) {}
  void value(llvm::StringRef, Value *&) {}
  void scalar(llvm::StringRef, const Scalar *&) {}
  /// One or more values or scalars, separated by commas.
  template <class List> void list(llvm::StringRef, List &) {}
  void loopIndex(const Scalar *&) {}
  void condition(const Scalar *&) {}
  void stream(StreamRef &) {}
  /// The type of the result, with constant extents.
  void type(TensorType &) {}
  /// The first operand and the functions of a `pointwise` node.
  void chain(PointwiseOp &) {}
  /// The payload of a `p2p`: a tensor, or the result of a GEMM.
  void payload(P2POp &) {}
};

template <class Io> void syntax(Io &io, AllocateOp &op) {
  io.choice("space", op.space, MemorySpace::Device, "'symmetric' or 'device'");
  io.text(" ");
  io.type(op.result.type);
}

template <class Io> void syntax(Io &io, DeallocateOp &op) { io.value("buffer", op.buffer); }

template <class Io> void syntax(Io &io, ForOp &op) {
  io.loopIndex(op.index);
  io.text(" in ");
  io.scalar("begin", op.begin);
  io.text(" .. ");
  io.scalar("end", op.end);
}

template <class Io> void syntax(Io &io, IfOp &op) { io.condition(op.condition); }

template <class Io> void syntax(Io &io, SelectOp &op) {
  io.value("tensor", op.tensor);
  io.text("[");
  io.scalar("index", op.index);
  io.text("]");
}

template <class Io> void syntax(Io &io, SliceOp &op) {
  io.value("tensor", op.tensor);
  io.text("[");
  io.scalar("begin", op.begin);
  io.text(" .. ");
  io.scalar("end", op.end);
  io.text("]");
}

template <class Io> void syntax(Io &io, FlattenOp &op) { io.value("tensor", op.tensor); }

template <class Io> void syntax(Io &io, SetOp &op) {
  io.value("dst", op.dst);
  io.text(", ");
  io.value("src", op.src);
}

template <class Io> void syntax(Io &io, MatmulOp &op) {
  io.value("dst", op.dst);
  io.text(", ");
  io.value("a", op.a);
  io.text(", ");
  io.value("b", op.b);
  if (io.optional(", ", op.bias, op.transposeB))
    io.value("bias", op.bias);
  if (io.optional(" add ", op.addend))
    io.value("addend", op.addend);
}

template <class Io> void syntax(Io &io, SumOp &op) {
  io.value("dst", op.dst);
  io.text(", ");
  io.value("parts", op.parts);
  if (io.optional("[", op.begin)) {
    io.scalar("begin", op.begin);
    io.text(" .. ");
    io.scalar("end", op.end);
    io.text("]");
  }
  if (io.optional(", ", op.bias))
    io.value("bias", op.bias);
}

template <class Io> void syntax(Io &io, PointwiseOp &op) {
  io.value("dst", op.dst);
  io.text(", ");
  io.chain(op);
}

template <class Io> void syntax(Io &io, ShareMemHandlesOp &op) {
  io.choice("protocol", op.protocol, Protocol::Put, "'get' or 'put'");
  io.text(" ");
  io.list("buffers", op.buffers);
}

template <class Io> void syntax(Io &io, P2POp &op) {
  io.choice("direction", op.direction, Direction::Receive, "'send' or 'recv'");
  io.text(" ");
  io.payload(op);
  io.text(op.direction == Direction::Send ? " to " : " from ");
  io.scalar("peer", op.peer);
  io.text(" via ");
  io.value("handles", op.handles);
}

template <class Io> void syntax(Io &, GroupOp &) {}

template <class Io> void syntax(Io &io, CollectiveOp &op) {
  io.choice("collective", op.collective, static_cast<CollectiveKind>(allCollectives().size() - 1),
            "a collective (" + collectiveNames() + ")");
  io.text(" ");
  io.reduction(op.reduction);
  io.value("dst", op.dst);
  io.text(", ");
  io.value("src", op.src);
  if (io.optional(" team ", !op.team.empty())) {
    io.text("[");
    io.list("team", op.team);
    io.text("]", "',' or ']'");
  }
  if (io.optional(" root ", op.root))
    io.scalar("root", op.root);
}

template <class Io> void syntax(Io &io, WaitOp &op) { io.value("request", op.request); }

template <class Io> void syntax(Io &io, SynchronizeOp &op) { io.stream(op.stream); }

template <class Io> void syntax(Io &, GetCurrentStreamOp &) {}

template <class Io> void syntax(Io &io, SetCurrentStreamOp &op) { io.stream(op.stream); }

/// Calls syntax() for the dynamic kind of `op`.
template <class Io> void forEachPart(Io &&io, Op &op) {
  switch (op.kind()) {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  case OpKind::Kind:                                                                               \
    return syntax(io, *llvm::cast<Kind##Op>(&op));
#include "ir/program_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

/// Overload for an `io` that only reads the parts.
template <class Io> void forEachPart(Io &&io, const Op &op) {
  forEachPart(io, const_cast<Op &>(op));
}

} // namespace braid
