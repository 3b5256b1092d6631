//===- ir/fusion.h - a computation, and the placement of its tensors --------------------------===//
//
// A Fusion is a short list of tensor operations over a one-dimensional device mesh. Axis kinds
// define where each tensor is placed; comparing a result's axes with those of its operands shows
// which data must move. Lowering decides how to move the data.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"
#include "ir/pointwise.h"
#include "ir/type.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace braid {

enum class FusionOpKind : uint8_t {
#define BRAID_FUSION_OP(Kind, keyword, summary) Kind,
#include "ir/fusion_kinds.def"
};

llvm::StringRef keyword(FusionOpKind kind);

struct FusionNode;

/// A tensor in a fusion, defined by exactly one node. Output nodes define no tensor.
struct FusionTensor {
  std::string name; ///< without `%`
  Location location;
  FusionType type;
  FusionNode *definition = nullptr;
};

/// One statement of a fusion; `kind` determines which fields are used.
///
/// `%A = input bf16[DIDx{D}, M/D, K]`
///
/// `%C = matmul %A, %B [partial f32] : bf16[Stream{D}, M/D, N]`. The result has all axes of A
/// except the last c, followed by all axes of B except the first c, where c is Contraction::count.
/// `partial` specifies the element type in which partial results, if any, are sent.
///
/// `%C = linear %A, %B[, %bias] [partial f32] : ...` contracts the last c axes of B instead of the
/// first. The bias has B's remaining axes.
///
/// `%C = matmul %A1, %B1, %A2, %B2, ... : ...`, and likewise `linear`, is the sum of the products
/// of all pairs, plus the bias. All pairs have equal axes, except that contracted extents may
/// differ.
///
/// `%G = gelu_tanh %H : T`, `%G = multiply %S, %V : T`. If an operand is computed in the fusion,
/// the node reads its value before the value is rounded to the operand's element type.
///
/// `%X = reshard %A : T`. X contains the same data as A, but has different axis kinds.
///
/// `output %C, %E`
struct FusionNode {
  FusionOpKind kind;
  Location location;
  llvm::SmallVector<FusionTensor *, 3> operands = {};   ///< in source order
  FusionTensor result = {};                             ///< see resultOf()
  PointwiseFunction function = PointwiseFunction::Relu; ///< pointwise nodes only
  bool transposeB = false;                              ///< true for a `linear`
  std::optional<DType> partial = {}; ///< the type after the keyword `partial`, if present

  /// Return the operands of a matmul; a() is also a reshard's operand. bias() may return null.
  size_t pairs() const { return operands.size() / 2; }
  FusionTensor *a(size_t pair = 0) const { return operands[2 * pair]; }
  FusionTensor *b(size_t pair = 0) const { return operands[2 * pair + 1]; }
  FusionTensor *bias() const {
    return operands.size() > 2 && operands.size() % 2 == 1 ? operands.back() : nullptr;
  }
};

/// Returns the tensor that `node` defines, or null for an output.
inline const FusionTensor *resultOf(const FusionNode &node) {
  return node.kind == FusionOpKind::Output ? nullptr : &node.result;
}

/// Returns the keyword that introduces `node` in the text: the function's name for a pointwise
/// node, `linear` for a matmul with transposeB, otherwise keyword(node.kind).
llvm::StringRef keyword(const FusionNode &node);
inline bool isGemm(const FusionNode &node) { return node.kind == FusionOpKind::Matmul; }
/// True for a pointwise node or a reshard: each result element depends on exactly one element of
/// each operand.
bool isElementwise(const FusionNode &node);
/// Returns the type in which partial results are sent: `partial` or, by default, the result's type.
DType partialType(const FusionNode &gemm);

/// The axes that a matmul or linear contracts: `count` axes of A from axis `first` on, and of B
/// from axis `second` on, the same for every pair of operands. If `count` is 2, the outer
/// contracted axes have one entry per device.
struct Contraction {
  size_t first, second, count;
};
Contraction contractionOf(const FusionNode &gemm);
/// True if a DIDx axis is contracted, so that each device computes only a partial result. This is
/// the same for every pair of operands.
bool isContractedOverDevices(const FusionNode &gemm, size_t pair = 0);

/// Describes `total` rows that do not divide evenly among `blocks` blocks. Axis `axis`, of extent
/// `rows` = ceil(total, blocks), follows the axis of blocks. Only the first `total` rows, counted
/// block by block, contain data; the remaining rows are padding, which no operation accesses.
struct UnevenRows {
  size_t axis;
  int64_t blocks, rows, total;

  /// Returns the number of rows in `block` that are not padding. This is 0 for empty trailing
  /// blocks.
  int64_t rowsOf(int64_t block) const { return std::clamp<int64_t>(total - block * rows, 0, rows); }
};

/// An integer parameter such as `M = 1024`.
struct FusionParameter {
  std::string name;
  int64_t value;
  const Scalar *scalar; ///< the parameter's leaf in the fusion's ScalarContext
  Location location;
};

/// A computation; see the file comment. Owns its nodes in source order.
class Fusion {
public:
  explicit Fusion(std::string name, Location location = {})
      : name_(std::move(name)), location_(location) {}

  const std::string &name() const { return name_; }
  Location location() const { return location_; }
  ScalarContext &scalars() { return scalars_; }

  llvm::ArrayRef<FusionParameter> parameters() const { return parameters_; }
  const FusionParameter *findParameter(llvm::StringRef name) const;
  /// Overrides the default value of parameter `name`. Returns false if no such parameter exists.
  bool setParameter(llvm::StringRef name, int64_t value);

  /// The mesh size D in `mesh [0 .. D)`; null until setMesh() is called.
  const Scalar *mesh() const { return mesh_; }
  Location meshLocation() const { return meshLocation_; }
  /// The number of ranks per host, L in `mesh [0 .. D) of L`; null if all ranks are on one host.
  const Scalar *hostSize() const { return hostSize_; }
  /// The parameter that specifies the mesh size, or null if mesh() is any other expression.
  const FusionParameter *meshParameter() const;

  llvm::ArrayRef<std::unique_ptr<FusionNode>> nodes() const { return nodes_; }
  std::vector<const FusionTensor *> inputs() const;
  std::vector<const FusionTensor *> outputs() const;
  /// Returns the nodes, including inputs, whose results no output depends on.
  std::vector<const FusionNode *> unusedNodes() const;
  /// Removes all unused nodes except inputs, which are part of the signature.
  void dropUnused();

  /// Evaluates `extent` with the current parameter values; every `/` must be exact.
  ScalarValue valueOf(const Scalar *extent) const;
  /// Returns the global extents of a tensor of type `type`. Requires a verified fusion.
  Shape globalShape(const FusionType &type) const;
  /// Returns the extents on one device, where DIDx axes have extent 1. Requires a verified fusion.
  Shape localShape(const FusionType &type) const;
  /// Describes the padding of `type`, or returns nullopt if it has none. Requires a verified
  /// fusion.
  std::optional<UnevenRows> unevenRows(const FusionType &type) const;
  /// Returns the mesh size. Requires a verified fusion.
  int64_t ranks() const { return valueOf(mesh_).value; }
  /// Rank r is on host r / ranksPerHost(). Requires a verified fusion.
  int64_t ranksPerHost() const { return hostSize_ ? valueOf(hostSize_).value : ranks(); }

  // These functions check nothing; verify() reports errors, with their locations if known.

  const Scalar *addParameter(llvm::StringRef name, int64_t value, Location location = {});
  /// `hostSize` is the number of ranks per host. If null or equal to `size`, there is one host.
  void setMesh(const Scalar *size, Location location = {}, const Scalar *hostSize = nullptr);
  /// Appends `node`, sets the name and type of its result, and returns the result.
  FusionTensor *add(FusionNode node, llvm::StringRef name = "", FusionType type = {});

private:
  std::string name_;
  Location location_;
  ScalarContext scalars_{Division::Exact};
  std::vector<FusionParameter> parameters_;
  const Scalar *mesh_ = nullptr;
  const Scalar *hostSize_ = nullptr;
  Location meshLocation_;
  std::vector<std::unique_ptr<FusionNode>> nodes_;
};

} // namespace braid
