//===- backends/cpu/messages/connect_processes.cpp -------------------------------------------===//

#include "backends/cpu/messages/connect_processes.h"

#include "backends/cpu/messages/connect_hosts.h"
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

/// To the other ranks of this host.
Status connectHere(ProcessGroup &group, std::vector<std::unique_ptr<Carrier>> &carriers) {
  const int64_t rank = group.rank();
  const int64_t perHost = group.memory().ranksPerHost();
  const int64_t first = rank / perHost * perHost, end = first + perHost;
  for (int64_t peer = rank + 1; peer < end; ++peer)
    carriers[static_cast<size_t>(peer)] = carryPlain(BRAID_TRY(offerTo(peer, group)));
  BRAID_TRY(group.allGather("offered"));
  for (int64_t peer = first; peer < rank; ++peer)
    carriers[static_cast<size_t>(peer)] = carryPlain(BRAID_TRY(group.want(peer, nameFor(rank))));
  BRAID_TRY(group.allGather("connected"));
  for (int64_t peer = rank + 1; peer < end; ++peer)
    BRAID_TRY(endOffer(peer, group));
  return Status::ok();
}

} // namespace

Result<std::vector<std::unique_ptr<Carrier>>> connectProcesses(ProcessGroup &group) {
  std::vector<std::unique_ptr<Carrier>> carriers(static_cast<size_t>(group.size()));
  BRAID_TRY(connectHere(group, carriers));
  if (group.memory().hosts() > 1)
    BRAID_TRY(connectHosts(group, carriers));
  return carriers;
}

} // namespace braid
