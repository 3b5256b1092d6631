//===- runtime/job/network/host_messages.h - what the hosts of a job tell each other ----------===//
//
// The bodies of frames of kinds Host*. What reads them is a function of bytes only, so that it can
// be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/other_hosts.h"

namespace braid {

/// Who a host is. Its number is in the handshake.
struct HostHello {
  int64_t hosts = 1, ranks = 1;
  std::string encode() const;
  /// BadInput for another version, or what encode() does not make.
  static Result<HostHello> decode(llvm::StringRef body);
};

/// Step and parts; the sequence is the frame's.
Frame encodeGathered(FrameKind kind, const GatheredParts &gathered);
Result<GatheredParts> decodeGathered(const Frame &frame, size_t ranks);

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef body, int64_t ranks);

/// Two times: of the clock of who pings, and, in an answer, of who answers; in a ping, the round
/// trip at present.
struct HostPing {
  uint64_t sentNs = 0, otherNs = 0;
  std::string encode() const;
  static Result<HostPing> decode(llvm::StringRef body);
};

/// Where the ranks `first` to `first + count - 1` are, as `memory` has it; `offsetNs` is added to
/// all times.
void appendSlots(const JobMemory &memory, int64_t first, int64_t count, int64_t offsetNs,
                 std::string &body);
/// Writes into `memory` what such a body says of ranks for which `isTheirs`. BadInput if it says
/// anything of others.
template <class IsTheirs>
Status applySlots(llvm::StringRef body, JobMemory &memory, int64_t offsetNs, IsTheirs isTheirs);

// -- For applySlots. --

/// Of one rank, taken from the front of `body`.
struct SlotReader {
  llvm::StringRef body;
  bool isAtEnd() const { return body.empty(); }
  /// BadInput at the end of the message.
  Result<int64_t> rank();
  Status fields(RankSlot &slot, int64_t offsetNs);
};

template <class IsTheirs>
Status applySlots(llvm::StringRef body, JobMemory &memory, int64_t offsetNs, IsTheirs isTheirs) {
  SlotReader reader{body};
  while (!reader.isAtEnd()) {
    Result<int64_t> rank = reader.rank();
    if (!rank.isOk())
      return rank.status();
    if (*rank < 0 || *rank >= memory.ranks() || !isTheirs(*rank))
      return {StatusCode::BadInput, "got the place of a rank that is not the other host's"};
    if (Status status = reader.fields(memory.slot(*rank), offsetNs); !status.isOk())
      return status;
  }
  return Status::ok();
}

} // namespace braid
