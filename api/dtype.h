//===- api/dtype.h - element types ------------------------------------------------------------===//
//
// Includes nothing else from Braid, because all layers and the users of the library include it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Element types. GEMMs accumulate in f32, or in f64 for f64.
enum class DType : uint8_t { BF16, F16, F32, F64 };

} // namespace braid
