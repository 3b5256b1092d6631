//===- api/simulate/machine_files.h - the built-in machine models -----------------------------===//
#pragma once

namespace braid {

/// The contents of the files in machines/, which the build embeds (cmake/BraidEmbed.cmake).
extern const char *const kH200x4,
    *const kH200x2, *const kH100x2, *const kDgxH100, *const kGb200Nvl72, *const kDgxH100x128;

} // namespace braid
