//===- tools/bench/worker/channel.h - what the bench and a worker say -------------------------===//
//
// The bench asks for one row at a time, of its own ranks or of a rival's worker, and whoever is not
// asked waits without using the machine. Both understand the same lines of JSON:
//
//   from a worker when it is ready   {"id": 0, "device": "..."}
//   request    {"id": 7, "m": 64, "n": 64, "k": 64, "row": "pairwise;streams=2", "graph": false,
//               "warm_up": 5, "iterations": 20, "limit_us": 200000, "warm_up_us": 100000,
//               "idle_gap_us": 30, "bursts": 5}; all of them are those of BenchTiming
//   answer     {"id": 7, "samples_us": [81.2, ...], "burst_us": [62.5, ...], "choice": "..."}, the
//              choice only of `auto`, or {"id": 7, "failure": "..."}, with "over": true if that has
//              ended the worker, and with the exit code as "code" if the row was refused
//   request    {"id": 8, "end": true}: the worker ends
//
// A worker keeps what it prepared for a row until a request names another shape.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace braid::tools {

class Channel {
public:
  Channel() = default;
  /// Both may be the same file, duplicated.
  Channel(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}
  bool isOpen() const { return in_.isValid(); }

  /// Writes one line; blocks until the other side has room for it. PeerFailed if it is gone.
  Status send(const nlohmann::json &message);
  /// The next line that is a JSON object; empty if none has come within `patience`. PeerFailed at
  /// the end of the input.
  Result<std::optional<nlohmann::json>> receive(std::chrono::milliseconds patience);

private:
  std::optional<nlohmann::json> takeLine();

  FileDescriptor in_, out_;
  std::string received_; ///< no line yet, or more than one
};

} // namespace braid::tools
