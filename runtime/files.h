//===- runtime/files.h - reads and writes whole files -----------------------------------------===//
//
// All whole-file reads and writes go through these functions. The path "-" denotes standard input
// or standard output.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace braid {

/// Returns the contents of a file; a pipe is read until its last writer closes it. Returns BadInput
/// if the file cannot be read, or as soon as it exceeds `mostBytes`.
Result<std::string> readFile(const std::string &path, size_t mostBytes);

/// Writes `text` to a file. A regular file is replaced atomically: readers see either the old or
/// the new contents, and a failure preserves the old contents. Symbolic links are followed. Devices
/// and pipes are written in place; if a pipe has no reader, waits up to kReaderPatienceMs for one.
/// Leaves no temporary file behind unless this process is killed. Returns Unsupported on failure.
Status writeFile(const std::string &path, llvm::StringRef text);

/// Writes all of `text`, retrying short writes. Returns 0 or an errno value.
int writeAll(int descriptor, llvm::StringRef text);

/// Like writeFile(), but always creates a regular file, which replaces any existing file or
/// symbolic link at `path`. `mode` is subject to the umask; it defaults to the old file's mode if
/// this user owns that file, otherwise to 0666.
Status replaceFile(const std::string &path, llvm::StringRef text,
                   std::optional<unsigned> mode = {});

/// Returns true if writeFile() replaces the file at `path`, so that only the last text remains.
bool isReplacedAsAWhole(const std::string &path);

/// Returns true if both paths denote the same regular file, so that writing one overwrites the
/// other. The file need not exist yet.
bool areOneFile(const std::string &a, const std::string &b);

/// Returns Unsupported if writeFile() would fail regardless of the text. Has no side effects.
Status checkWritable(const std::string &path);

inline constexpr int kReaderPatienceMs = 5000;

} // namespace braid
