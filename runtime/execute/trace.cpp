//===- runtime/execute/trace.cpp - writes traces for Chrome and Perfetto ----------------------===//

#include "runtime/execute/trace.h"

#include "runtime/json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace braid {

namespace {

/// Identifies a transfer in a run. The sender and the receiver have equal keys.
struct TransferKey {
  uint32_t run;
  int64_t source, destination;
  uint32_t channel, sequence;
  auto operator<=>(const TransferKey &) const = default;
};

/// The point on a track at which an arrow starts or ends.
struct ArrowEnd {
  int64_t rank;
  uint32_t stream;
  int64_t atNs;
};

struct Arrow {
  std::optional<ArrowEnd> start, finish;
};

TransferKey keyOf(const Plan &plan, const Endpoint &endpoint, uint32_t run) {
  const bool sends = endpoint.direction == Direction::Send;
  return {run, sends ? plan.rank : endpoint.peer, sends ? endpoint.peer : plan.rank,
          endpoint.channel, endpoint.sequence};
}

/// Returns the kind of command at an end of an arrow. With get transfers, the sender signals and
/// the receiver copies. With put transfers, the sender copies or computes and the receiver awaits.
CommandKind arrowCommand(const Endpoint &endpoint) {
  const bool copies =
      (endpoint.protocol == Protocol::Get) == (endpoint.direction == Direction::Receive);
  if (copies)
    return endpoint.range.buffer == kPeerBuffer ? CommandKind::Matmul : CommandKind::Copy;
  return endpoint.direction == Direction::Send ? CommandKind::Signal : CommandKind::Await;
}

/// Returns the time at which an arrow starts or ends. An await starts before the data arrives, so
/// its arrow ends at the await's last nanosecond: the end of the span is outside the slice.
int64_t arrowTime(const Span &span, const Endpoint &endpoint) {
  if (arrowCommand(endpoint) != CommandKind::Await)
    return span.beginNs;
  return std::max(span.beginNs, span.endNs - 1);
}

/// Returns the output size of a command, or nullopt if the command neither moves nor computes data.
std::optional<int64_t> bytesOf(const Plan &plan, const Command &command) {
  std::optional<int64_t> bytes;
  if (command.kind == CommandKind::Group)
    bytes = 0; // stays 0 for a group of sends
  forEachOperand(plan, command, [&](const Range &range, Access access, OperandRole) {
    if (access == Access::Write)
      bytes = bytes.value_or(0) + range.bytes;
  });
  return bytes;
}

/// Writes a trace, one event per line.
class TraceWriter {
public:
  TraceWriter(llvm::ArrayRef<RankTrace> ranks, llvm::raw_ostream &os) : ranks_(ranks), os_(os) {}

  void write() {
    findStart();
    os_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const RankTrace &rank : ranks_)
      writeNames(*rank.plan);
    for (const RankTrace &rank : ranks_)
      writeSpans(rank);
    writeArrows();
    os_ << "\n]";
    if (!ranks_.empty())
      os_ << ",\"otherData\":" << jsonText([&](JsonWriter &json) { writeProgram(json); });
    os_ << "}\n";
  }

private:
  void findStart() {
    for (const RankTrace &rank : ranks_)
      for (const Span &span : rank.spans)
        startNs_ = std::min(startNs_, span.beginNs);
  }

  /// Embeds the program text, so that a trace is readable without its source.
  void writeProgram(JsonWriter &json) const {
    const Plan &plan = *ranks_.front().plan;
    json.object([&] {
      json.attribute("program", plan.text);
      json.attribute("source", plan.sourceName);
      json.attribute("ranks", plan.ranks);
      json.attribute("transport",
                     plan.transport == Transport::Messages ? "messages" : "peer-memory");
    });
  }

  /// Writes one event; `members` writes its remaining members.
  void writeEvent(llvm::StringRef name, llvm::StringRef phase, int64_t rank,
                  llvm::function_ref<void(JsonWriter &)> members) {
    os_ << (first_ ? "\n" : ",\n") << jsonText([&](JsonWriter &json) {
      json.object([&] {
        json.attribute("name", name);
        json.attribute("ph", phase);
        json.attribute("pid", rank);
        members(json);
      });
    });
    first_ = false;
  }

  /// Writes microseconds with full nanosecond precision, which a double cannot represent.
  static void writeTime(JsonWriter &json, llvm::StringRef key, int64_t ns) {
    json.attributeBegin(key);
    json.rawValue(fmt::format("{}.{:03}", ns / 1000, ns % 1000));
    json.attributeEnd();
  }

  void writeNames(const Plan &plan) {
    const auto writeName = [&](llvm::StringRef what, llvm::StringRef key, const auto &value,
                               std::optional<size_t> stream) {
      writeEvent(what, "M", plan.rank, [&](JsonWriter &json) {
        json.attributeObject("args", [&] { json.attribute(key, value); });
        if (stream)
          json.attribute("tid", static_cast<int64_t>(*stream));
      });
    };
    writeName("process_name", "name", fmt::format("rank {}", plan.rank), std::nullopt);
    writeName("process_sort_index", "sort_index", plan.rank, std::nullopt);
    for (size_t stream = 0; stream < plan.streams.size(); ++stream) {
      writeName("thread_name", "name", plan.streams[stream], stream);
      writeName("thread_sort_index", "sort_index", static_cast<int64_t>(stream), stream);
    }
  }

  void writeSpans(const RankTrace &rank) {
    std::vector<Span> spans = rank.spans;
    llvm::sort(spans, [](const Span &a, const Span &b) {
      return std::tie(a.stream, a.beginNs, a.endNs, a.tag.run, a.tag.command) <
             std::tie(b.stream, b.beginNs, b.endNs, b.tag.run, b.tag.command);
    });
    for (const Span &span : spans) {
      writeSlice(*rank.plan, span);
      noteArrow(*rank.plan, span);
    }
  }

  void writeSlice(const Plan &plan, const Span &span) {
    const Command &command = plan.commands[span.tag.command];
    const Origin &origin = plan.origins[command.origin];
    const auto writeArguments = [&](JsonWriter &json) {
      json.attribute("node", plan.sites[origin.site].text);
      json.attribute("place", place(plan, command.origin));
      if (origin.tripCount != 0)
        json.attributeArray("trip", [&] {
          for (uint32_t i = 0; i < origin.tripCount; ++i)
            json.value(plan.trips[origin.firstTrip + i]);
        });
      json.attribute("run", int64_t(span.tag.run));
      json.attribute("command", int64_t(span.tag.command));
      if (const std::optional<int64_t> bytes = bytesOf(plan, command))
        json.attribute("bytes", *bytes);
    };
    writeEvent(name(command.kind), "X", plan.rank, [&](JsonWriter &json) {
      json.attribute("cat", "command");
      json.attribute("tid", int64_t(span.stream));
      json.attributeObject("args", [&] { writeArguments(json); });
      writeTime(json, "ts", span.beginNs - startNs_);
      writeTime(json, "dur", span.endNs - span.beginNs);
    });
  }

  void noteArrow(const Plan &plan, const Span &span) {
    const Command &command = plan.commands[span.tag.command];
    if (command.endpoint == kNone)
      return;
    const Endpoint &endpoint = plan.endpoints[command.endpoint];
    if (command.kind != arrowCommand(endpoint))
      return;
    Arrow &arrow = arrows_[keyOf(plan, endpoint, span.tag.run)];
    auto &end = endpoint.direction == Direction::Send ? arrow.start : arrow.finish;
    end = ArrowEnd{plan.rank, span.stream, arrowTime(span, endpoint)};
  }

  /// Writes only complete arrows, because a rank may be missing or may have stopped early.
  void writeArrows() {
    int64_t id = 0;
    for (const auto &[key, arrow] : arrows_) {
      if (!arrow.start || !arrow.finish)
        continue;
      ++id;
      writeArrowEnd("s", id, *arrow.start);
      writeArrowEnd("f", id, *arrow.finish);
    }
  }

  void writeArrowEnd(llvm::StringRef phase, int64_t id, const ArrowEnd &end) {
    writeEvent("transfer", phase, end.rank, [&](JsonWriter &json) {
      json.attribute("cat", "transfer");
      json.attribute("id", id);
      json.attribute("tid", int64_t(end.stream));
      if (phase == "f")
        json.attribute("bp", "e"); // binds to the enclosing slice, not to the next one
      writeTime(json, "ts", end.atNs - startNs_);
    });
  }

  llvm::ArrayRef<RankTrace> ranks_;
  llvm::raw_ostream &os_;
  int64_t startNs_ = INT64_MAX;
  bool first_ = true;
  std::map<TransferKey, Arrow> arrows_;
};

} // namespace

void writeTrace(llvm::ArrayRef<RankTrace> ranks, llvm::raw_ostream &os) {
  TraceWriter(ranks, os).write();
}

} // namespace braid
