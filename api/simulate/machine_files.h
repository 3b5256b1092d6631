//===- api/simulate/machine_files.h - the machines that come with Braid -----------------------===//
#pragma once

namespace braid {

/// From machines/; made by the build (cmake/BraidEmbed.cmake).
extern const char *const kH200x4,
    *const kH200x2, *const kH100x2, *const kDgxH100, *const kGb200Nvl72, *const kDgxH100x128;

} // namespace braid
