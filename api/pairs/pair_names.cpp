//===- api/pairs/pair_names.cpp - the words for paths, links and outcomes ---------------------===//

#include "api/pairs/pair_names.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {
namespace {

// By their values.
constexpr llvm::StringRef kPathNames[] = {"put-engine", "put-kernel", "get-engine",
                                          "get-kernel", "messages",   "host"};
constexpr llvm::StringRef kPathMeanings[] = {"the source writes, by a copy engine",
                                             "the source writes, by a kernel",
                                             "the destination reads, by a copy engine",
                                             "the destination reads, by a kernel",
                                             "a send and a receive of NCCL",
                                             "through memory of the host"};
constexpr llvm::StringRef kLinkNames[] = {"own",       "nvlink",     "pcie-switch", "host-bridge",
                                          "same-numa", "cross-numa", "unknown"};
constexpr llvm::StringRef kLinkMeanings[] = {"within one device",
                                             "NVLink, directly or by a switch",
                                             "below one PCIe switch",
                                             "below one root complex",
                                             "root complexes of one NUMA node",
                                             "over the link between sockets",
                                             "not known"};
constexpr llvm::StringRef kOutcomeNames[] = {"not-measured", "measured", "unavailable",
                                             "wrong-data",   "crashed",  "hung"};
static_assert(std::size(kPathNames) == kPaths && std::size(kPathMeanings) == kPaths);
static_assert(std::size(kLinkNames) == kLinkClasses && std::size(kLinkMeanings) == kLinkClasses);
static_assert(std::size(kOutcomeNames) == kPathOutcomes);

template <class Enum>
std::optional<Enum> pairWordFrom(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef word) {
  const auto *found = llvm::find(names, word);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Enum>(found - names.begin()));
}

} // namespace

llvm::StringRef name(Path path) { return kPathNames[static_cast<size_t>(path)]; }
llvm::StringRef name(LinkClass kind) { return kLinkNames[static_cast<size_t>(kind)]; }
llvm::StringRef name(PathOutcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }
llvm::StringRef meaning(Path path) { return kPathMeanings[static_cast<size_t>(path)]; }
llvm::StringRef meaning(LinkClass kind) { return kLinkMeanings[static_cast<size_t>(kind)]; }

std::optional<Path> pathFromName(llvm::StringRef word) {
  return pairWordFrom<Path>(kPathNames, word);
}
std::optional<LinkClass> linkClassFromName(llvm::StringRef word) {
  return pairWordFrom<LinkClass>(kLinkNames, word);
}
std::optional<PathOutcome> pathOutcomeFromName(llvm::StringRef word) {
  return pairWordFrom<PathOutcome>(kOutcomeNames, word);
}

llvm::ArrayRef<llvm::StringRef> pathNames() { return kPathNames; }
llvm::ArrayRef<llvm::StringRef> linkClassNames() { return kLinkNames; }
llvm::ArrayRef<llvm::StringRef> pathOutcomeNames() { return kOutcomeNames; }

std::string sizeText(int64_t bytes) {
  constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  const bool isWhole = value == std::floor(value);
  return isWhole ? fmt::format("{:.0f} {}", value, kUnits[unit])
                 : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string figureText(double value) {
  const double size = std::abs(value);
  if (size >= 1e6)
    return fmt::format("{:.3g}", value);
  return size >= 99.95   ? fmt::format("{:.0f}", value)
         : size >= 9.995 ? fmt::format("{:.1f}", value)
                         : fmt::format("{:.2f}", value);
}

} // namespace braid
