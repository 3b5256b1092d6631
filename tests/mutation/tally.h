//===- tests/mutation/tally.h - what became of the mutants ------------------------------------===//
#pragma once

#include "tests/mutation/judge.h"

#include <map>

namespace braid::test {

/// Counts of one mutation, or of all.
struct Counts {
  size_t made = 0;
  std::map<Outcome, size_t> outcomes;
  std::map<CheckRule, size_t> rules; ///< rejections by rule
  size_t complete = 0;               ///< harmless in every order there is
  size_t rejected() const;
  size_t of(Outcome outcome) const;
};

struct Tally {
  std::map<std::string, Counts> mutations;
  std::map<uint32_t, size_t> queues;     ///< harmless mutants by the number of queues they need
  std::map<std::string, size_t> reasons; ///< why only the definition condemns a mutant
  std::vector<std::string> failures;

  void add(const Mutant &mutant, const Judgement &judgement);
  void add(const Tally &other);
  Counts total() const;
  /// A table, a line for each mutation, and the reasons below it.
  std::string str() const;
};

/// Judges `count` mutants with two to four mistakes, drawn from seeds, of cases dealt out in turn.
Tally judgeRandom(const std::vector<CaseOptions> &cases, size_t count);
/// Judges every mutant of every case, and each case itself first, on all cores.
Tally judgeAll(const std::vector<CaseOptions> &cases);

} // namespace braid::test
