//===- runtime/execute/handshake.cpp - the messages that ranks exchange while preparing -------===//

#include "runtime/execute/handshake.h"

#include "ir/failure.h"
#include "runtime/json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace braid {
namespace {

constexpr const char *kVersion = "7"; ///< version of the message format

/// Encodes the fields on one line.
std::string encodeFields(const std::vector<std::string> &fields) {
  return jsonText([&](JsonWriter &json) { json.value(fields); });
}

/// Returns a single field if `line` was not produced by encodeFields().
std::vector<std::string> decodeFields(llvm::StringRef line) {
  const Result<JsonValue> json = parseJson(line);
  const JsonArray *array = json ? json->getAsArray() : nullptr;
  if (!array)
    return {line.str()};
  std::vector<std::string> decoded;
  for (const JsonValue &field : *array)
    decoded.push_back(valueOr(field.getAsString(), "").str());
  return decoded;
}

/// Encodes an endpoint compactly on one line, because a rank may publish thousands of endpoints.
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

/// Returns false if `line` was not produced by encodeEndpoint().
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
  std::string text =
      encodeFields({kVersion, program, std::to_string(fingerprint), memory, flags}) + '\n';
  for (const PublishedEndpoint &endpoint : endpoints)
    text += encodeEndpoint(endpoint);
  return text;
}

Result<Hello> Hello::decode(llvm::StringRef text, int64_t reader) {
  auto [head, lines] = text.split('\n');
  const std::vector<std::string> fields = decodeFields(head);
  const Status malformed =
      badInput("a rank sent a message in the format of a different version of Braid");
  if (fields.size() != 5 || fields[0] != kVersion)
    return malformed;
  Hello hello{fields[1], 0, fields[3], fields[4], {}};
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

bool haveSameProgram(const std::vector<Hello> &ranks) {
  return llvm::all_of(
      ranks, [&](const Hello &hello) { return hello.fingerprint == ranks[0].fingerprint; });
}

namespace {

/// Formats ranks, for example "rank 2", "ranks 0 and 2" or "ranks 0, 2-5 and 7".
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

/// Groups ranks with equal texts, and sorts the groups by first rank.
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
      heads.push_back(text.empty() ? "(end of text)" : head.str());
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
  return badInput("expected all ranks to run the same program, got different ones{}{}",
                  listByRank(names), firstDifference(texts));
}

std::string encodeChoices(const std::vector<Choice> &choices) {
  std::vector<std::string> fields;
  for (const Choice &choice : choices) {
    fields.push_back(choice.name);
    fields.push_back(choice.value);
  }
  return encodeFields(fields);
}

Status compareChoices(const std::vector<std::string> &texts) {
  std::vector<std::vector<std::string>> ranks; // alternating names and values
  for (const std::string &text : texts) {
    ranks.push_back(decodeFields(text));
    if (ranks.back().size() % 2 != 0 || ranks.back().size() != ranks.front().size())
      return badInput("expected all ranks to make the same call with the same version of Braid, "
                      "but rank {} did not",
                      ranks.size() - 1);
  }
  for (size_t i = 0; !ranks.empty() && i < ranks.front().size(); i += 2) {
    std::vector<std::string> values, named;
    for (const std::vector<std::string> &fields : ranks) {
      values.push_back(fields[i + 1]);
      named.push_back(fmt::format("{} {}", fields[i], fields[i + 1]));
    }
    if (groupRanks(named).size() == 1)
      continue;
    // For multi-line values, shows only the first line that differs.
    const bool areTexts = llvm::any_of(
        values, [](const std::string &value) { return value.find('\n') != std::string::npos; });
    return badInput("expected all ranks to have the same {}, got{}", ranks.front()[i],
                    areTexts ? firstDifference(values) : listByRank(named));
  }
  return Status::ok();
}

Result<const PublishedEndpoint *> matchingEndpoint(const std::vector<Hello> &ranks, int64_t rank,
                                                   const PublishedEndpoint &mine) {
  for (const PublishedEndpoint &other : ranks[static_cast<size_t>(mine.peer)].endpoints) {
    if (other.peer != rank || other.direction == mine.direction || other.channel != mine.channel ||
        other.sequence != mine.sequence)
      continue;
    if (other.bytes != mine.bytes || other.dtype != mine.dtype)
      return badInput(
          "{} on rank {} moves {} bytes of {}, but the matching {} on rank {} moves {} bytes of {}",
          mine.where, rank, mine.bytes, name(mine.dtype).str(), other.where, mine.peer, other.bytes,
          name(other.dtype).str());
    return &other;
  }
  const char *expected = mine.direction == Direction::Send ? "receive" : "send";
  return badInput(
      "{} on rank {} has no matching {} on rank {}: expected at least {} for this pair of ranks",
      mine.where, rank, expected, mine.peer, mine.sequence + 1);
}

} // namespace braid
