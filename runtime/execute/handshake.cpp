//===- runtime/execute/handshake.cpp - what ranks tell each other while preparing -------------===//

#include "runtime/execute/handshake.h"

#include "ir/failure.h"

#include "runtime/tune/measurement_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace braid {
namespace {

constexpr const char *kVersion = "5"; ///< version of the layout of messages

/// One line.
std::string encodeFields(std::vector<std::string> fields) {
  for (std::string &field : fields)
    field = escaped(field);
  return llvm::join(fields, "\t");
}

std::vector<std::string> decodeFields(llvm::StringRef line) {
  llvm::SmallVector<llvm::StringRef> fields;
  line.split(fields, '\t');
  std::vector<std::string> decoded;
  for (llvm::StringRef field : fields)
    decoded.push_back(unescaped(field));
  return decoded;
}

/// One line. There may be thousands, for each rank to read.
std::string encodeEndpoint(const PublishedEndpoint &e) {
  std::string line = fmt::format("{} {} {} {} {} {} {} {} {}", static_cast<int>(e.direction),
                                 e.peer, e.channel, e.sequence, static_cast<int>(e.dtype), e.bytes,
                                 e.flagOffset, e.dataOffset, e.where);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + '\n';
}

template <class Integer> bool take(llvm::StringRef &line, Integer &value) {
  return !line.consumeInteger(10, value) && line.consume_front(" ");
}

/// False if that is no line of encodeEndpoint().
bool decodeEndpoint(llvm::StringRef line, PublishedEndpoint &e) {
  int direction = 0, dtype = 0;
  const bool isRead = take(line, direction) && take(line, e.peer) && take(line, e.channel) &&
                      take(line, e.sequence) && take(line, dtype) && take(line, e.bytes) &&
                      take(line, e.flagOffset) && take(line, e.dataOffset);
  e.direction = static_cast<Direction>(direction);
  e.dtype = static_cast<DType>(dtype);
  e.where = line.str();
  return isRead && direction >= 0 && direction <= 1 && dtype >= 0 &&
         dtype <= static_cast<int>(DType::F64);
}

} // namespace

std::string Hello::encode() const {
  std::string text = encodeFields({kVersion, program, std::to_string(fingerprint), memory, flags,
                                   isReproducible ? "yes" : "no"}) +
                     '\n';
  for (const PublishedEndpoint &endpoint : endpoints)
    text += encodeEndpoint(endpoint);
  return text;
}

Result<Hello> Hello::decode(llvm::StringRef text, int64_t reader) {
  auto [head, lines] = text.split('\n');
  const std::vector<std::string> fields = decodeFields(head);
  const Status malformed = badInput("a rank's message is not of this version's form");
  if (fields.size() != 6 || fields[0] != kVersion || (fields[5] != "yes" && fields[5] != "no"))
    return malformed;
  Hello hello{fields[1], 0, fields[3], fields[4], {}, fields[5] == "yes"};
  if (llvm::StringRef(fields[2]).getAsInteger(10, hello.fingerprint))
    return malformed;
  while (!lines.empty()) {
    llvm::StringRef line;
    std::tie(line, lines) = lines.split('\n');
    PublishedEndpoint endpoint;
    if (!decodeEndpoint(line, endpoint))
      return malformed;
    if (endpoint.peer == reader)
      hello.endpoints.push_back(std::move(endpoint));
  }
  return hello;
}

Status compareDevices(const std::vector<Hello> &ranks) {
  std::vector<std::string> choices;
  for (const Hello &rank : ranks)
    choices.push_back(encodeChoices({{"reproducible", rank.isReproducible ? "yes" : "no"}}));
  return compareChoices(choices);
}

bool haveSameProgram(const std::vector<Hello> &ranks) {
  return llvm::all_of(
      ranks, [&](const Hello &hello) { return hello.fingerprint == ranks[0].fingerprint; });
}

namespace {

/// "rank 2", "ranks 0 and 2", "ranks 0, 2-5 and 7".
std::string rankList(const std::vector<size_t> &ranks) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    if (end - i > 2) {
      runs.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k)
        runs.push_back(std::to_string(ranks[k]));
    }
    i = end;
  }
  std::string last = runs.back();
  runs.pop_back();
  const char *noun = ranks.size() == 1 ? "rank" : "ranks";
  if (runs.empty())
    return fmt::format("{} {}", noun, last);
  return fmt::format("{} {} and {}", noun, fmt::join(runs, ", "), last);
}

/// The ranks that say the same, in the order of the first of each.
std::vector<std::pair<std::string, std::vector<size_t>>>
groupRanks(const std::vector<std::string> &sayings) {
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;
  for (size_t rank = 0; rank < sayings.size(); ++rank) {
    auto known =
        llvm::find_if(groups, [&](const auto &group) { return group.first == sayings[rank]; });
    if (known == groups.end())
      groups.push_back({sayings[rank], {rank}});
    else
      known->second.push_back(rank);
  }
  return groups;
}

} // namespace

std::string listByRank(const std::vector<std::string> &sayings) {
  std::string lines;
  for (const auto &[saying, ranks] : groupRanks(sayings))
    if (!saying.empty())
      lines += fmt::format("\n  {}: {}", rankList(ranks), saying);
  return lines;
}

std::string firstDifference(const std::vector<std::string> &texts) {
  std::vector<llvm::StringRef> rest(texts.begin(), texts.end());
  for (int line = 1; llvm::any_of(rest, [](llvm::StringRef text) { return !text.empty(); });
       ++line) {
    std::vector<std::string> heads;
    for (llvm::StringRef &text : rest) {
      auto [head, tail] = text.split('\n');
      heads.push_back(text.empty() ? "(the text has ended)" : head.str());
      text = tail;
    }
    auto groups = groupRanks(heads);
    if (groups.size() == 1)
      continue;
    std::string lines;
    for (const auto &[head, ranks] : groups)
      lines += fmt::format("\n  {}, line {}: {}", rankList(ranks), line,
                           llvm::StringRef(head).trim().str());
    return lines;
  }
  return "";
}

Status programDifference(const std::vector<Hello> &ranks, const std::vector<std::string> &texts) {
  std::vector<std::string> names;
  for (const Hello &hello : ranks)
    names.push_back(fmt::format("@{} ({:016x})", hello.program, hello.fingerprint));
  return badInput("expected all ranks to run one program, got several{}{}", listByRank(names),
                  firstDifference(texts));
}

std::string encodeChoices(const std::vector<Choice> &choices) {
  std::vector<std::string> fields;
  for (const Choice &choice : choices) {
    fields.push_back(choice.name);
    fields.push_back(choice.value);
  }
  return encodeFields(std::move(fields));
}

/// Nothing if `text` is not what encodeChoices() makes.
static std::optional<std::vector<Choice>> decodeChoices(const std::string &text) {
  const std::vector<std::string> fields = decodeFields(text);
  if (fields.size() % 2 != 0)
    return std::nullopt;
  std::vector<Choice> choices;
  for (size_t i = 0; i < fields.size(); i += 2)
    choices.push_back({fields[i], fields[i + 1]});
  return choices;
}

Status compareChoices(const std::vector<std::string> &texts) {
  std::vector<std::vector<Choice>> ranks;
  for (const std::string &text : texts) {
    std::optional<std::vector<Choice>> choices = decodeChoices(text);
    if (!choices || (!ranks.empty() && choices->size() != ranks[0].size()))
      return badInput(
          "expected all ranks to come to the same call of the same version, but rank {} "
          "is in another",
          ranks.size());
    ranks.push_back(std::move(*choices));
  }
  for (size_t i = 0; !ranks.empty() && i < ranks[0].size(); ++i) {
    std::vector<std::string> values;
    for (const std::vector<Choice> &choices : ranks)
      values.push_back(fmt::format("{} {}", choices[i].name, choices[i].value));
    auto groups = groupRanks(values);
    if (groups.size() == 1)
      continue;
    std::string message =
        fmt::format("expected all ranks to have the same {}, got", ranks[0][i].name);
    if (llvm::any_of(ranks, [&](const auto &choices) {
          return llvm::StringRef(choices[i].value).contains('\n');
        })) { // a text: the line that differs is enough
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        values[rank] = ranks[rank][i].value;
      return badInput("{}{}", message, firstDifference(values));
    }
    return Status(StatusCode::BadInput, message + listByRank(values));
  }
  return Status::ok();
}

//===- Collectives ----------------------------------------------------------------------------===//

std::string encodeCollectives(const Plan &plan, bool areInWindows) {
  std::string text;
  const auto placeOf = [&](const Range &range) {
    return plan.buffers[range.buffer].offset + range.offset;
  };
  for (const Command &command : plan.commands) {
    if (command.kind != CommandKind::Collective)
      continue;
    const PlanCollective &c = plan.collectives[command.collective];
    const std::string by = c.reduction ? " " + name(*c.reduction).str() : "";
    const std::string root = c.root < 0 ? "" : fmt::format(" root {}", c.root);
    std::string where = describeOrigin(plan, command.origin);
    std::replace(where.begin(), where.end(), '\n', ' ');
    const std::string places = areInWindows ? fmt::format(", in windows from byte {} to byte {}",
                                                          placeOf(c.src), placeOf(c.dst))
                                            : "";
    text += fmt::format("{}\t{}{} of {} from {} to {} bytes{}{}\t{}\n", fmt::join(c.team, " "),
                        name(c.kind).str(), by, name(c.dtype).str(), c.src.bytes, c.dst.bytes, root,
                        places, where);
  }
  return text;
}

namespace {

struct PublishedCollective {
  std::string what, where;
};
/// A rank's collectives by team, in issue order.
using CollectivesOfRank = std::map<std::vector<int64_t>, std::vector<PublishedCollective>>;

Result<CollectivesOfRank> decodeCollectives(llvm::StringRef text) {
  CollectivesOfRank found;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto [members, rest] = line.split('\t');
    auto [what, where] = rest.split('\t');
    std::vector<int64_t> team;
    for (int64_t member = 0; !members.empty(); members = members.ltrim()) {
      if (members.consumeInteger(10, member))
        return badInput("a rank's message is not of this version's form");
      team.push_back(member);
    }
    found[team].push_back({what.str(), where.str()});
  }
  return found;
}

/// Compares the collectives of one team, whose members have `lists`.
Status compareLists(const std::vector<int64_t> &team,
                    const std::vector<std::vector<PublishedCollective>> &lists) {
  const PublishedCollective kNone{"none", "its program"};
  size_t most = 0;
  for (const auto &list : lists)
    most = std::max(most, list.size());
  for (size_t i = 0; i < most; ++i) {
    const auto at = [&](size_t member) -> const PublishedCollective & {
      return i < lists[member].size() ? lists[member][i] : kNone;
    };
    for (size_t member = 1; member < lists.size(); ++member)
      if (at(member).what != at(0).what)
        return badInput("expected the members of team [{}] to issue the same collectives in one "
                        "order, got as number {}\n  rank {}: {} ({})\n  rank {}: {} ({})",
                        fmt::join(team, ", "), i, team[0], at(0).what, at(0).where, team[member],
                        at(member).what, at(member).where);
  }
  return Status::ok();
}

} // namespace

Result<std::vector<std::vector<int64_t>>>
compareCollectives(const std::vector<std::string> &texts) {
  std::vector<CollectivesOfRank> ranks;
  std::set<std::vector<int64_t>> teams;
  for (const std::string &text : texts) {
    ranks.push_back(BRAID_TRY(decodeCollectives(text)));
    for (const auto &[team, list] : ranks.back())
      teams.insert(team);
  }
  for (const std::vector<int64_t> &team : teams) {
    std::vector<std::vector<PublishedCollective>> lists;
    for (int64_t member : team) {
      if (member < 0 || member >= static_cast<int64_t>(ranks.size()))
        return badInput("a rank's message is not of this version's form");
      lists.push_back(ranks[static_cast<size_t>(member)][team]);
    }
    BRAID_TRY(compareLists(team, lists));
  }
  return std::vector<std::vector<int64_t>>(teams.begin(), teams.end());
}

Result<const PublishedEndpoint *> matchingEndpoint(const std::vector<Hello> &ranks, int64_t rank,
                                                   const PublishedEndpoint &mine) {
  for (const PublishedEndpoint &other : ranks[static_cast<size_t>(mine.peer)].endpoints) {
    if (other.peer != rank || other.direction == mine.direction || other.channel != mine.channel ||
        other.sequence != mine.sequence)
      continue;
    if (other.bytes != mine.bytes || other.dtype != mine.dtype)
      return badInput(
          "{} on rank {} moves {} bytes of {}, but meets {} on rank {}, which moves {} bytes of {}",
          mine.where, rank, mine.bytes, name(mine.dtype).str(), other.where, mine.peer, other.bytes,
          name(other.dtype).str());
    return &other;
  }
  const char *expected = mine.direction == Direction::Send ? "receive" : "send";
  return badInput("{} on rank {} meets no {} on rank {}: expected number {} of that pair",
                  mine.where, rank, expected, mine.peer, mine.sequence + 1);
}

} // namespace braid
