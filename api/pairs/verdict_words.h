//===- api/pairs/verdict_words.h - verdicts as sentences --------------------------------------===//
#pragma once

#include "api/pairs/verdicts.h"

namespace braid {

/// "transfers from device 1 to device 2", "transfers between devices 1 and 2", "transfers from and
/// to device 3"; as the subject of a sentence, in the plural.
std::string subjectOf(const Verdict &verdict);

/// Fills in the sentence, from all other fields.
void putIntoWords(Verdict &verdict);

/// What is to be said where there are none, maybe of those pairs alone that have been measured.
std::string wordsForNone(const PairReport &report);

/// " by put-engine and host"; empty if there are none, or all into the other's memory.
std::string byPaths(const std::vector<Path> &paths);

} // namespace braid
