//===- backends/nccl/communicator.cpp - the communicator of a team ----------------------------===//

#include "backends/nccl/communicator.h"

#include "ir/failure.h"

#include <thread>

namespace braid::nccl {

using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Communicator>> Communicator::create(const Library &library,
                                                           const UniqueId &id, int position,
                                                           int members, const Patience &patience) {
  std::unique_ptr<Communicator> made(new Communicator(library, patience));
  Config config;
  config.blocking = 0;
  Comm *comm = nullptr;
  const Code code = library.call.CommInitRankConfig(&comm, members, id, position, &config);
  made->comm_ = comm;
  Status status = made->finish(code, "ncclCommInitRankConfig");
  if (status.isOk())
    return made;
  made->abort();
  return status;
}

/// In a correct program, a library error means that a device or a peer is lost.
Status Communicator::failure(Code code, const char *call) const {
  Comm *comm = get();
  const char *more = comm ? library_.call.GetLastError(comm) : nullptr;
  return peerFailed("NCCL: {} from {}{}{}", library_.call.GetErrorString(code), call,
                    more && *more ? ": " : "", more ? more : "");
}

Status Communicator::finish(Code code, const char *call) const {
  if (code == Code::Success)
    return Status::ok();
  const Clock::time_point begin = Clock::now();
  constexpr std::chrono::milliseconds kBusy{10};
  while (code == Code::InProgress) {
    if (patience_.isAborted())
      return peerFailed("NCCL: {} was abandoned, because the job has failed", call);
    const Clock::duration gone = Clock::now() - begin;
    if (gone > patience_.timeout)
      return Status(StatusCode::TimedOut, fmt::format("NCCL: {} is still in progress after {} ms",
                                                      call, patience_.timeout.count()));
    if (gone > kBusy)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    else
      std::this_thread::yield();
    if (const Code asked = library_.call.CommGetAsyncError(get(), &code); asked != Code::Success)
      return failure(asked, "ncclCommGetAsyncError");
  }
  return code == Code::Success ? Status::ok() : failure(code, call);
}

Status Communicator::error() const {
  Code code = Code::Success;
  Comm *comm = get();
  if (!comm)
    return Status::ok();
  if (const Code asked = library_.call.CommGetAsyncError(comm, &code); asked != Code::Success)
    return failure(asked, "ncclCommGetAsyncError");
  return code == Code::Success || code == Code::InProgress ? Status::ok()
                                                           : failure(code, "a background thread");
}

Status Communicator::close() {
  BRAID_TRY(finish(library_.call.CommFinalize(get()), "ncclCommFinalize"));
  const Code code = library_.call.CommDestroy(comm_.exchange(nullptr));
  return code == Code::Success || code == Code::InProgress ? Status::ok()
                                                           : failure(code, "ncclCommDestroy");
}

void Communicator::abort() {
  if (Comm *comm = comm_.exchange(nullptr))
    (void)library_.call.CommAbort(comm);
}

} // namespace braid::nccl
