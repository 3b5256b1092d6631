//===- ir/counted.h - numbers of things in messages -------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace braid {

/// "1 rank", "2 ranks": for nouns whose plural adds an s.
inline std::string counted(int64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace braid
