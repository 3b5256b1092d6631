//===- backends/nccl/nccl_messages.cpp - messages through NCCL --------------------------------===//

#include "backends/nccl/nccl_messages.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/plan/collective_parts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <numeric>
#include <thread>

namespace braid::nccl {
namespace {

Type typeOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return Type::Bfloat16;
  case DType::F16:
    return Type::Float16;
  case DType::F32:
    return Type::Float32;
  case DType::F64:
    return Type::Float64;
  }
  llvm_unreachable("covered above");
}

Operator operatorOf(const CollectiveArgs &args) {
  switch (args.reduction.value_or(ReductionOperator::Sum)) {
  case ReductionOperator::Sum:
    return Operator::Sum;
  case ReductionOperator::Product:
    return Operator::Product;
  case ReductionOperator::Min:
    return Operator::Min;
  case ReductionOperator::Max:
    return Operator::Max;
  }
  llvm_unreachable("covered above");
}

/// The text that tells the other ranks that this rank has found the library.
constexpr const char *kFound = "found";

size_t count(int64_t bytes, DType dtype) { return static_cast<size_t>(bytes / sizeOf(dtype)); }

int positionOf(llvm::ArrayRef<int64_t> team, int64_t rank) {
  return static_cast<int>(llvm::find(team, rank) - team.begin());
}

/// Fuses the enclosed NCCL calls into one operation, which fails with the first error of any call.
class Group {
public:
  Group(const Functions &call, const Communicator &communicator)
      : call_(call), communicator_(communicator), code_(call.GroupStart()) {}
  void add(Code code, const char *call) {
    if (code_ != Code::Success && code_ != Code::InProgress)
      return;
    code_ = code;
    last_ = call;
  }
  /// Ends the group even after an error, because the library counts open groups.
  Status end() {
    const Code ended = call_.GroupEnd();
    if (code_ != Code::Success && code_ != Code::InProgress)
      return communicator_.finish(code_, last_);
    return communicator_.finish(ended, "ncclGroupEnd");
  }

private:
  const Functions &call_;
  const Communicator &communicator_;
  Code code_;
  const char *last_ = "ncclGroupStart";
};

} // namespace

NcclMessages::NcclMessages(Loader load, int64_t rank, Patience patience)
    : load_(std::move(load)), rank_(rank), patience_(std::move(patience)) {
  // Any wait for a peer ends when the job or this object is aborted.
  patience_.isAborted = [shared = std::weak_ptr(shared_), outer = std::move(patience_.isAborted)] {
    const std::shared_ptr<Shared> held = shared.lock();
    return !held || held->isAborted || outer();
  };
}

Status NcclMessages::openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) {
  std::lock_guard lock(shared_->calls);
  if (!library_)
    BRAID_TRY(load(control));
  all_.resize(static_cast<size_t>(control.size()));
  std::iota(all_.begin(), all_.end(), 0);
  BRAID_TRY(open(all_, control));
  for (const Team &team : teams)
    BRAID_TRY(open(team, control));
  return Status::ok();
}

std::string NcclMessages::describe() const {
  return fmt::format("NCCL {}", versionText(library_->version));
}

/// Fails on all ranks unless every rank has the library, because ranks with NCCL would otherwise
/// wait for a rank without it.
Status NcclMessages::load(ControlPlane &control) {
  const Result<const Library *> mine = load_();
  const std::vector<std::string> all =
      BRAID_TRY(control.allGather(mine ? kFound : mine.status().message()));
  BRAID_TRY(mine);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != kFound)
      return unsupported("rank {}: {}", rank, all[rank]);
  library_ = *mine;
  return Status::ok();
}

/// The first member creates the unique id through which the members find each other. On failure,
/// the first member sends the error to the other members, which are waiting for the id.
Status NcclMessages::open(const Team &team, ControlPlane &control) {
  if (shared_->communicators.count(team))
    return Status::ok();
  UniqueId id = {};
  std::string mine;
  if (rank_ == team.front()) {
    const Code code = library_->call.GetUniqueId(&id);
    mine = code == Code::Success
               ? llvm::toHex(llvm::StringRef(id.bytes, sizeof(id.bytes)))
               : fmt::format("{} from ncclGetUniqueId", library_->call.GetErrorString(code));
  }
  const std::vector<std::string> ids = BRAID_TRY(control.allGather(mine));
  const std::string &number = ids[static_cast<size_t>(team.front())];
  if (number.size() != 2 * sizeof(id.bytes))
    return peerFailed("NCCL: rank {} did not send a valid ID for team [{}]: {}", team.front(),
                      fmt::join(team, ", "), number);
  std::unique_ptr<Communicator> made;
  if (llvm::is_contained(team, rank_)) {
    const std::string bytes = llvm::fromHex(number);
    std::memcpy(id.bytes, bytes.data(), sizeof(id.bytes));
    made = BRAID_TRY(Communicator::create(*library_, id, positionOf(team, rank_),
                                          static_cast<int>(team.size()), patience_));
  }
  shared_->communicators[team] = std::move(made);
  return Status::ok();
}

Result<const Communicator *> NcclMessages::of(llvm::ArrayRef<int64_t> team) const {
  if (shared_->isAborted)
    return peerFailed("NCCL: the job has failed");
  const auto found = shared_->communicators.find(team.vec());
  if (found == shared_->communicators.end() || !found->second)
    return Status(StatusCode::Internal,
                  fmt::format("NCCL: team [{}] has not been opened", fmt::join(team, ", ")));
  return found->second.get();
}

Status NcclMessages::group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages) {
  std::lock_guard lock(shared_->calls);
  const Communicator *all = BRAID_TRY(of(all_));
  Group group(library_->call, *all);
  for (const MessageArgs &m : messages) {
    const Type type = typeOf(m.dtype);
    const size_t elements = count(m.bytes, m.dtype);
    const int peer = static_cast<int>(m.peer);
    if (m.direction == Direction::Send)
      group.add(library_->call.Send(m.data, elements, type, peer, all->get(), stream), "ncclSend");
    else
      group.add(library_->call.Recv(m.data, elements, type, peer, all->get(), stream), "ncclRecv");
  }
  return group.end();
}

Status NcclMessages::collective(cudaStream_t stream, const CollectiveArgs &args) {
  std::lock_guard lock(shared_->calls);
  const Communicator *team = BRAID_TRY(of(args.team));
  const Functions &call = library_->call;
  const Type type = typeOf(args.dtype);
  const Operator op = operatorOf(args);
  const size_t sent = count(args.srcBytes, args.dtype), got = count(args.dstBytes, args.dtype);
  const int root = args.root < 0 ? 0 : positionOf(args.team, args.root);
  Comm *comm = team->get();
  switch (args.kind) {
  case CollectiveKind::AllGather:
    return team->finish(call.AllGather(args.src, args.dst, sent, type, comm, stream),
                        "ncclAllGather");
  case CollectiveKind::ReduceScatter:
    return team->finish(call.ReduceScatter(args.src, args.dst, got, type, op, comm, stream),
                        "ncclReduceScatter");
  case CollectiveKind::AllReduce:
    return team->finish(call.AllReduce(args.src, args.dst, sent, type, op, comm, stream),
                        "ncclAllReduce");
  case CollectiveKind::Broadcast:
    return team->finish(call.Broadcast(args.src, args.dst, sent, type, root, comm, stream),
                        "ncclBroadcast");
  case CollectiveKind::Reduce:
    return team->finish(call.Reduce(args.src, args.dst, sent, type, op, root, comm, stream),
                        "ncclReduce");
  default: // NCCL 2.19 has no such function
    return exchange(*team, stream, args);
  }
}

/// Emulates a collective that moves data with sends and receives, even for local data.
Status NcclMessages::exchange(const Communicator &communicator, cudaStream_t stream,
                              const CollectiveArgs &args) const {
  enum : uint32_t { kDst, kSrc };
  const PlanCollective collective{args.kind,
                                  args.reduction,
                                  args.dtype,
                                  args.team.vec(),
                                  args.root,
                                  {kDst, 0, args.dstBytes},
                                  {kSrc, 0, args.srcBytes}};
  const Type type = typeOf(args.dtype);
  Group group(library_->call, communicator);
  for (const CollectivePart &part : partsOf(collective, rank_)) {
    const int peer = positionOf(args.team, part.peer);
    if (part.send.bytes != 0)
      group.add(library_->call.Send(static_cast<const char *>(args.src) + part.send.offset,
                                    count(part.send.bytes, args.dtype), type, peer,
                                    communicator.get(), stream),
                "ncclSend");
    if (part.receive.bytes != 0)
      group.add(library_->call.Recv(static_cast<char *>(args.dst) + part.receive.offset,
                                    count(part.receive.bytes, args.dtype), type, peer,
                                    communicator.get(), stream),
                "ncclRecv");
  }
  return group.end();
}

/// A call in progress reports its own errors, so this function does not wait for the call.
Status NcclMessages::error() {
  std::unique_lock lock(shared_->calls, std::try_to_lock);
  if (!lock || shared_->isAborted)
    return Status::ok();
  for (const auto &[team, communicator] : shared_->communicators)
    if (communicator)
      BRAID_TRY(communicator->error());
  return Status::ok();
}

/// Aborts on a separate thread, because the library waits for its kernels, and waits forever if a
/// graph contains them.
void NcclMessages::abort() {
  if (shared_->isAborted.exchange(true))
    return;
  const auto abortAll = [shared = shared_] {
    // A call in progress normally notices the abort and returns; otherwise, the library's abort
    // ends it.
    std::unique_lock lock(shared->calls, std::chrono::milliseconds(100));
    for (const auto &[team, communicator] : shared->communicators)
      if (communicator)
        communicator->abort();
    shared->isAbortDone = true;
  };
  std::thread thread;
  if (startThread(thread, "aborting NCCL's communicators", abortAll).isOk())
    thread.detach(); // if an abort never returns, the thread ends with the process
  else
    abortAll();
}

Status NcclMessages::close(std::chrono::milliseconds atMost) {
  if (!shared_->isAborted) {
    std::lock_guard lock(shared_->calls);
    Status status = Status::ok();
    for (const auto &[team, communicator] : shared_->communicators)
      if (communicator && status.isOk())
        status = communicator->close();
    if (status.isOk()) {
      shared_->communicators.clear();
      return status;
    }
    // A communicator that failed to close is aborted below.
  }
  abort();
  const auto deadline = std::chrono::steady_clock::now() + atMost;
  while (!shared_->isAbortDone && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return shared_->isAbortDone
             ? Status::ok()
             : Status(StatusCode::TimedOut,
                      fmt::format("NCCL: aborting a communicator took more than {} ms; its "
                                  "resources will be freed when the process exits",
                                  atMost.count()));
}

} // namespace braid::nccl
