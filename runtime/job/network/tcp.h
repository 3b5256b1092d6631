//===- runtime/job/network/tcp.h - TCP sockets between the hosts of a job ---------------------===//
//
// Name resolution is bounded by the system resolver's time limits, not by a deadline.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

namespace braid {

/// A socket that listens at one of this host's addresses.
struct TcpListener {
  FileDescriptor socket;
  TcpAddress address; ///< with a numeric host address
};

/// Listens at the first address of `at.host` that belongs to this host; port 0 selects a free port.
/// Returns BadInput if no address belongs to this host or the port is in use.
Result<TcpListener> listenAt(const TcpAddress &at);
/// Returns a non-blocking connection to the first address of `at.host` that accepts one, PeerFailed
/// if none does, or TimedOut at the deadline. `whose` names the peer in messages, for example
/// "torchrun's store at node1:29500".
Result<FileDescriptor> connectTo(const TcpAddress &at, const std::string &whose, Deadline deadline);

/// Returns an address at which other hosts can reach this one: the address to which this host's
/// name resolves if it belongs to a non-loopback interface, otherwise the address of the first
/// interface that is up. Returns Unsupported if there is none.
Result<std::string> addressOfThisHost();

/// Formats an address, for example "node1:29500" or "[fe80::1]:29500".
std::string textOf(const TcpAddress &address);

} // namespace braid
