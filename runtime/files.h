//===- runtime/files.h - reads and writes whole files -----------------------------------------===//
//
// Every file that Braid reads or writes as a whole goes through here. "-" is standard input or
// standard output.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace braid {

/// Everything in a file, up to its end. Blocks as long as whoever writes a pipe does. BadInput if
/// it cannot be read or has more than `mostBytes`, of which no more is read.
Result<std::string> readFile(const std::string &path, size_t mostBytes);

/// Puts `text` into a file. A regular file is replaced as a whole, so that a reader sees the old or
/// the new one and a failure leaves the old one; a link is followed to what it names. What is not a
/// regular file (a device, a pipe) is written in place; a pipe that nobody has opened for reading
/// is waited for, up to kReaderPatienceMs. Nothing else is left in the folder. Unsupported if it
/// fails.
Status writeFile(const std::string &path, llvm::StringRef text);

/// Writes all of `text`, however many calls that takes. Returns 0 or the error.
int writeAll(int descriptor, llvm::StringRef text);

struct ReplaceOptions {
  /// Less the process's umask; default: that of the old file if it is this user's, else 0666.
  std::optional<unsigned> mode = {};
  std::string shownAs = {}; ///< the path in messages; default: the path itself
};

/// Puts `text` into a regular file of that name, in place of whatever has the name, a link too. As
/// writeFile() else.
Status replaceFile(const std::string &path, llvm::StringRef text,
                   const ReplaceOptions &options = {});

/// Whether writeFile() replaces what is at `path`, so that it can be written again and again.
bool isReplacedAsAWhole(const std::string &path);

/// Whether two paths lead to one regular file, which may not be there yet, so that writeFile() to
/// one replaces the other.
bool areOneFile(const std::string &a, const std::string &b);

/// Unsupported if writeFile() can be seen to fail, whatever the text. Changes nothing.
Status checkWritable(const std::string &path);

inline constexpr int kReaderPatienceMs = 5000;

} // namespace braid
