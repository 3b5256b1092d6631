//===- tests/support/collective_case.cpp - a collective and its expected results --------------===//

#include "tests/support/collective_case.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace braid::test {
namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::Reduce;
}

bool hasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce;
}

double combined(ReductionOperator op, double a, double b) {
  switch (op) {
  case ReductionOperator::Sum:
    return a + b;
  case ReductionOperator::Product:
    return a * b;
  case ReductionOperator::Min:
    return std::min(a, b);
  case ReductionOperator::Max:
    return std::max(a, b);
  }
  return 0;
}

} // namespace

std::vector<int64_t> CollectiveCase::members() const {
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return team.empty() ? all : team;
}

bool CollectiveCase::isMember(int64_t rank) const { return llvm::is_contained(members(), rank); }

int64_t CollectiveCase::sourceElements() const {
  const bool isWhole = kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll;
  return elements * (isWhole ? static_cast<int64_t>(members().size()) : 1);
}

int64_t CollectiveCase::resultElements() const {
  const bool isWhole = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll;
  return elements * (isWhole ? static_cast<int64_t>(members().size()) : 1);
}

std::string CollectiveCase::text() const {
  const std::string source = fmt::format("{}[{}]", name(dtype).str(), sourceElements());
  const std::string result = fmt::format("{}[{}]", name(dtype).str(), resultElements());
  std::string operation = name(kind).str();
  if (reduces(kind))
    operation += " " + name(reduction).str();
  std::string where = team.empty() ? "" : fmt::format(" team [{}]", fmt::join(team, ", "));
  if (hasRoot(kind))
    where += fmt::format(" root {}", root);
  std::string head = fmt::format("program @c mesh [0 .. {}) (%in: {}) -> (", ranks, source);
  std::string body = "  %main = get_current_stream\n";
  for (int i = 0; i < 3; ++i) {
    head += fmt::format("{}%out{}: {}", i == 0 ? "" : ", ", i, result);
    if (i != 0)
      body += fmt::format("  set_current_stream stream({})\n  synchronize %main\n", i);
    const std::string to = isStaged ? fmt::format("%dst{}", i) : fmt::format("%out{}", i);
    const std::string from = isStaged ? fmt::format("%src{}", i) : "%in";
    if (isStaged)
      body += fmt::format("  {} = allocate symmetric {}\n  {} = allocate symmetric {}\n"
                          "  set {}, %in\n",
                          to, result, from, source, from);
    body += fmt::format("  %c{} = collective {} {}, {}{}\n  wait %c{}\n", i, operation, to, from,
                        where, i);
    // A rank that receives no result must not copy one.
    if (isStaged && (kind != CollectiveKind::Reduce && team.empty()))
      body += fmt::format("  set %out{}, {}\n", i, to);
    else if (isStaged) {
      body += "  if ";
      const std::vector<int64_t> takers =
          kind == CollectiveKind::Reduce ? std::vector<int64_t>{root} : members();
      std::string closing;
      for (size_t t = 0; t < takers.size(); ++t)
        body += fmt::format("{}rank == {} {{\n    set %out{}, {}\n  }}\n", t == 0 ? "" : "  if ",
                            takers[t], i, to);
    }
  }
  body += "  set_current_stream %main\n  synchronize stream(1)\n  synchronize stream(2)\n";
  return head + ") {\n" + body + "}\n";
}

std::vector<double> CollectiveCase::input(int64_t rank, int64_t run) const {
  std::vector<double> values;
  // Factors are 1 and 2, so that products remain small.
  const bool isProduct = reduction == ReductionOperator::Product;
  for (int64_t i = 0; i < sourceElements(); ++i)
    values.push_back(static_cast<double>(isProduct ? 1 + (rank + i + run) % 2
                                                   : (rank * 7 + i * 3 + run * 5) % 11 - 4));
  return values;
}

std::optional<std::vector<double>> CollectiveCase::expected(int64_t rank, int64_t run) const {
  const std::vector<int64_t> all = members();
  if (!isMember(rank) || (kind == CollectiveKind::Reduce && rank != root))
    return std::nullopt;
  const auto self = static_cast<size_t>(llvm::find(all, rank) - all.begin());
  const auto block = static_cast<size_t>(elements);
  if (kind == CollectiveKind::Broadcast)
    return input(root, run);
  std::vector<double> values;
  for (int64_t member : all) {
    std::vector<double> given = input(member, run);
    if (kind == CollectiveKind::AllToAll || kind == CollectiveKind::ReduceScatter)
      given = std::vector<double>(given.begin() + static_cast<std::ptrdiff_t>(self * block),
                                  given.begin() + static_cast<std::ptrdiff_t>((self + 1) * block));
    if (!reduces(kind) || values.empty())
      values.insert(values.end(), given.begin(), given.end());
    else
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = combined(reduction, values[i], given[i]);
  }
  return values;
}

std::string CollectiveCase::str() const {
  return fmt::format("{}{} {} on {} ranks, team [{}], root {}, {} elements{}", name(kind).str(),
                     reduces(kind) ? " " + name(reduction).str() : std::string(), name(dtype).str(),
                     ranks, fmt::join(members(), ", "), root, elements, isStaged ? ", staged" : "");
}

std::vector<CollectiveCase> collectiveCases(int64_t ranks, DType dtype,
                                            const std::vector<int64_t> &blocks) {
  std::vector<std::vector<int64_t>> teams = {{}};
  if (ranks > 1)
    teams.push_back({ranks - 1}); // a single rank
  if (ranks > 2)
    teams.push_back({ranks - 1, 0}); // ranks out of order
  std::vector<CollectiveCase> cases;
  for (CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
        CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
    for (const std::vector<int64_t> &team : teams)
      for (int64_t elements : blocks)
        for (bool isStaged : {false, true}) {
          CollectiveCase each{.kind = kind,
                              .dtype = dtype,
                              .ranks = ranks,
                              .team = team,
                              .elements = elements,
                              .isStaged = isStaged};
          const std::vector<int64_t> members = each.members();
          each.root = members.back();
          cases.push_back(each);
          if (hasRoot(kind) && members.size() > 1) {
            each.root = members.front();
            cases.push_back(each);
          }
        }
  return cases;
}

} // namespace braid::test
