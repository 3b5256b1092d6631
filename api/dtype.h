//===- api/dtype.h - element types ------------------------------------------------------------===//
//
// This header names nothing else of Braid: all layers share it with those who use the library.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Element types. GEMMs accumulate in f32, those of f64 in f64.
enum class DType : uint8_t { BF16, F16, F32, F64 };

} // namespace braid
