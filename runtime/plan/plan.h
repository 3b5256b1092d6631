//===- runtime/plan/plan.h - one rank's program: flat, final and free of addresses ------------===//
//
// A Plan is a Program specialised for one rank: loops unrolled, conditions decided, indices
// evaluated, streams, events, signal flags and arena offsets assigned, every operand a byte range
// of a buffer. The checker, the simulator and the executor all read it; no protocol hides in a
// backend.
//
// A transfer has two endpoints, one on each rank, and two flags. Each endpoint owns the flag that
// its rank awaits, in its own memory, and signals the flag of the matching endpoint on the peer:
//
//   get   sender    signal                       ...  await at `wait %s`    (source may be reused)
//         receiver  await, copy from peer, signal  ...  (nothing) at `wait %r`
//   put   receiver  signal                       ...  await at `wait %r`    (data has arrived)
//         sender    await, copy to peer, signal    ...  (nothing) at `wait %s`
//
// A sender that computes what it sends has a GEMM in place of the copy.
//
// A signal writes the number of the run (its epoch, 1, 2, ...), or a mark where flags do not count
// (PeerMemory::countsRuns); an await passes when the flag has reached the epoch of its own run. One
// endpoint only writes a flag, once a run, so no signal is lost or taken twice, and no reset is
// needed between runs.
//
// Ranks of different hosts reach no memory of each other: a transfer between them is a message, and
// a collective of a team on several hosts stays whole. Where ranks send messages anyway
// (Transport::Messages) all are so, and there are no endpoints. Sends and receives that start
// together are a group. Groups and collectives follow one another in issue order, by streams and
// events.
//
// On several hosts, p2p nodes between which a rank issues nothing else are posted together,
// wherever the peers are, and issued as
//
//   signals of the passive sides | the group | awaits of the active sides, copies, their signals
//
// A program that is deadlock-free with messages only remains so in this mixed mode. Its groups are
// those of messages only, less the transfers within a host. No await and no copy precedes a message
// that was posted with it, and a signal waits for nothing. An await passes by a signal that its
// peer issues before its group, where messages would need that group to start; and the await at
// `wait` passes by a copy right after that group, where messages would need the group to end.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/pointwise.h"
#include "ir/program.h"
#include "runtime/plan/shift.h"
#include "runtime/plan/transport.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace braid {

enum class BufferKind : uint8_t {
  Input,     ///< the caller's; its address may change from run to run
  Output,    ///< the caller's
  Symmetric, ///< in the symmetric arena, which peers can reach
  Device,    ///< in the rank's private arena
};

struct PlanBuffer {
  BufferKind kind;
  int64_t bytes;
  int64_t offset;   ///< bytes from the start of its arena; the parameter's number for the caller's
  std::string name; ///< as in the program, for messages
};

/// `Range::buffer` of the peer's side of a copy, or of a GEMM's result: the range that the matching
/// endpoint on the peer names. It becomes an address when handles have been exchanged.
inline constexpr uint32_t kPeerBuffer = ~0u;

/// Bytes [offset, offset + bytes) of a buffer.
struct Range {
  uint32_t buffer = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Range &) const = default;
};

/// Whether both have a byte.
inline bool overlap(const Range &a, const Range &b) {
  return a.bytes > 0 && b.bytes > 0 && a.buffer == b.buffer && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

/// Bytes of a range, from `offset` of it on.
inline Range cut(const Range &range, int64_t offset, int64_t bytes) {
  return {range.buffer, range.offset + offset, bytes};
}

/// Which of a rank's writes a signal makes known to the peer.
enum class Published : uint8_t {
  Nothing, ///< none: the peer may write what this rank has read
  Own,     ///< its writes to its own memory: the peer may copy from there
  Peers,   ///< its writes to the peer's memory
};

/// One rank's side of one transfer. `channel` is the number of the share_mem_handles node in text
/// order; (source, destination, channel, sequence) names a transfer among all ranks.
struct Endpoint {
  Direction direction;
  Protocol protocol;
  int64_t peer;
  uint32_t channel;
  uint32_t sequence = 0; ///< 0, 1, ... among the transfers of the same direction, peer and channel
  Range range;           ///< the local side; where a GEMM makes what is sent, the peer's
  DType dtype;
  uint32_t flag = 0; ///< the flag that this rank awaits for this transfer
  uint32_t origin;   ///< index into Plan::origins
  /// Spells out messages (spell_out.h): no flag stands for its signals, and any memory is in reach.
  bool isOfMessages = false;
  /// Only says that a rank has come. Then `isOfMessages`, too.
  bool isOfMeeting = false;

  /// The writes that the one signal of this rank publishes.
  Published published() const {
    if (direction == Direction::Receive)
      return Published::Nothing;
    return protocol == Protocol::Get ? Published::Own : Published::Peers;
  }
};

/// A node of the program that commands come from.
struct Site {
  Location location;
  std::string text; ///< the node as printed: "%r = p2p recv %block from (rank + %i) mod 8 via %h"
};

/// One execution of a site: with the values of the loop indices around it, outermost first.
struct Origin {
  uint32_t site;
  uint32_t firstTrip; ///< index into Plan::trips
  uint32_t tripCount;
};

enum class CommandKind : uint8_t {
  Copy,       ///< dst <- src; one of the two may be the peer's side of `endpoint`
  Matmul,     ///< Plan::matmuls[matmul]
  Sum,        ///< Plan::sums[sum]
  Pointwise,  ///< Plan::pointwise[pointwise]
  Signal,     ///< writes the epoch into the flag of the endpoint matching `endpoint`, on its peer
  Await,      ///< passes when this rank's `flag` has reached the epoch
  Record,     ///< `event` now stands for all that was issued to this stream so far
  WaitEvent,  ///< the stream waits for `event`, as recorded last before in issue order
  Group,      ///< Plan::groups[group]
  Collective, ///< Plan::collectives[collective]
};
llvm::StringRef name(CommandKind kind);

inline constexpr uint32_t kNone = ~0u;

/// Issued to `stream` in the order of Plan::commands. Stream 0 is the caller's.
struct Command {
  CommandKind kind;
  DType dtype = DType::F32;
  uint32_t stream = 0;
  uint32_t origin = 0;
  uint32_t endpoint = kNone;   ///< Signal, Await, Copy from or to a peer, Matmul to one
  uint32_t flag = kNone;       ///< Await
  uint32_t event = kNone;      ///< Record, WaitEvent
  uint32_t matmul = kNone;     ///< Matmul
  uint32_t sum = kNone;        ///< Sum
  uint32_t pointwise = kNone;  ///< Pointwise
  uint32_t group = kNone;      ///< Group, and what spells it out
  uint32_t collective = kNone; ///< Collective, and what spells it out
  Range dst = {}, src = {};    ///< Copy
};

/// c[m, n] = a[m, k] · b, plus bias[n] in every row or addend[m, n], if there is one of them,
/// rounded once. b is [k, n], or [n, k] if `transposeB`. Row-major and contiguous.
struct PlanMatmul {
  DType dtype;
  int64_t m, n, k;
  bool transposeB;
  Range a, b, c;
  Range bias = {};       ///< bytes == 0: none
  bool overlaps = false; ///< GEMMs of the Plan are on several streams, so two may run at once
  /// c's element type, if that is not `dtype`: partial results may have a wider one.
  std::optional<DType> partial = {};
  Range addend = {}; ///< has c's element type; bytes == 0: none

  DType resultType() const { return partial.value_or(dtype); }
};
/// dst = the sum of `count` parts, added in their order in f32 (f64 for f64), then bias, rounded
/// once. Part i has its elements, as many as dst, from byte i * stride of `parts` on.
struct PlanSum {
  DType dtype;   ///< type of the bias
  DType partial; ///< type of the parts
  int64_t count;
  int64_t stride; ///< bytes
  Range dst;
  Range parts;  ///< from the first part's first byte to the last one's last
  Range bias;   ///< added again and again along dst; bytes == 0: none
  DType result; ///< type of dst
  /// Something else reads what copies bring as parts, so it has to be where they put it.
  bool keepsParts = true;

  int64_t elements() const { return dst.bytes / sizeOf(result); }
  /// Part `i`, from 0 on.
  Range part(int64_t i) const {
    return {parts.buffer, parts.offset + i * stride, elements() * sizeOf(partial)};
  }
};

/// dst = functions of each element of `first`, in f32 (f64 for f64), rounded once. All operands
/// have as many elements as dst.
struct PlanPointwise {
  struct Operand {
    DType dtype = DType::F32;
    Range range = {};
  };
  DType dtype; ///< type of dst
  Range dst;
  Operand first;
  std::vector<PointwiseStep<Operand>> steps;

  int64_t elements() const { return dst.bytes / sizeOf(dtype); }
  /// The first operand, and those of the steps that have one.
  std::vector<Operand> operands() const;
};

/// One side of a message. The n-th to a peer, over all groups, meets the n-th from here there.
struct PlanMessage {
  Direction direction;
  int64_t peer;
  Range range;
  DType dtype;
  uint32_t origin;
};
/// Sends and receives that start together. Groups that exchange messages, directly or through
/// others, are one whole: none is over before all have started.
using PlanGroup = std::vector<PlanMessage>;

/// This rank's part of a collective of its team. Element counts are as NCCL's: dst of an allgather
/// has as many times those of src as there are members, src of a reduce_scatter those of dst.
struct PlanCollective {
  CollectiveKind kind;
  std::optional<ReductionOperator> reduction;
  DType dtype;
  std::vector<int64_t> team; ///< ranks, in the order of their blocks; never empty
  int64_t root;              ///< a rank; -1: the kind has none
  Range dst, src;

  int64_t members() const { return static_cast<int64_t>(team.size()); }
};

/// Names what decides how it is multiplied: type, shape m x n x k, c's type if it differs, layout,
/// and whether others run at the same time: "GEMM bf16 128x1024x512 to f32 bT bias add overlapped".
std::string gemmKey(const PlanMatmul &gemm);

/// The end of a buffer's life: a deallocate node. Nothing is issued for it; the checker wants to
/// know.
struct PlanRelease {
  uint32_t buffer;
  uint32_t beforeCommand; ///< stands before this command, in issue order
  uint32_t stream;        ///< the current one
  uint32_t origin;
};

/// Streams of a Plan: those of its Program, and the caller's.
inline constexpr uint32_t kMaxPlanStreams = static_cast<uint32_t>(kMaxStreams) + 1;

/// See the top of this file. Holds no pointers into the Program.
struct Plan {
  std::string program;      ///< its name
  std::string sourceName;   ///< the file, for messages
  uint64_t fingerprint = 0; ///< hash of the text; equal on all ranks that may run together
  std::string text;         ///< the program as printed, to show where ranks differ
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Number of ranks on each host, which are consecutive; 0: one host has all.
  int64_t ranksPerHost = 0;
  /// Between ranks of one host.
  Transport transport = Transport::PeerMemory;
  /// The way in which other ranks follow from the first ones (alike_ranks.h).
  Shift shift = Shift::Add;
  /// The number of commands[0] in what ranks say of their progress; the others follow. A job gives
  /// each program other numbers, the same for all ranks.
  uint32_t firstCommand = 0;

  std::vector<PlanBuffer> buffers;
  std::vector<uint32_t> inputs;  ///< buffers of the program's parameters, in order
  std::vector<uint32_t> outputs; ///< buffers of its results, in order
  int64_t symmetricBytes = 0;    ///< size of the symmetric arena, flags not included
  int64_t deviceBytes = 0;       ///< size of the private arena
  uint32_t channels = 0; ///< exchanges of handles; transfers go through those below this number
  uint32_t flags = 0;
  uint32_t events = 0;
  std::vector<std::string> streams; ///< names, at most kMaxPlanStreams; streams[0] is the caller's

  std::vector<Endpoint> endpoints;
  std::vector<PlanMatmul> matmuls;
  std::vector<PlanSum> sums;
  std::vector<PlanPointwise> pointwise;
  std::vector<PlanGroup> groups;
  std::vector<PlanCollective> collectives;
  std::vector<Command> commands;
  std::vector<PlanRelease> releases; ///< in issue order

  std::vector<Site> sites;
  std::vector<Origin> origins;
  std::vector<int64_t> trips;

  int64_t hostOf(int64_t peer) const { return ranksPerHost == 0 ? 0 : peer / ranksPerHost; }
  int64_t hosts() const { return hostOf(ranks - 1) + 1; }
  bool isSameHost(int64_t peer) const { return hostOf(peer) == hostOf(rank); }
  /// Transfers between the two are messages.
  bool sendsMessagesTo(int64_t peer) const {
    return transport == Transport::Messages || !isSameHost(peer);
  }
  /// Some rank may have groups or collectives.
  bool mayHaveMessages() const { return transport == Transport::Messages || hosts() > 1; }
  /// This one has.
  bool hasMessages() const { return !groups.empty() || !collectives.empty(); }
};

enum class Access : uint8_t { Read, Write };
/// The role of an operand in its command.
enum class OperandRole : uint8_t {
  Input,  ///< read by a copy, a GEMM, a function, a message or a collective
  Part,   ///< read by a sum
  Bias,   ///< read by a GEMM or a sum
  Addend, ///< read by a GEMM
  Result,
};
/// Calls `fn` for every range that a command reads, then for those that it writes. Empty ranges are
/// left out. A range of kPeerBuffer is the peer's side of the command's endpoint.
void forEachOperand(
    const Plan &plan, const Command &command,
    llvm::function_ref<void(const Range &range, Access access, OperandRole role)> fn);

/// The first GEMM of each gemmKey(): what is loaded and tuned before the first run.
std::vector<const PlanMatmul *> distinctGemms(const Plan &plan);

/// Gives back what its lists have more room for. Many Plans may be kept for long.
void shrinkToFit(Plan &plan);
/// Gives the Plans of all ranks of a program their numbers, from `first` on; returns the next one.
uint32_t numberCommands(std::vector<Plan> &plans, uint32_t first);
/// `file:line:col`, or the node's text where it was not read from a file.
std::string place(const Plan &plan, uint32_t origin);
/// Describes a node for messages, with its loop iteration and source location: "%r = p2p recv ...
/// (trip 3) at ag.braid:12:5".
std::string describeOrigin(const Plan &plan, uint32_t origin);
/// That node's line of the text; 0: made by a builder.
uint32_t lineOf(const Plan &plan, uint32_t origin);
/// Deterministic, one command a line, for people and tests.
std::string str(const Plan &plan);
std::string str(const Plan &plan, const Command &command);

/// A program whose unrolling executes more nodes and trips than this on one rank is refused.
inline constexpr size_t kMaxSteps = size_t(1) << 24;

} // namespace braid
