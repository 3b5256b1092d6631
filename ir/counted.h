//===- ir/counted.h - formats a count with its noun -------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace braid {

/// Returns "1 rank" or "2 ranks". Only for nouns whose plural adds an "s".
inline std::string counted(int64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace braid
