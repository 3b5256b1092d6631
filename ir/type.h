//===- ir/type.h - element types, and the tensor types of the two languages -------------------===//
#pragma once

#include "api/dtype.h"
#include "ir/scalar.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace braid {

/// The enumerator with that name. `last` is the last enumerator of its type.
template <class Enum> std::optional<Enum> enumFromName(llvm::StringRef text, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name(static_cast<Enum>(i)) == text)
      return static_cast<Enum>(i);
  return std::nullopt;
}

llvm::StringRef name(DType dtype);
std::optional<DType> dtypeFromName(llvm::StringRef name);
/// Returns the bytes per element.
int64_t sizeOf(DType dtype);

/// The placement of one axis of a fusion's tensor on the mesh.
enum class AxisKind : uint8_t {
  Plain,  ///< whole on every rank
  DIDx,   ///< one index per device; extent 1 locally
  Stream, ///< whole on every rank, produced slice by slice
};

/// "Plain", "DIDx" or "Stream".
llvm::StringRef name(AxisKind kind);

struct Axis {
  AxisKind kind = AxisKind::Plain;
  const Scalar *extent = nullptr;
  bool operator==(const Axis &) const = default;
};

/// The type of a fusion's tensor: global extents, and the placement of each axis.
struct FusionType {
  DType dtype = DType::F32;
  llvm::SmallVector<Axis, 4> axes;

  /// Returns the index of the first axis of that kind, or nothing.
  std::optional<size_t> find(AxisKind kind) const;
  /// `bf16[DIDx{D}, M/D, K]`
  std::string str() const;
  bool operator==(const FusionType &) const = default;
};

/// The type of a program's tensor: the local shape, row-major and contiguous. An extent may depend
/// on `rank` and loop indices (a `slice` of uneven chunks); it is then checked when a Plan is made.
struct TensorType {
  DType dtype = DType::F32;
  llvm::SmallVector<const Scalar *, 4> shape;

  size_t rank() const { return shape.size(); }
  /// `bf16[8, 128, 1024]`
  std::string str() const;
  bool operator==(const TensorType &) const = default;
};

/// A concrete local shape, with all extents known.
using Shape = llvm::SmallVector<int64_t, 4>;

/// Returns the product of all extents, or nothing if it overflows 64 bits.
std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// Returns the bytes of a contiguous tensor, or nothing on overflow.
std::optional<int64_t> byteCount(DType dtype, llvm::ArrayRef<int64_t> shape);

/// Returns the number of axes that a GEMM contracts, from the numbers of axes of its operands and
/// its result: 1 or 2; also 1 if no number fits.
size_t contractedAxes(size_t first, size_t second, size_t result);
/// Returns true if partial results of `result` may have the element type `partial`: that of the
/// result, or f32 if that has 16 bits.
bool isPartialType(DType partial, DType result);

} // namespace braid
