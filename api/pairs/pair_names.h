//===- api/pairs/pair_names.h - the words for paths, links and outcomes -----------------------===//
//
// One table for each: what a file says is what a person reads.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace braid {

inline constexpr size_t kLinkClasses = static_cast<size_t>(LinkClass::Unknown) + 1;
inline constexpr size_t kPathOutcomes = static_cast<size_t>(PathOutcome::Hung) + 1;

/// The word: "put-engine", "nvlink", "wrong-data".
llvm::StringRef name(Path path);
llvm::StringRef name(LinkClass kind);
llvm::StringRef name(PathOutcome outcome);

/// A few words for people: "a write by a copy engine".
llvm::StringRef meaning(Path path);
/// A few words for people: "below one PCIe switch".
llvm::StringRef meaning(LinkClass kind);

// What has that word, or nothing.
std::optional<Path> pathFromName(llvm::StringRef word);
std::optional<LinkClass> linkClassFromName(llvm::StringRef word);
std::optional<PathOutcome> pathOutcomeFromName(llvm::StringRef word);

/// All words of each, by value: what a message lists as known.
llvm::ArrayRef<llvm::StringRef> pathNames();
llvm::ArrayRef<llvm::StringRef> linkClassNames();
llvm::ArrayRef<llvm::StringRef> pathOutcomeNames();

/// "4 B", "64 KiB", "1 GiB"; "1.5 MiB" where it is no whole number.
std::string sizeText(int64_t bytes);
/// Three digits that count: "392", "25.4", "0.81".
std::string figureText(double value);

} // namespace braid
