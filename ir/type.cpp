//===- ir/type.cpp - element types and tensor types -------------------------------------------===//

#include "ir/type.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {

llvm::StringRef name(DType dtype) {
  static constexpr llvm::StringLiteral kNames[] = {"bf16", "f16", "f32", "f64"};
  return kNames[static_cast<size_t>(dtype)];
}

std::optional<DType> dtypeFromName(llvm::StringRef name) { return enumFromName(name, DType::F64); }

int64_t sizeOf(DType dtype) {
  static constexpr int64_t kSizes[] = {2, 2, 4, 8};
  static_assert(std::size(kSizes) == size_t(DType::F64) + 1);
  return kSizes[static_cast<size_t>(dtype)];
}

static std::string str(const Axis &axis) {
  const std::string extent = axis.extent->str();
  return axis.kind == AxisKind::Plain ? extent : name(axis.kind).str() + "{" + extent + "}";
}

std::optional<size_t> FusionType::find(AxisKind kind) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].kind == kind)
      return i;
  return std::nullopt;
}

std::string FusionType::str() const {
  auto texts = llvm::map_range(axes, [](const Axis &axis) { return braid::str(axis); });
  return name(dtype).str() + "[" + llvm::join(texts, ", ") + "]";
}

std::string TensorType::str() const {
  auto texts = llvm::map_range(shape, [](const Scalar *extent) { return extent->str(); });
  return name(dtype).str() + "[" + llvm::join(texts, ", ") + "]";
}

std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count))
      return std::nullopt;
  return count;
}

std::optional<int64_t> byteCount(DType dtype, llvm::ArrayRef<int64_t> shape) {
  std::optional<int64_t> count = elementCount(shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, sizeOf(dtype), &bytes))
    return std::nullopt;
  return bytes;
}

llvm::StringRef name(AxisKind kind) {
  static constexpr llvm::StringLiteral kNames[] = {"Plain", "DIDx", "Stream"};
  return kNames[static_cast<size_t>(kind)];
}

size_t contractedAxes(size_t first, size_t second, size_t result) {
  return first + second == result + 4 && first >= 2 && second >= 2 ? 2 : 1;
}

bool isPartialType(DType partial, DType result) {
  return partial == result || (partial == DType::F32 && sizeOf(result) == 2);
}

} // namespace braid
