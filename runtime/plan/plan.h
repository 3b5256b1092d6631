//===- runtime/plan/plan.h - one rank's program, flat and without addresses -------------------===//
//
// A Plan is a Program specialized for one rank: loops are unrolled, conditions and indices are
// evaluated, streams, events, signal flags and arena offsets are assigned, and every operand is a
// byte range of a buffer. The checker, the simulator and the executor all consume Plans. Backends
// add no further synchronization protocol.
//
// A transfer has two endpoints, one on each rank, and two flags. Each endpoint owns a flag in its
// rank's memory. The rank awaits this flag and signals the flag of the peer's endpoint:
//
//   get   sender    signal                       ...  await at `wait %s`    (source may be reused)
//         receiver  await, copy from peer, signal  ...  (nothing) at `wait %r`
//   put   receiver  signal                       ...  await at `wait %r`    (data has arrived)
//         sender    await, copy to peer, signal    ...  (nothing) at `wait %s`
//
// If a GEMM computes the data to be sent, it replaces the copy. The side that copies is active.
//
// A signal writes the run's epoch (1, 2, ...), or sets a binary flag if flags do not count runs
// (PeerMemory::countsRuns). An await completes once the flag has reached the epoch of its run. Each
// flag has a single writer, which writes the flag once per run, so signals cannot be lost or
// consumed twice, and flags need no reset between runs.
//
// Ranks on different hosts cannot access each other's memory. Transfers between them are messages,
// and collectives whose team spans hosts are not expanded. With Transport::Messages, all transfers
// are messages, no collective is expanded, and there are no endpoints. Sends and receives that
// start together form a group. Streams and events serialize groups and collectives in issue order.
//
// If the ranks span hosts, consecutive p2p nodes (with no other command of the rank in between) are
// posted together, even if some peers are on the same host, and are issued in this order:
//
//   signals of the passive sides | the group | awaits of the active sides, copies, their signals
//
// A program that is deadlock-free with messages alone remains deadlock-free in this mixed mode. The
// groups are those of message-only mode, minus the transfers within a host. No await or copy
// precedes a message posted with it, and signals never wait. An await depends on a signal that the
// peer issues before its group; a message would depend on that group's start. The await at `wait`
// depends on a copy that directly follows the group; a message would depend on the group's end.
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
  Input,     ///< owned by the caller; the address may change from run to run
  Output,    ///< owned by the caller
  Symmetric, ///< in the symmetric arena, which peers can access
  Device,    ///< in the rank's private arena
};

struct PlanBuffer {
  BufferKind kind;
  int64_t bytes;
  int64_t offset;   ///< bytes into the arena; for Input and Output, the argument's index
  std::string name; ///< as in the program, used in diagnostics
};

/// Pseudo-buffer for the peer's side of a copy, or for a GEMM result in peer memory. Denotes the
/// range of the peer's matching endpoint, whose address is known after the handle exchange.
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

/// Returns the subrange of `bytes` bytes that starts `offset` bytes into `range`.
inline Range cut(const Range &range, int64_t offset, int64_t bytes) {
  return {range.buffer, range.offset + offset, bytes};
}

/// The writes that a signal makes visible to the peer.
enum class Published : uint8_t {
  Nothing, ///< none: the peer may overwrite data that this rank has read
  Own,     ///< this rank's writes to its own memory, from which the peer may copy
  Peers,   ///< this rank's writes to the peer's memory
};

/// One rank's side of a transfer. `channel` is the number of the share_mem_handles node in source
/// order. The tuple (source, destination, channel, sequence) identifies a transfer among all ranks.
struct Endpoint {
  Direction direction;
  Protocol protocol;
  int64_t peer;
  uint32_t channel;
  uint32_t sequence = 0; ///< 0, 1, ... among the transfers of the same direction, peer and channel
  Range range;           ///< local data, or kPeerBuffer if a GEMM computes the sent data
  DType dtype;
  uint32_t flag = 0; ///< the flag that this rank awaits for this transfer
  uint32_t origin;   ///< index into Plan::origins
  /// True if the endpoint belongs to an expanded message (spell_out.h): its signals have no flag,
  /// and it may access any memory.
  bool isOfMessages = false;
  /// True if the endpoint belongs to a barrier and transfers no data. Implies `isOfMessages`.
  bool isOfMeeting = false;

  /// Returns the writes that this rank's signal publishes.
  Published published() const {
    if (direction == Direction::Receive)
      return Published::Nothing;
    return protocol == Protocol::Get ? Published::Own : Published::Peers;
  }
};

/// A program node from which commands are generated.
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
  Signal,     ///< writes the epoch to the flag of the peer's endpoint that matches `endpoint`
  Await,      ///< completes when this rank's `flag` has reached the epoch
  Record,     ///< `event` captures all work issued to this stream so far
  WaitEvent,  ///< the stream waits for the latest preceding record of `event`
  Group,      ///< Plan::groups[group]
  Collective, ///< Plan::collectives[collective]
};
llvm::StringRef name(CommandKind kind);

inline constexpr uint32_t kNone = ~0u;

/// A command, issued to `stream` in the order of Plan::commands. Stream 0 is the caller's stream.
struct Command {
  CommandKind kind;
  uint32_t stream = 0;
  uint32_t origin = 0;
  uint32_t endpoint = kNone;   ///< Signal, Await, Copy from or to a peer, Matmul into peer memory
  uint32_t event = kNone;      ///< Record, WaitEvent
  uint32_t matmul = kNone;     ///< Matmul
  uint32_t sum = kNone;        ///< Sum
  uint32_t pointwise = kNone;  ///< Pointwise
  uint32_t group = kNone;      ///< Group, and the commands it expands to
  uint32_t collective = kNone; ///< Collective, and the commands it expands to
  Range dst = {}, src = {};    ///< Copy
};

/// c[m, n] = a[m, k] · b, plus at most one of bias[n] (added to every row) and addend[m, n],
/// rounded once. b is [k, n], or [n, k] if `transposeB`. All operands are row-major and contiguous.
/// The addend may be c itself; then the product may be rounded before it is added (cuBLASLt 13.1 on
/// H200: some kernels add their tiles to c in memory). No other operand overlaps c.
struct PlanMatmul {
  DType dtype;
  int64_t m, n, k;
  bool transposeB;
  Range a, b, c;
  Range bias = {};       ///< empty if none
  bool overlaps = false; ///< true if several streams have GEMMs, so that GEMMs may overlap
  /// Element type of c if it differs from `dtype`. Partial results may have a wider type.
  std::optional<DType> partial = {};
  Range addend = {}; ///< has c's element type; empty if none

  DType resultType() const { return partial.value_or(dtype); }
  bool addsInPlace() const { return addend.bytes != 0 && addend == c; }
};
/// dst = the sum of `count` parts in order, in f32 (f64 for f64 parts), plus bias, rounded once.
/// Each part has as many elements as dst, and part i starts i * stride bytes into `parts`.
struct PlanSum {
  DType dtype;   ///< type of the bias
  DType partial; ///< type of the parts
  int64_t count;
  int64_t stride; ///< bytes
  Range dst;
  Range parts;  ///< from the first byte of the first part to the last byte of the last part
  Range bias;   ///< repeated along dst; empty if none
  DType result; ///< type of dst
  /// True if the copied parts must be stored because a reader other than this sum needs them.
  bool keepsParts = true;

  int64_t elements() const { return dst.bytes / sizeOf(result); }
  /// Returns part `i`, counted from 0.
  Range part(int64_t i) const {
    return {parts.buffer, parts.offset + i * stride, elements() * sizeOf(partial)};
  }
};

/// dst = a chain of functions applied to each element of `first`, in f32 (f64 for f64 operands),
/// rounded once. All operands have as many elements as dst.
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
  /// Returns `first`, then the operands of the binary steps.
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
/// groups, form a whole: no group of a whole completes before all of them have started.
using PlanGroup = std::vector<PlanMessage>;

/// This rank's part of a collective. Element counts follow NCCL: in an allgather, dst has members()
/// times as many elements as src; in a reduce_scatter, src has members() times as many as dst.
struct PlanCollective {
  CollectiveKind kind;
  std::optional<ReductionOperator> reduction;
  DType dtype;
  std::vector<int64_t> team; ///< ranks, in the order of their blocks; never empty
  int64_t root;              ///< a rank, or -1 if the kind has no root
  Range dst, src;

  int64_t members() const { return static_cast<int64_t>(team.size()); }
};

/// Returns the key for choosing a GEMM algorithm: type, shape m x n x k, c's type if it differs,
/// layout, added operands, and whether GEMMs overlap. Example: "GEMM bf16 128x1024x512 to f32 bT
/// bias add overlapped".
std::string gemmKey(const PlanMatmul &gemm);

/// The end of a buffer's lifetime (a deallocate node). Generates no command, but the checker uses
/// it.
struct PlanRelease {
  uint32_t buffer;
  uint32_t beforeCommand; ///< the release precedes this command in issue order
  uint32_t stream;        ///< the current stream
  uint32_t origin;
};

/// Maximum number of streams in a Plan: the maximum for a Program, plus the caller's stream.
inline constexpr uint32_t kMaxPlanStreams = static_cast<uint32_t>(kMaxStreams) + 1;

/// The Plan described at the top of this file. Contains no pointers into the Program.
struct Plan {
  std::string program;      ///< name of the program
  std::string sourceName;   ///< source file name, for diagnostics
  uint64_t fingerprint = 0; ///< hash of `text`; equal on all ranks that can run together
  std::string text;         ///< the program as printed, to show where ranks differ
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Number of consecutive ranks on each host; 0 if all ranks are on one host.
  int64_t ranksPerHost = 0;
  /// Transport between ranks on the same host.
  Transport transport = Transport::PeerMemory;
  /// The shift that maps the first ranks to the others (alike_ranks.h).
  Shift shift = Shift::Add;
  /// Identifies commands[0] in progress reports; later commands have consecutive numbers. Each
  /// program in a job has a separate range of numbers, which is the same on all ranks.
  uint32_t firstCommand = 0;

  std::vector<PlanBuffer> buffers;
  std::vector<uint32_t> inputs;  ///< buffers of the program's parameters, in order
  std::vector<uint32_t> outputs; ///< buffers of the program's results, in order
  int64_t symmetricBytes = 0;    ///< size of the symmetric arena, excluding flags
  int64_t deviceBytes = 0;       ///< size of the private arena
  uint32_t channels = 0;         ///< number of handle exchanges; exceeds every Endpoint::channel
  uint32_t flags = 0;
  uint32_t events = 0;
  std::vector<std::string> streams; ///< names, at most kMaxPlanStreams; streams[0] is the caller's

  std::vector<Endpoint> endpoints;
  std::vector<PlanMatmul> matmuls;
  std::vector<PlanSum> sums;
  std::vector<PlanPointwise> pointwise;
  std::vector<PlanGroup> groups;
  std::vector<PlanCollective> collectives;
  /// Teams of all unexpanded collectives, including teams without this rank. Equal on all ranks.
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
  /// True if any rank may have groups or collectives.
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
/// Calls `fn` for every nonempty range that a command reads, then for every nonempty range that it
/// writes. A range of kPeerBuffer denotes the peer's side of the command's endpoint.
void forEachOperand(
    const Plan &plan, const Command &command,
    llvm::function_ref<void(const Range &range, Access access, OperandRole role)> fn);

/// Returns the first GEMM for each distinct gemmKey(), for tuning and loading before the first run.
std::vector<const PlanMatmul *> distinctGemms(const Plan &plan);

/// Frees unused vector capacity, because many Plans may stay in memory for a long time.
void shrinkToFit(Plan &plan);
/// Sets `firstCommand` of all Plans of a program, one per rank, to `first`. Returns the next number
/// that is not used by any of the Plans.
uint32_t numberCommands(std::vector<Plan> &plans, uint32_t first);
/// Returns `file:line:col`, or `@program` if the node has no known source location.
std::string place(const Plan &plan, uint32_t origin);
/// Describes a node for diagnostics, with its loop iteration and source location: "%r = p2p recv
/// ... (trip 3) at ag.braid:12:5".
std::string describeOrigin(const Plan &plan, uint32_t origin);
/// Returns the node's source line, or 0 if the node was created by a builder.
uint32_t lineOf(const Plan &plan, uint32_t origin);
/// Returns a deterministic, human-readable dump with one command per line.
std::string str(const Plan &plan);
std::string str(const Plan &plan, const Command &command);

/// Maximum total number of nodes and loop iterations that may be unrolled for one rank.
inline constexpr size_t kMaxSteps = size_t(1) << 24;

} // namespace braid
