//===- runtime/handshake.cpp - what ranks tell each other while preparing ---------------------===//

#include "runtime/handshake.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1; ///< of the message's layout

Json encodeEndpoint(const PublishedEndpoint &e) {
  return Json::array({static_cast<int>(e.direction), e.peer, e.channel, e.sequence,
                      static_cast<int>(e.dtype), e.bytes, e.wordOffset, e.dataOffset, e.where});
}

bool isEndpoint(const Json &row) {
  if (!row.is_array() || row.size() != 9 || !row[8].is_string())
    return false;
  for (size_t i = 0; i < 8; ++i)
    if (!row[i].is_number_integer())
      return false;
  return row[0] >= 0 && row[0] <= 1 && row[4] >= 0 && row[4] <= static_cast<int>(DType::F64);
}

PublishedEndpoint decodeEndpoint(const Json &row) {
  return {static_cast<Direction>(row[0].get<int>()),
          row[1].get<int64_t>(),
          row[2].get<uint32_t>(),
          row[3].get<uint32_t>(),
          static_cast<DType>(row[4].get<int>()),
          row[5].get<int64_t>(),
          row[6].get<int64_t>(),
          row[7].get<int64_t>(),
          row[8].get<std::string>()};
}

bool isHello(const Json &message) {
  return message.is_object() && message.value("version", Json()) == kVersion &&
         message.value("program", Json()).is_string() &&
         message.value("fingerprint", Json()).is_number_unsigned() &&
         message.value("memory", Json()).is_string() &&
         message.value("endpoints", Json()).is_array();
}

} // namespace

std::string Hello::encode() const {
  Json rows = Json::array();
  for (const PublishedEndpoint &endpoint : endpoints)
    rows.push_back(encodeEndpoint(endpoint));
  // Source text may hold any bytes; a name that is not UTF-8 must not stop a run.
  return Json{{"version", kVersion},
              {"program", program},
              {"fingerprint", fingerprint},
              {"memory", memory},
              {"endpoints", std::move(rows)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Hello> Hello::decode(const std::string &text) {
  Json message = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Status malformed(StatusCode::BadInput, "a rank's message is not of this version's form");
  if (!isHello(message))
    return malformed;
  Hello hello{message["program"], message["fingerprint"], message["memory"], {}};
  for (const Json &row : message["endpoints"]) {
    if (!isEndpoint(row))
      return malformed;
    hello.endpoints.push_back(decodeEndpoint(row));
  }
  return hello;
}

Status compareFingerprints(const std::vector<Hello> &ranks) {
  for (size_t r = 1; r < ranks.size(); ++r)
    if (ranks[r].fingerprint != ranks[0].fingerprint)
      return Status(StatusCode::BadInput,
                    fmt::format("ranks run different programs: rank 0 has @{} ({:016x}), rank {} "
                                "has @{} ({:016x})",
                                ranks[0].program, ranks[0].fingerprint, r, ranks[r].program,
                                ranks[r].fingerprint));
  return Status::ok();
}

Result<const PublishedEndpoint *> matchingEndpoint(const std::vector<Hello> &ranks, int64_t rank,
                                                   const PublishedEndpoint &mine) {
  for (const PublishedEndpoint &other : ranks[static_cast<size_t>(mine.peer)].endpoints) {
    if (other.peer != rank || other.direction == mine.direction || other.channel != mine.channel ||
        other.sequence != mine.sequence)
      continue;
    if (other.bytes != mine.bytes || other.dtype != mine.dtype)
      return Status(
          StatusCode::BadInput,
          fmt::format("{} on rank {} moves {} bytes of {}, but meets {} on rank {}, which "
                      "moves {} bytes of {}",
                      mine.where, rank, mine.bytes, name(mine.dtype).str(), other.where, mine.peer,
                      other.bytes, name(other.dtype).str()));
    return &other;
  }
  const char *expected = mine.direction == Direction::Send ? "receive" : "send";
  return Status(StatusCode::BadInput,
                fmt::format("{} on rank {} meets no {} on rank {}: expected number {} of that pair",
                            mine.where, rank, expected, mine.peer, mine.sequence + 1));
}

} // namespace braid
