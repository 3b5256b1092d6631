//===- runtime/job/network/resolve.h - the addresses that a name has --------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <vector>

#include <sys/socket.h>

namespace braid {

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

/// At least one, each with `port`. Blocks until the deadline at most: TimedOut then. BadInput if
/// the name has none.
Result<std::vector<SocketAddress>> resolveWithin(const std::string &host, uint16_t port,
                                                 Deadline deadline);

} // namespace braid
