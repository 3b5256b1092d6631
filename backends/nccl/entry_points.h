//===- backends/nccl/entry_points.h - functions of libraries opened at run time ---------------===//
#pragma once

#include <dlfcn.h>

namespace braid {

/// Looks up a library's functions by name.
class EntryPoints {
public:
  explicit EntryPoints(void *library) : library_(library) {}

  /// Sets `function` to the library's function named `symbol`, or to null if it is missing.
  template <class Function> void find(const char *symbol, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (!function && !missing_)
      missing_ = symbol;
  }
  /// Returns the name of the first missing function, or null.
  const char *missing() const { return missing_; }

private:
  void *const library_;
  const char *missing_ = nullptr;
};

} // namespace braid
