//===- runtime/job/network/tcp.h - sockets by which the hosts of a job reach each other -------===//
//
// Every call is bounded by a deadline: TimedOut then.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

namespace braid {

/// A socket that takes connections at one address of this host.
struct TcpListener {
  FileDescriptor socket;
  TcpAddress address; ///< as numbers
};

/// At the first address that `at.host` has and that is one of this host's; port 0: any free one.
/// BadInput if none is, or the port is taken.
Result<TcpListener> listenAt(const TcpAddress &at, Deadline deadline);
/// A connection, which does not block, to the first address of the name that takes it. PeerFailed
/// if none does. `whose` names the other side in messages: "torchrun's store at node1:29500".
Result<FileDescriptor> connectTo(const TcpAddress &at, const std::string &whose, Deadline deadline);

/// An address that other hosts may reach this one by: what its name means, if that is one of its
/// interfaces' and not the loopback's, else that of the first interface which is up. Unsupported if
/// there is none.
Result<std::string> addressOfThisHost();

/// "node1:29500", "[fe80::1]:29500".
std::string textOf(const TcpAddress &address);

} // namespace braid
