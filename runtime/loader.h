//===- runtime/loader.h - queries the dynamic loader ------------------------------------------===//
#pragma once

#include <string>

namespace braid {

/// Returns the error of the last dlopen or dlsym of this thread, in one line. Equivalent to:
/// dlerror.
std::string loaderError();

/// Returns the file from which a function was loaded, or `otherwise` if the loader does not know.
/// Equivalent to: dladdr.
std::string fileOf(const void *function, const std::string &otherwise);

} // namespace braid
