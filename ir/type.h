//===- ir/type.h - element types, and the tensor types of both languages ----------------------===//
#pragma once

#include "api/dtype.h"
#include "ir/scalar.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace braid {

/// Returns the enumerator named `text`, or nullopt. `last` is the last enumerator of the type.
template <class Enum> std::optional<Enum> enumFromName(llvm::StringRef text, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name(static_cast<Enum>(i)) == text)
      return static_cast<Enum>(i);
  return std::nullopt;
}

llvm::StringRef name(DType dtype);
std::optional<DType> dtypeFromName(llvm::StringRef name);
/// Returns the number of bytes per element.
int64_t sizeOf(DType dtype);

/// The placement of one axis of a fusion tensor on the mesh.
enum class AxisKind : uint8_t {
  Plain,  ///< replicated on every rank
  DIDx,   ///< split, with one index per device; the local extent is 1
  Stream, ///< replicated on every rank, but produced slice by slice
};

/// Returns "Plain", "DIDx" or "Stream".
llvm::StringRef name(AxisKind kind);

struct Axis {
  AxisKind kind = AxisKind::Plain;
  const Scalar *extent = nullptr;
  bool operator==(const Axis &) const = default;
};

/// The type of a fusion tensor: global extents, and the placement of each axis.
struct FusionType {
  DType dtype = DType::F32;
  llvm::SmallVector<Axis, 4> axes;

  /// Returns the index of the first axis of kind `kind`, or std::nullopt.
  std::optional<size_t> find(AxisKind kind) const;
  /// Returns text such as `bf16[DIDx{D}, M/D, K]`.
  std::string str() const;
  bool operator==(const FusionType &) const = default;
};

/// The type of a program tensor: its local shape, row-major and contiguous. An extent that depends
/// on `rank` or loop indices (as in a `slice` of uneven chunks) is checked when a Plan is created.
struct TensorType {
  DType dtype = DType::F32;
  llvm::SmallVector<const Scalar *, 4> shape;

  size_t rank() const { return shape.size(); }
  /// Returns text such as `bf16[8, 128, 1024]`.
  std::string str() const;
  bool operator==(const TensorType &) const = default;
};

/// A shape with constant extents.
using Shape = llvm::SmallVector<int64_t, 4>;

/// Returns the product of all extents, or std::nullopt if it overflows 64 bits.
std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// Returns the size of a contiguous tensor in bytes, or std::nullopt on overflow.
std::optional<int64_t> byteCount(DType dtype, llvm::ArrayRef<int64_t> shape);

/// Returns the number of axes that a GEMM contracts (1 or 2), given the numbers of axes of its two
/// operands and its result. Returns 1 if these numbers are inconsistent.
size_t contractedAxes(size_t first, size_t second, size_t result);
/// Returns true if the partial results for a result of type `result` may have the type `partial`:
/// the types are equal, or `partial` is f32 and `result` is 16-bit.
bool isPartialType(DType partial, DType result);

} // namespace braid
