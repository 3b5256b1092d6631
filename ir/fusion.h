//===- ir/fusion.h - a computation, and the placement of its tensors --------------------------===//
//
// A Fusion is a short list of tensor operations over a one-dimensional mesh of devices. The kinds
// of its axes define where each tensor is placed; comparing a result's axes with those of its
// operands shows what must move. How it moves is up to lowering.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"
#include "ir/pointwise.h"
#include "ir/type.h"

#include "llvm/Support/Casting.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace braid {

class FusionBuilder;
class FusionNode;

enum class FusionOpKind : uint8_t {
#define BRAID_FUSION_OP(Kind, keyword, summary) Kind,
#include "ir/fusion_kinds.def"
};

llvm::StringRef keyword(FusionOpKind kind);

/// A tensor of a fusion, defined once, by any node except an output.
struct FusionTensor {
  std::string name; ///< without `%`
  Location location;
  FusionType type;
  FusionNode *definition = nullptr;
};

/// Base of the nodes. A closed hierarchy: use `kind()`, llvm::isa, cast and dyn_cast.
class FusionNode {
public:
  virtual ~FusionNode() = default;
  FusionOpKind kind() const { return kind_; }
  Location location() const { return location_; }

protected:
  FusionNode(FusionOpKind kind, Location location) : kind_(kind), location_(location) {}

private:
  FusionOpKind kind_;
  Location location_;
};

/// Supplies `classof`, and a constructor that only the builder can call.
template <FusionOpKind K> class FusionNodeOf : public FusionNode {
public:
  static bool classof(const FusionNode *node) { return node->kind() == K; }
  explicit FusionNodeOf(Location location) : FusionNode(K, location) {}
};

/// `%A = input bf16[DIDx{D}, M/D, K]`
struct InputNode : FusionNodeOf<FusionOpKind::Input> {
  using FusionNodeOf::FusionNodeOf;
  FusionTensor result;
};

/// `%C = matmul %A, %B [partial f32] : bf16[Stream{D}, M/D, N]`. The result has A's axes except the
/// last c, then B's axes except the first c; see Contraction. `partial` names the element type in
/// which partial results are sent, if there are any.
///
/// `%C = linear %A, %B[, %bias] [partial f32] : ...` contracts B's last c axes; the bias has the
/// other axes of B.
struct MatmulNode : FusionNodeOf<FusionOpKind::Matmul> {
  using FusionNodeOf::FusionNodeOf;
  FusionTensor result;
  std::optional<DType> partial; ///< as written
  FusionTensor *a = nullptr;
  FusionTensor *b = nullptr;
  FusionTensor *bias = nullptr; ///< may be null; always null without transposeB
  bool transposeB = false;      ///< written as `linear`
};

/// `%G = gelu_tanh %H : T`, `%G = multiply %S, %V : T`. Applied to the operands' values before
/// these are rounded to their element type, unless the operands are inputs.
struct PointwiseNode : FusionNodeOf<FusionOpKind::Pointwise> {
  using FusionNodeOf::FusionNodeOf;
  FusionTensor result;
  PointwiseFunction function = PointwiseFunction::Relu;
  llvm::SmallVector<FusionTensor *, 2> operands;
};

/// `%X = reshard %A : T`. The same tensor with other axis kinds.
struct ReshardNode : FusionNodeOf<FusionOpKind::Reshard> {
  using FusionNodeOf::FusionNodeOf;
  FusionTensor result;
  FusionTensor *a = nullptr;
};

/// `output %C, %E`
struct OutputNode : FusionNodeOf<FusionOpKind::Output> {
  using FusionNodeOf::FusionNodeOf;
  llvm::SmallVector<FusionTensor *, 2> tensors;
};

/// Returns the operands of a node in order; none for an input.
llvm::SmallVector<FusionTensor *, 3> operandsOf(const FusionNode &node);
/// Returns the tensor that a node defines, or null for `output`.
FusionTensor *resultOf(FusionNode &node);
const FusionTensor *resultOf(const FusionNode &node);

/// Returns the keyword in the text: that of the function of a pointwise node, `linear` for a matmul
/// with transposeB, otherwise that of the kind.
llvm::StringRef keyword(const FusionNode &node);
bool isGemm(const FusionNode &node);
/// True for a pointwise node or a reshard: each element of the result depends on one of each
/// operand.
bool isElementwise(const FusionNode &node);
bool transposesB(const FusionNode &node);
/// Returns the element type in which partial results are sent: `partial`, or the result's.
DType partialType(const FusionNode &gemm);

/// The axes that a matmul or linear contracts: `count` of each operand, starting at these, in
/// pairs. If there are two pairs, the outer one has an entry for each device.
struct Contraction {
  size_t first, second, count;
};
Contraction contractionOf(const FusionNode &gemm);
/// True if a DIDx axis is contracted: every device has a partial result, and these are summed.
bool isContractedOverDevices(const FusionNode &gemm);

/// Rows that do not divide evenly: axis `axis`, of extent ceil(total, blocks), follows an axis of
/// `blocks` blocks. Only the first `total` rows exist, counted block by block. The others are not
/// read, written, moved, multiplied or compared.
struct UnevenRows {
  size_t axis;
  int64_t blocks, rows, total;

  /// Returns the number of existing rows of a block; 0 for the last blocks if there are fewer rows.
  int64_t rowsOf(int64_t block) const { return std::clamp<int64_t>(total - block * rows, 0, rows); }
};

/// An integer parameter, `M = 1024`.
struct FusionParameter {
  std::string name;
  int64_t value;
  const Scalar *scalar; ///< its leaf in the fusion's context
  Location location;
};

/// See the top of this file. FusionBuilder creates the nodes; the fusion owns them, in text order.
class Fusion {
public:
  explicit Fusion(std::string name, Location location = {})
      : name_(std::move(name)), location_(location) {}

  const std::string &name() const { return name_; }
  Location location() const { return location_; }
  ScalarContext &scalars() { return scalars_; }

  llvm::ArrayRef<FusionParameter> parameters() const { return parameters_; }
  const FusionParameter *findParameter(llvm::StringRef name) const;
  /// Overrides a default. Returns false if there is no such parameter.
  bool setParameter(llvm::StringRef name, int64_t value);

  /// The upper end of `mesh [0 .. D)`; null until the builder has set it.
  const Scalar *mesh() const { return mesh_; }
  Location meshLocation() const { return meshLocation_; }
  /// The number of ranks per host, L in `mesh [0 .. D) of L`; null if all are on one host.
  const Scalar *hostSize() const { return hostSize_; }
  /// The parameter whose value is the mesh size, or null if the mesh is another expression.
  const FusionParameter *meshParameter() const;

  llvm::ArrayRef<std::unique_ptr<FusionNode>> nodes() const { return nodes_; }
  std::vector<const FusionTensor *> inputs() const;
  std::vector<const FusionTensor *> outputs() const;
  /// Returns the nodes, inputs included, on whose results no output depends.
  std::vector<const FusionNode *> unusedNodes() const;
  /// Removes these nodes, except inputs, which are part of the signature.
  void dropUnused();

  /// Returns an extent for the current values of the parameters; `/` must be exact.
  ScalarValue valueOf(const Scalar *extent) const;
  /// Returns the extents of a tensor over all devices. Only for a verified fusion.
  Shape globalShape(const FusionType &type) const;
  /// Returns the extents of a tensor on one device: DIDx axes are 1. Only for a verified fusion.
  Shape localShape(const FusionType &type) const;
  /// Returns nothing if every row exists. Only for a verified fusion.
  std::optional<UnevenRows> unevenRows(const FusionType &type) const;
  /// Returns the mesh size. Only for a verified fusion.
  int64_t ranks() const { return valueOf(mesh_).value; }
  /// Rank r is on host r / ranksPerHost(). Equals ranks() on one host. Only for a verified fusion.
  int64_t ranksPerHost() const { return hostSize_ ? valueOf(hostSize_).value : ranks(); }

private:
  friend class FusionBuilder;
  std::string name_;
  Location location_;
  ScalarContext scalars_{Division::Exact};
  std::vector<FusionParameter> parameters_;
  const Scalar *mesh_ = nullptr;
  const Scalar *hostSize_ = nullptr;
  Location meshLocation_;
  std::vector<std::unique_ptr<FusionNode>> nodes_;
};

/// Creates the nodes of a fusion, in order. Checks nothing: verify() does, and reports errors with
/// their locations, if known. For example:
///
///   Fusion fusion("ag_matmul");
///   FusionBuilder b(fusion);
///   const Scalar *d = b.parameter("D", 8), *m = b.parameter("M", 1024), *k = b.parameter("K",
///   512);
///   b.mesh(d);
///   FusionTensor *A = b.input("A", DType::BF16, {b.didx(d), b.plain(b.div(m, d)), b.plain(k)});
///   FusionTensor *B = b.input("B", DType::BF16, {b.plain(k), b.plain(1024)});
///   b.output({b.matmul("C", A, B, {b.stream(d), b.plain(b.div(m, d)), b.plain(1024)})});
class FusionBuilder {
public:
  explicit FusionBuilder(Fusion &fusion) : fusion_(fusion) {}

  const Scalar *parameter(llvm::StringRef name, int64_t value, Location location = {});
  /// `hostSize` is the number of ranks per host. Null, or `size` itself: all are on one host.
  void mesh(const Scalar *size, Location location = {}, const Scalar *hostSize = nullptr);

  const Scalar *constant(int64_t value) { return fusion_.scalars().constant(value); }
  const Scalar *add(const Scalar *a, const Scalar *b) { return fusion_.scalars().add(a, b); }
  const Scalar *sub(const Scalar *a, const Scalar *b) { return fusion_.scalars().sub(a, b); }
  const Scalar *mul(const Scalar *a, const Scalar *b) { return fusion_.scalars().mul(a, b); }
  const Scalar *div(const Scalar *a, const Scalar *b) { return fusion_.scalars().div(a, b); }
  const Scalar *ceil(const Scalar *a, const Scalar *b) { return fusion_.scalars().ceil(a, b); }

  Axis plain(const Scalar *extent) { return {AxisKind::Plain, extent}; }
  Axis plain(int64_t extent) { return plain(constant(extent)); }
  Axis didx(const Scalar *extent) { return {AxisKind::DIDx, extent}; }
  Axis stream(const Scalar *extent) { return {AxisKind::Stream, extent}; }

  FusionTensor *input(llvm::StringRef name, DType dtype, llvm::ArrayRef<Axis> axes,
                      Location location = {});
  /// The result has A's element type; the text parser passes `dtype` as it was written.
  FusionTensor *matmul(llvm::StringRef name, FusionTensor *a, FusionTensor *b,
                       llvm::ArrayRef<Axis> axes, std::optional<DType> dtype = {},
                       Location location = {}, std::optional<DType> partial = {});
  /// A matmul with b transposed. The bias may be null.
  FusionTensor *linear(llvm::StringRef name, FusionTensor *a, FusionTensor *b, FusionTensor *bias,
                       llvm::ArrayRef<Axis> axes, std::optional<DType> dtype = {},
                       Location location = {}, std::optional<DType> partial = {});
  /// `operands` has one or two tensors, as the function requires.
  FusionTensor *pointwise(llvm::StringRef name, PointwiseFunction function,
                          llvm::ArrayRef<FusionTensor *> operands, llvm::ArrayRef<Axis> axes,
                          std::optional<DType> dtype = {}, Location location = {});
  FusionTensor *reshard(llvm::StringRef name, FusionTensor *a, llvm::ArrayRef<Axis> axes,
                        std::optional<DType> dtype = {}, Location location = {});
  void output(llvm::ArrayRef<FusionTensor *> tensors, Location location = {});

private:
  template <class Node> Node *append(Location location);
  FusionTensor *define(FusionTensor &tensor, FusionNode *node, llvm::StringRef name, DType dtype,
                       llvm::ArrayRef<Axis> axes);
  Fusion &fusion_;
};

} // namespace braid
