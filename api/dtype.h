//===- api/dtype.h - element types ------------------------------------------------------------===//
//
// Includes no other Braid header, because all layers and all users of the library include this one.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Element types. GEMMs of F64 tensors accumulate in f64, all others in f32.
enum class DType : uint8_t { BF16, F16, F32, F64 };

} // namespace braid
