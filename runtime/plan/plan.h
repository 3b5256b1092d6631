//===- runtime/plan/plan.h - one rank's program: flat, final and free of addresses ------------===//
//
// A Plan is a Program specialised for one rank: loops are unrolled, conditions and indices are
// evaluated, streams, events, signal flags and arena offsets are assigned, and every operand is a
// byte range of a buffer. The checker, the simulator and the executor all read it; no backend adds
// a protocol.
//
// A transfer has two endpoints, one on each rank, and two flags. Each endpoint owns the flag that
// its rank awaits, in its own memory, and signals the flag of the matching endpoint on the peer:
//
//   get   sender    signal                       ...  await at `wait %s`    (source may be reused)
//         receiver  await, copy from peer, signal  ...  (nothing) at `wait %r`
//   put   receiver  signal                       ...  await at `wait %r`    (data has arrived)
//         sender    await, copy to peer, signal    ...  (nothing) at `wait %s`
//
// If the sender computes the data that it sends, a GEMM replaces the copy.
//
// A signal writes the number of the run (its epoch: 1, 2, ...), or a mark if flags do not count
// (PeerMemory::countsRuns). An await completes when the flag has reached the epoch of its run. Each
// flag has one writer, which writes it once per run, so no signal is lost or consumed twice, and
// flags need no reset between runs.
//
// Ranks of different hosts cannot access each other's memory: a transfer between them is a message,
// and a collective of a team on several hosts stays whole. With Transport::Messages this holds for
// all transfers and collectives, and there are no endpoints. Sends and receives that start together
// form a group. Streams and events order groups and collectives one after the other, in issue
// order.
//
// On several hosts, p2p nodes between which a rank issues nothing else are posted together, whether
// or not their peers share the host, and issued in this order:
//
//   signals of the passive sides | the group | awaits of the active sides, copies, their signals
//
// A program that is deadlock-free with messages only remains so in this mixed mode. Its groups are
// those of message-only mode without the transfers within a host. No await or copy precedes a
// message posted with it, and a signal waits for nothing. An await needs a signal that the peer
// issues before its group, where messages would need that group to start. The await at `wait` needs
// a copy that directly follows the group, where messages would need the group to end.
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
  int64_t offset;   ///< in its arena, in bytes; for the caller's, the number of the parameter
  std::string name; ///< as in the program, for messages
};

/// Value of `Range::buffer` for the peer's side of a copy, or for a GEMM result in peer memory: the
/// range of the peer's matching endpoint, whose address is known once handles have been exchanged.
inline constexpr uint32_t kPeerBuffer = ~0u;

/// Bytes [offset, offset + bytes) of a buffer.
struct Range {
  uint32_t buffer = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Range &) const = default;
};

/// Returns true if the ranges share a byte.
inline bool overlap(const Range &a, const Range &b) {
  return a.bytes > 0 && b.bytes > 0 && a.buffer == b.buffer && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

/// Returns the part of `bytes` bytes that starts `offset` bytes into `range`.
inline Range cut(const Range &range, int64_t offset, int64_t bytes) {
  return {range.buffer, range.offset + offset, bytes};
}

/// The writes that a signal makes visible to the peer.
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
  Range range;           ///< the local side; the peer's side if a GEMM computes the sent data
  DType dtype;
  uint32_t flag = 0; ///< the flag that this rank awaits for this transfer
  uint32_t origin;   ///< index into Plan::origins
  /// True if it represents messages (spell_out.h): its signals have no flag, and it may access any
  /// memory.
  bool isOfMessages = false;
  /// True if it only reports that a rank has arrived. Implies `isOfMessages`.
  bool isOfMeeting = false;

  /// Returns the writes that this rank's signal publishes.
  Published published() const {
    if (direction == Direction::Receive)
      return Published::Nothing;
    return protocol == Protocol::Get ? Published::Own : Published::Peers;
  }
};

/// A node of the program from which commands are generated.
struct Site {
  Location location;
  std::string text; ///< the node as printed: "%r = p2p recv %block from (rank + %i) mod 8 via %h"
};

/// One execution of a site, with the values of the enclosing loop indices, outermost first.
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
  Await,      ///< completes when this rank's `flag` has reached the epoch
  Record,     ///< `event` captures all work issued to this stream so far
  WaitEvent,  ///< the stream waits for the latest preceding record of `event`
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
  uint32_t group = kNone;      ///< Group, and the commands that it is expanded into
  uint32_t collective = kNone; ///< Collective, and the commands that it is expanded into
  Range dst = {}, src = {};    ///< Copy
};

/// c[m, n] = a[m, k] · b, plus at most one of bias[n] (in every row) and addend[m, n], rounded
/// once. b is [k, n], or [n, k] if `transposeB`. Row-major and contiguous.
struct PlanMatmul {
  DType dtype;
  int64_t m, n, k;
  bool transposeB;
  Range a, b, c;
  Range bias = {};       ///< empty if none
  bool overlaps = false; ///< true if GEMMs are on several streams, so two may run at once
  /// c's element type if it is not `dtype`: partial results may have a wider one.
  std::optional<DType> partial = {};
  Range addend = {}; ///< has c's element type; empty if none

  DType resultType() const { return partial.value_or(dtype); }
};
/// dst = the sum of `count` parts, in order, in f32 (f64 for f64), plus bias, rounded once. Part i
/// has as many elements as dst and starts at byte i * stride of `parts`.
struct PlanSum {
  DType dtype;   ///< type of the bias
  DType partial; ///< type of the parts
  int64_t count;
  int64_t stride; ///< bytes
  Range dst;
  Range parts;  ///< from the first byte of the first part to the last byte of the last
  Range bias;   ///< repeated along dst; empty if none
  DType result; ///< type of dst
  /// True if anything but this sum reads the copied parts, so that they must be stored.
  bool keepsParts = true;

  int64_t elements() const { return dst.bytes / sizeOf(result); }
  /// Returns part `i`, counted from 0.
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
  /// Returns the first operand and the operands of the steps that have one.
  std::vector<Operand> operands() const;
};

/// One side of a message. The n-th send to a peer, over all groups, matches the peer's n-th receive
/// from this rank.
struct PlanMessage {
  Direction direction;
  int64_t peer;
  Range range;
  DType dtype;
  uint32_t origin;
};
/// Sends and receives that start together. Groups that exchange messages, directly or via other
/// groups, form a whole: none completes before all have started.
using PlanGroup = std::vector<PlanMessage>;

/// This rank's part of a collective. Element counts follow NCCL: an allgather's dst has members()
/// times the elements of src, a reduce_scatter's src members() times those of dst.
struct PlanCollective {
  CollectiveKind kind;
  std::optional<ReductionOperator> reduction;
  DType dtype;
  std::vector<int64_t> team; ///< ranks, in the order of their blocks; never empty
  int64_t root;              ///< a rank, or -1 if the kind has no root
  Range dst, src;

  int64_t members() const { return static_cast<int64_t>(team.size()); }
};

/// Returns the key by which GEMM algorithms are chosen: type, shape m x n x k, c's type if it
/// differs, layout, and whether GEMMs overlap: "GEMM bf16 128x1024x512 to f32 bT bias add
/// overlapped".
std::string gemmKey(const PlanMatmul &gemm);

/// The end of a buffer's lifetime: a deallocate node. It issues nothing; the checker uses it.
struct PlanRelease {
  uint32_t buffer;
  uint32_t beforeCommand; ///< precedes this command in issue order
  uint32_t stream;        ///< the current stream
  uint32_t origin;
};

/// Maximum number of streams of a Plan: those of its Program, and the caller's.
inline constexpr uint32_t kMaxPlanStreams = static_cast<uint32_t>(kMaxStreams) + 1;

/// See the top of this file. Holds no pointers into the Program.
struct Plan {
  std::string program;      ///< its name
  std::string sourceName;   ///< the file, for messages
  uint64_t fingerprint = 0; ///< hash of the text; equal on all ranks that may run together
  std::string text;         ///< the program as printed, to show where ranks differ
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Number of consecutive ranks on each host; 0 if all are on one host.
  int64_t ranksPerHost = 0;
  /// Transport between ranks of one host.
  Transport transport = Transport::PeerMemory;
  /// The shift by which other ranks follow from the first ones (alike_ranks.h).
  Shift shift = Shift::Add;
  /// The number of commands[0] in progress reports; later commands follow. Within a job, each
  /// program has a separate range of numbers, the same on all ranks.
  uint32_t firstCommand = 0;

  std::vector<PlanBuffer> buffers;
  std::vector<uint32_t> inputs;  ///< buffers of the program's parameters, in order
  std::vector<uint32_t> outputs; ///< buffers of its results, in order
  int64_t symmetricBytes = 0;    ///< size of the symmetric arena, flags not included
  int64_t deviceBytes = 0;       ///< size of the private arena
  uint32_t channels = 0; ///< number of exchanges of handles; the channels of transfers are below it
  uint32_t flags = 0;
  uint32_t events = 0;
  std::vector<std::string> streams; ///< names, at most kMaxPlanStreams; streams[0] is the caller's

  std::vector<Endpoint> endpoints;
  std::vector<PlanMatmul> matmuls;
  std::vector<PlanSum> sums;
  std::vector<PlanPointwise> pointwise;
  std::vector<PlanGroup> groups;
  std::vector<PlanCollective> collectives;
  /// The teams of the collectives that stay whole, with or without this rank. Equal on all ranks.
  std::vector<std::vector<int64_t>> teams;
  std::vector<Command> commands;
  std::vector<PlanRelease> releases; ///< in issue order

  std::vector<Site> sites;
  std::vector<Origin> origins;
  std::vector<int64_t> trips;

  int64_t hostOf(int64_t peer) const { return ranksPerHost == 0 ? 0 : peer / ranksPerHost; }
  int64_t hosts() const { return hostOf(ranks - 1) + 1; }
  bool isSameHost(int64_t peer) const { return hostOf(peer) == hostOf(rank); }
  /// True if transfers between this rank and `peer` are messages.
  bool sendsMessagesTo(int64_t peer) const {
    return transport == Transport::Messages || !isSameHost(peer);
  }
  /// True if some rank may have groups or collectives.
  bool mayHaveMessages() const { return transport == Transport::Messages || hosts() > 1; }
  /// True if this rank has groups or collectives.
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

/// Returns the first GEMM of each gemmKey(): those to load and tune before the first run.
std::vector<const PlanMatmul *> distinctGemms(const Plan &plan);

/// Releases the unused capacity of the lists, because many Plans may be kept for a long time.
void shrinkToFit(Plan &plan);
/// Numbers the commands of a program's Plans, one for each rank, starting with `first`. Returns the
/// next free number.
uint32_t numberCommands(std::vector<Plan> &plans, uint32_t first);
/// Returns `file:line:col`, or the node's text if it was not read from a file.
std::string place(const Plan &plan, uint32_t origin);
/// Describes a node for messages, with its loop iteration and source location: "%r = p2p recv ...
/// (trip 3) at ag.braid:12:5".
std::string describeOrigin(const Plan &plan, uint32_t origin);
/// Returns that node's line in the text, or 0 if a builder made it.
uint32_t lineOf(const Plan &plan, uint32_t origin);
/// Returns deterministic text with one command per line, for people and tests.
std::string str(const Plan &plan);
std::string str(const Plan &plan, const Command &command);

/// Maximum number of nodes and loop iterations that unrolling may execute on one rank.
inline constexpr size_t kMaxSteps = size_t(1) << 24;

} // namespace braid
