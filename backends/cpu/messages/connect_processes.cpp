//===- backends/cpu/messages/connect_processes.cpp - sockets between the ranks of a host ------===//

#include "backends/cpu/messages/connect_processes.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <fmt/format.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

namespace braid {
namespace {

constexpr int kBufferBytes = 1 << 20; // as far as the system grants it

std::string nameFor(int64_t peer) { return fmt::format("messages to rank {}", peer); }

/// This rank's end of a pair; the other one is offered.
Result<FileDescriptor> offerTo(int64_t peer, ProcessGroup &group) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return unsupported("a socket for messages to rank {}: {}", peer, llvm::sys::StrError(errno));
  FileDescriptor mine(ends[0]), theirs(ends[1]);
  for (int end : ends)
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  BRAID_TRY(group.offer(nameFor(peer), theirs.get()));
  return mine;
}

/// The host would hold the peer's end open after the peer has gone.
Status endOffer(int64_t peer, ProcessGroup &group) {
  const FileDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return nothing.isValid() ? group.offer(nameFor(peer), nothing.get()) : Status::ok();
}

} // namespace

Result<std::vector<FileDescriptor>> connectByDescriptors(ProcessGroup &group) {
  const int64_t rank = group.rank();
  std::vector<FileDescriptor> sockets(static_cast<size_t>(group.size()));
  for (int64_t peer = rank + 1; peer < group.size(); ++peer)
    sockets[static_cast<size_t>(peer)] = BRAID_TRY(offerTo(peer, group));
  BRAID_TRY(group.allGather("offered"));
  for (int64_t peer = 0; peer < rank; ++peer)
    sockets[static_cast<size_t>(peer)] = BRAID_TRY(group.want(peer, nameFor(rank)));
  BRAID_TRY(group.allGather("connected"));
  for (int64_t peer = rank + 1; peer < group.size(); ++peer)
    BRAID_TRY(endOffer(peer, group));
  return sockets;
}

} // namespace braid
