//===- api/pairs/verdict_words.cpp - verdicts as sentences ------------------------------------===//

#include "api/pairs/verdict_words.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/verdict_limits.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

struct KindWords {
  llvm::StringRef name;
  VerdictSeverity severity;
  llvm::StringRef meaning;
  const char *sentence; ///< of: who, other, by, when, figure, expected, unit, detail
};

// By VerdictKind.
constexpr KindWords kKindWords[] = {
    {"hung", VerdictSeverity::Fault, "no end within the deadline", "{who} hang{by}{when}"},
    {"crashed", VerdictSeverity::Fault, "a process of the pair died", "{who} crash{by}{when}"},
    {"wrong-data", VerdictSeverity::Fault, "other bytes arrive than were sent",
     "{who} bring wrong data{by}{when}{detail}"},
    {"host-fallback", VerdictSeverity::Slow, "through the host, or as slow as that",
     "{who} go through the host{detail}"},
    {"slow-device", VerdictSeverity::Slow, "all links of a device are slow beside the others'",
     "{who} run at {figure} {unit}{by}, those of the others at {expected}"},
    {"slow-pair", VerdictSeverity::Slow, "slow beside the median of its like",
     "{who} run at {figure} {unit}{by}, the median of their like is {expected}"},
    {"asymmetric", VerdictSeverity::Slow, "one direction is slower than the other",
     "{who} run at {figure} {unit}{by}, the other way at {expected}"},
    {"below-nominal", VerdictSeverity::Slow, "slower than the link should give",
     "{who} run at {figure} {unit}{by}, the link should give {expected}"},
    {"slow-together", VerdictSeverity::Slow, "slower than its share only while others run",
     "{who} run at {figure} {unit}{by} while all pairs run, their share would be {expected}"},
    {"shared-bridge", VerdictSeverity::Slow, "two links are slow only when both run",
     "{who} and {other} share a bridge: when both run, and no others, they run at {figure} "
     "{unit}{by}, alone at {expected}"},
    {"latency", VerdictSeverity::Slow, "small transfers take longer than those of its like",
     "{who} take {figure} {unit}{by} for the smallest size, the median of their like is "
     "{expected}"},
    {"narrow-link", VerdictSeverity::Note, "fewer or narrower links than devices of its name",
     "device {device} has {figure} {unit}, the others of its name have {expected}"},
};
static_assert(std::size(kKindWords) == kVerdictKinds);

constexpr llvm::StringRef kSeverityNames[] = {"fault", "slow", "note"};
constexpr llvm::StringRef kScopeNames[] = {"pair", "device", "class", "all"};
constexpr llvm::StringRef kFlowNames[] = {"both", "sending", "receiving"};
constexpr const char *kFlowWords[] = {"from and to", "from", "to"};

const KindWords &wordsOf(VerdictKind kind) { return kKindWords[static_cast<size_t>(kind)]; }

/// Where data were wrong, or which figures are as low as the host's.
std::string detailOf(const Verdict &verdict) {
  if (verdict.wrong)
    return fmt::format(", first at offset {} of {} in round {}: expected {:#04x}, got {:#04x}",
                       verdict.wrong->offset, sizeText(verdict.wrong->bytes), verdict.wrong->round,
                       verdict.wrong->expected, verdict.wrong->got);
  if (verdict.kind == VerdictKind::HostFallback && verdict.figure > 0 && verdict.expected > 0)
    return fmt::format(", or as slowly as if they did: {} {}, expected {}",
                       figureText(verdict.figure), verdict.unit, figureText(verdict.expected));
  if (verdict.kind == VerdictKind::HostFallback && verdict.figure > 0)
    return fmt::format(" at {} {}", figureText(verdict.figure), verdict.unit);
  return "";
}

/// Of a verdict about a pair, or of the link that shares its bridge.
template <class Pair> std::string pairText(const Pair &pair) {
  return pair.bothWays ? fmt::format("between devices {} and {}", pair.source, pair.destination)
                       : fmt::format("from device {} to device {}", pair.source, pair.destination);
}

} // namespace

llvm::StringRef name(VerdictKind kind) { return wordsOf(kind).name; }
llvm::StringRef meaning(VerdictKind kind) { return wordsOf(kind).meaning; }
VerdictSeverity severityOf(VerdictKind kind) { return wordsOf(kind).severity; }
llvm::StringRef name(VerdictSeverity severity) {
  return kSeverityNames[static_cast<size_t>(severity)];
}
llvm::StringRef name(VerdictScope scope) { return kScopeNames[static_cast<size_t>(scope)]; }
llvm::StringRef name(Flow flow) { return kFlowNames[static_cast<size_t>(flow)]; }

bool isAbout(const Verdict &verdict, const PairRow &row) {
  auto isLink = [&](const auto &link) {
    return (row.source == link.source && row.destination == link.destination) ||
           (link.bothWays && row.source == link.destination && row.destination == link.source);
  };
  switch (verdict.scope) {
  case VerdictScope::Pair:
    return isLink(verdict) || (verdict.other && isLink(*verdict.other));
  case VerdictScope::Device:
    return (row.source == verdict.device && verdict.flow != Flow::Receiving) ||
           (row.destination == verdict.device && verdict.flow != Flow::Sending);
  case VerdictScope::Class:
    return row.link.kind == verdict.link;
  case VerdictScope::All:
    break;
  }
  return true;
}

std::string byPaths(const std::vector<Path> &paths) {
  // By all of these it is the link, whichever the path.
  const bool isLink =
      llvm::all_of(kPeerPaths, [&](Path path) { return llvm::is_contained(paths, path); });
  if (paths.empty() || isLink)
    return "";
  std::string words = " by ";
  for (size_t i = 0; i < paths.size(); ++i) {
    const bool isLast = i + 1 == paths.size();
    words += i == 0 ? "" : isLast ? " and " : ", ";
    words += name(paths[i]).str();
  }
  return words;
}

std::string subjectOf(const Verdict &verdict) {
  switch (verdict.scope) {
  case VerdictScope::Pair:
    return "transfers " + pairText(verdict);
  case VerdictScope::Device:
    return fmt::format("transfers {} device {}", kFlowWords[static_cast<size_t>(verdict.flow)],
                       verdict.device);
  case VerdictScope::Class:
    return fmt::format("all transfers over {} links", name(verdict.link).str());
  case VerdictScope::All:
    break;
  }
  return "all transfers between devices";
}

std::string wordsForNone(const PairReport &report) {
  const bool isPartial = llvm::any_of(report.rows, [](const PairRow &row) {
    return llvm::none_of(
        row.paths, [](const PathReport &path) { return path.outcome == PathOutcome::Measured; });
  });
  const bool isOfBandwidth = llvm::any_of(
      report.rows, [](const PairRow &row) { return llvm::any_of(row.paths, hasBandwidth); });
  const std::string who = isPartial ? "every pair that was measured" : "every pair";
  return isOfBandwidth ? who + " is as fast as its like"
                       : fmt::format("{} answers as quickly as its like; bandwidth is judged by "
                                     "transfers of {} and more",
                                     who, sizeText(kLeastBytes));
}

void putIntoWords(Verdict &verdict) {
  verdict.sentence = fmt::format(
      fmt::runtime(wordsOf(verdict.kind).sentence), fmt::arg("who", subjectOf(verdict)),
      fmt::arg("other", verdict.other ? "those " + pairText(*verdict.other) : ""),
      fmt::arg("by", byPaths(verdict.paths)),
      fmt::arg("when", verdict.together ? " while all pairs run" : ""),
      fmt::arg("figure", figureText(verdict.figure)),
      fmt::arg("expected", figureText(verdict.expected)), fmt::arg("unit", verdict.unit),
      fmt::arg("detail", detailOf(verdict)), fmt::arg("device", verdict.device));
}

} // namespace braid
