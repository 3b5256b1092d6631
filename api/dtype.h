//===- api/dtype.h - element types ------------------------------------------------------------===//
//
// This header includes no other Braid header, because all layers and all users include it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Element types. GEMMs of F64 tensors accumulate in f64, all others in f32.
enum class DType : uint8_t { BF16, F16, F32, F64 };

} // namespace braid
