//===- tests/mutation/tally.h - outcomes of the mutants ---------------------------------------===//
#pragma once

#include "tests/mutation/judge.h"

#include <map>

namespace braid::test {

/// Counts for one mutation, or for all.
struct Counts {
  size_t made = 0;
  std::map<Outcome, size_t> outcomes;
  std::map<CheckRule, size_t> rules; ///< number of rejected mutants, by violated rule
  size_t complete = 0;               ///< number of mutants that are harmless in every order
  size_t rejected() const;
  size_t of(Outcome outcome) const;
};

struct Tally {
  std::map<std::string, Counts> mutations;
  std::map<uint32_t, size_t> queues;     ///< harmless mutants by required number of queues
  std::map<std::string, size_t> reasons; ///< number of condemned mutants, by Judgement::reason
  std::vector<std::string> failures;

  void add(const Mutant &mutant, const Judgement &judgement);
  void add(const Tally &other);
  Counts total() const;
  /// Returns a table with a line for each mutation, followed by the reasons.
  std::string str() const;
};

/// Judges `count` random mutants with two to four mistakes. Cases are used round-robin.
Tally judgeRandom(const std::vector<CaseOptions> &cases, size_t count);
/// Judges every case and then all its mutants, on all cores.
Tally judgeAll(const std::vector<CaseOptions> &cases);

} // namespace braid::test
