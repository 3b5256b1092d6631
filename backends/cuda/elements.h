//===- backends/cuda/elements.h - conversion to kernel element types --------------------------===//
#pragma once

#include "backends/cuda/kernels.h"
#include "ir/type.h"

namespace braid {

inline cuda::Element elementOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return cuda::Element::BF16;
  case DType::F16:
    return cuda::Element::F16;
  case DType::F32:
    return cuda::Element::F32;
  case DType::F64:
    return cuda::Element::F64;
  }
  return cuda::Element::F32;
}

} // namespace braid
