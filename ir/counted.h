//===- ir/counted.h - formats a count with its noun -------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace braid {

/// Returns text such as "1 rank" or "2 ranks". The plural of `noun` must be formed with "s".
inline std::string counted(int64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace braid
