//===- runtime/job/network/acceptor.h - lets in who knows a secret ----------------------------===//
//
// Whoever connects is asked for a proof, see handshake.h. At most kMaxUnauthenticatedPeers may be
// without one at a time, and fewer where this process may have few descriptors, each for ten
// seconds and with room for one answer. If more come, any of them has to go: chance decides, which
// no number of them can steer, and who belongs here tries again.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/secure_stream.h"
#include "runtime/job/network/tcp.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

#include <poll.h>

namespace braid {

inline constexpr size_t kMaxUnauthenticatedPeers = 256;

/// No call blocks.
class Acceptor {
public:
  /// `secret` and `context` as in ClientHandshake.
  Acceptor(TcpListener listener, std::string secret, std::string context);

  const TcpAddress &address() const { return listener_.address; }
  void addDescriptors(std::vector<pollfd> &events) const;
  /// Who has proved that it knows the secret.
  struct AuthenticatedPeer {
    uint32_t number = 0; ///< as it says
    SecureStream stream;
  };
  /// `events`: what addDescriptors() added, after poll().
  std::vector<AuthenticatedPeer> serve(llvm::ArrayRef<pollfd> events);
  /// Nobody else is let in, and nobody finds the place.
  void close();

private:
  struct UnauthenticatedPeer {
    FileDescriptor socket;
    ServerHandshake handshake;
    Deadline deadline;
  };
  void accept();
  UnauthenticatedPeer &anyOfThem();
  bool serve(UnauthenticatedPeer &peer, std::vector<AuthenticatedPeer> &authenticated) const;

  TcpListener listener_;
  const std::string secret_, context_;
  const size_t mostUnauthenticated_;
  std::vector<UnauthenticatedPeer> unauthenticated_;
  Deadline acceptTime_{}; ///< not before
};

/// The other side: proves that this process knows the secret to who accepts at `at`, which `whose`
/// names. Blocks at most until the deadlines: the first one is for being asked, the second one for
/// the answer to this side's proof. Who goes away between these may have been let in, and the other
/// side would take that for its end. PeerFailed or TimedOut where it may be worth another try,
/// BadInput if the other side does not know the secret.
Result<SecureStream> connectAuthenticated(const TcpAddress &at, const std::string &whose,
                                          const std::string &secret, const std::string &context,
                                          uint32_t number, Deadline toBeAsked, Deadline toBeLetIn);

} // namespace braid
