//===- tests/mutation/tally.cpp - outcomes of the mutants -------------------------------------===//

#include "tests/mutation/tally.h"

#include <fmt/format.h>

#include <sched.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace braid::test {
namespace {

constexpr size_t kShownEvery = 50;

constexpr CheckRule kRules[] = {CheckRule::Transfers, CheckRule::Deadlock, CheckRule::Race,
                                CheckRule::Lifetime, CheckRule::Result};

void addTo(Counts &sum, const Counts &counts) {
  sum.made += counts.made;
  sum.complete += counts.complete;
  for (auto [outcome, count] : counts.outcomes)
    sum.outcomes[outcome] += count;
  for (auto [rule, count] : counts.rules)
    sum.rules[rule] += count;
}

std::string line(const std::string &name, const Counts &c) {
  std::string text =
      fmt::format("{:<36}{:>6}{:>8}{:>9}", name, c.made, c.of(Outcome::Refused), c.rejected());
  for (CheckRule rule : kRules)
    text += fmt::format("{:>10}", c.rules.count(rule) ? c.rules.at(rule) : 0);
  return text + fmt::format("{:>7}{:>11}{:>9}{:>9}{:>9}\n", c.of(Outcome::Guilty),
                            c.of(Outcome::Condemned),
                            c.of(Outcome::Harmless) + c.of(Outcome::Unsound),
                            c.of(Outcome::Harmless), c.complete);
}

Tally judgeCase(const CaseOptions &options) {
  Tally tally;
  Result<Case> made = makeCase(options);
  if (!made) {
    tally.failures.push_back(made.status().message());
    return tally;
  }
  Judge judge(*made);
  Mutant original = plansOf(made->program);
  original.mutation = "nothing";
  original.what = "as generated";
  Judgement judgement = judge.judge(original);
  if (judgement.outcome != Outcome::Harmless)
    tally.failures.push_back(made->name + ": rejected as it was generated\n" + judgement.detail);
  forEachMutant(*made, [&](Mutant mutant) { tally.add(mutant, judge.judge(mutant)); });
  return tally;
}

} // namespace

size_t Counts::of(Outcome outcome) const {
  auto found = outcomes.find(outcome);
  return found == outcomes.end() ? 0 : found->second;
}

size_t Counts::rejected() const {
  size_t sum = 0;
  for (auto [rule, count] : rules)
    sum += count;
  return sum;
}

void Tally::add(const Mutant &mutant, const Judgement &judgement) {
  Counts &counts = mutations[mutant.mutation];
  ++counts.made;
  ++counts.outcomes[judgement.outcome];
  if (judgement.rule)
    ++counts.rules[*judgement.rule];
  counts.complete += judgement.outcome == Outcome::Harmless && judgement.isComplete;
  if (judgement.outcome == Outcome::Harmless)
    ++queues[judgement.queues];
  if (judgement.outcome == Outcome::Condemned)
    ++reasons[judgement.reason];
  if (!judgement.detail.empty())
    failures.push_back(judgement.detail);
}

void Tally::add(const Tally &other) {
  for (const auto &[name, counts] : other.mutations)
    addTo(mutations[name], counts);
  for (const auto &[number, count] : other.queues)
    queues[number] += count;
  for (const auto &[reason, count] : other.reasons)
    reasons[reason] += count;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

Counts Tally::total() const {
  Counts sum;
  for (const auto &[name, counts] : mutations)
    addTo(sum, counts);
  return sum;
}

std::string Tally::str() const {
  std::string text =
      fmt::format("{:<36}{:>6}{:>8}{:>9}", "mutation", "made", "refused", "rejected");
  for (CheckRule rule : kRules)
    text += fmt::format("{:>10}", name(rule).str());
  text += fmt::format("{:>7}{:>11}{:>9}{:>9}{:>9}\n", "guilty", "definition", "accepted",
                      "harmless", "in full");
  for (const auto &[mutation, counts] : mutations)
    text += line(mutation, counts);
  text += line("all", total());
  for (const auto &[number, count] : queues)
    text += fmt::format("harmless, needing {} queues: {}\n", number, count);
  for (const auto &[reason, count] : reasons)
    text += fmt::format("by definition only: {:>5}  {}\n", count, reason);
  return text;
}

namespace {

/// Prints failures immediately, because a full run may take hours.
void show(const Tally &tally, size_t done, size_t count) {
  for (const std::string &failure : tally.failures)
    std::printf("FAILURE %s\n", failure.c_str());
  if (done % kShownEvery == 0 || !tally.failures.empty())
    std::printf("%zu of %zu programs judged\n", done, count);
  std::fflush(stdout);
}

/// Keeps the calling thread, and all threads that it creates, on core `number` of those that this
/// process may use. The threads of a trial take turns, and a turn takes several times as long if
/// the next thread runs on another core.
void stayOnCore(unsigned number) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof(all), &all) != 0)
    return;
  for (size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all) && number-- == 0)
      CPU_SET(core, &one);
  sched_setaffinity(0, sizeof(one), &one); // without an effect if there is no such core
}

/// Calls `judgeOne(i)` for all i below `count` on all cores and adds up the results.
template <class JudgeFn> Tally judgeOnAllCores(size_t count, JudgeFn judgeOne) {
  std::vector<Tally> tallies(count);
  std::atomic<size_t> next{0};
  std::mutex mutex; // guards the output
  size_t done = 0;
  auto work = [&](unsigned number) {
    stayOnCore(number);
    for (size_t i = next++; i < count; i = next++) {
      tallies[i] = judgeOne(i);
      std::lock_guard lock(mutex);
      show(tallies[i], ++done, count);
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.emplace_back(work, i);
  for (std::thread &worker : workers)
    worker.join();
  Tally sum;
  for (const Tally &tally : tallies)
    sum.add(tally);
  return sum;
}

} // namespace

Tally judgeAll(const std::vector<CaseOptions> &cases) {
  return judgeOnAllCores(cases.size(), [&](size_t i) { return judgeCase(cases[i]); });
}

Tally judgeRandom(const std::vector<CaseOptions> &cases, size_t count) {
  return judgeOnAllCores(cases.size(), [&](size_t i) {
    Tally tally;
    Result<Case> made = makeCase(cases[i]);
    if (!made) {
      tally.failures.push_back(made.status().message());
      return tally;
    }
    Judge judge(*made);
    for (size_t seed = i; seed < count; seed += cases.size()) {
      Mutant mutant = randomMutant(*made, seed, 2 + seed % 3);
      tally.add(mutant, judge.judge(mutant));
    }
    return tally;
  });
}

} // namespace braid::test
