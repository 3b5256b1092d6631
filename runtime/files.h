//===- runtime/files.h - reads and writes whole files -----------------------------------------===//
//
// Every file that Braid reads or writes as a whole goes through these functions. "-" is standard
// input or standard output.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace braid {

/// Returns the contents of a file. Blocks while a pipe has a writer. Returns BadInput if the file
/// cannot be read or exceeds `mostBytes`; reads no more than that.
Result<std::string> readFile(const std::string &path, size_t mostBytes);

/// Writes `text` to a file. A regular file is replaced atomically, so a reader sees the old or the
/// new contents and a failure preserves the old ones; symbolic links are followed. Devices and
/// pipes are written in place; blocks up to kReaderPatienceMs for a reader of a pipe. Leaves no
/// other file in the folder unless this process is killed. Returns Unsupported on failure.
Status writeFile(const std::string &path, llvm::StringRef text);

/// Writes all of `text`, with as many calls as needed. Returns 0 or an errno.
int writeAll(int descriptor, llvm::StringRef text);

/// Writes `text` to a regular file, which replaces whatever has the name, even a link. Otherwise
/// like writeFile(). The umask reduces `mode`, which by default is that of the old file if this
/// user owns it, else 0666.
Status replaceFile(const std::string &path, llvm::StringRef text,
                   std::optional<unsigned> mode = {});

/// Returns true if writeFile() replaces the file at `path`, so that it can be written repeatedly.
bool isReplacedAsAWhole(const std::string &path);

/// Returns true if both paths denote the same regular file, which may not exist yet, so that
/// writing one replaces the other.
bool areOneFile(const std::string &a, const std::string &b);

/// Returns Unsupported if writeFile() would fail for any text. Changes nothing.
Status checkWritable(const std::string &path);

inline constexpr int kReaderPatienceMs = 5000;

} // namespace braid
