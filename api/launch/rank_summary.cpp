//===- api/launch/rank_summary.cpp - what each rank has to say when its runs are done ---------===//

#include "api/launch/rank_summary.h"

#include <cstring>

namespace braid {
namespace {

// Copied as they are: all ranks are processes of one program.
struct Header {
  double runSeconds;
  int64_t elementsCompared, clockErrorNs;
  uint64_t spans, digests;
};

struct Row {
  uint32_t command, run, stream, unused;
  int64_t beginNs, endNs;
};

template <class T> void appendBytes(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

template <class T> T at(const std::string &bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

} // namespace

std::string RankSummary::encode() const {
  std::string bytes;
  bytes.reserve(sizeof(Header) + digests.size() * sizeof(uint64_t) + spans.size() * sizeof(Row));
  appendBytes(bytes,
              Header{runSeconds, elementsCompared, clockErrorNs, spans.size(), digests.size()});
  for (uint64_t digest : digests)
    appendBytes(bytes, digest);
  for (const Span &span : spans)
    appendBytes(bytes,
                Row{span.tag.command, span.tag.run, span.stream, 0, span.beginNs, span.endNs});
  return bytes;
}

Result<RankSummary> RankSummary::decode(const std::string &bytes, const Plan &plan) {
  const Status malformed(StatusCode::BadInput, "a rank's summary is not of this version's form");
  if (bytes.size() < sizeof(Header))
    return malformed;
  auto header = at<Header>(bytes, 0);
  size_t room = bytes.size() - sizeof(Header);
  if (header.digests > room / sizeof(uint64_t))
    return malformed;
  room -= header.digests * sizeof(uint64_t);
  if (room % sizeof(Row) != 0 || room / sizeof(Row) != header.spans)
    return malformed;
  RankSummary summary{.runSeconds = header.runSeconds,
                      .elementsCompared = header.elementsCompared,
                      .clockErrorNs = header.clockErrorNs};
  size_t offset = sizeof(Header);
  for (; summary.digests.size() < header.digests; offset += sizeof(uint64_t))
    summary.digests.push_back(at<uint64_t>(bytes, offset));
  for (; offset < bytes.size(); offset += sizeof(Row)) {
    auto row = at<Row>(bytes, offset);
    if (row.command >= plan.commands.size() || row.stream >= plan.streams.size())
      return malformed;
    summary.spans.push_back({{&plan, row.command, row.run}, row.stream, row.beginNs, row.endNs});
  }
  return summary;
}

} // namespace braid
