//===- runtime/loader.h - what the dynamic loader says about a library ------------------------===//
#pragma once

#include <string>

namespace braid {

/// Why the last dlopen or dlsym of this thread failed, in one line. dlerror.
std::string loaderError();

/// The file that a function of a library was loaded from; `otherwise` if the loader does not know.
/// dladdr.
std::string fileOf(const void *function, const std::string &otherwise);

} // namespace braid
