//===- runtime/job/network/secure_stream.h - a sealed stream over a TCP connection ------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"
#include "runtime/job/network/handshake.h"
#include "runtime/job/network/sealed_stream.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// No call blocks, and none raises SIGPIPE. PeerFailed where the other side is gone, BadInput where
/// what came is no record of it.
class SecureStream {
public:
  /// `received`: what has come after the handshake.
  SecureStream(FileDescriptor socket, const StreamKeys &keys, std::string received = {});

  int descriptor() const { return socket_.get(); }

  /// Takes as many of `bytes` as may be sealed now, and returns how many: 0 if the socket takes no
  /// more.
  Result<size_t> write(llvm::StringRef bytes);
  /// Something sealed has not been sent yet: flush() when the socket takes more.
  bool hasUnsent() const { return sent_ < sealed_.size(); }
  Status flush();

  /// Copies what has come to `place`: 0 if nothing has.
  Result<size_t> read(llvm::MutableArrayRef<char> place);
  /// What has come has not been read yet, so that the socket tells nothing.
  bool hasUnread() const { return taken_ < opened_.size(); }

private:
  Status readSocket();

  FileDescriptor socket_;
  Sealer sealer_;
  Opener opener_;
  std::string sealed_; ///< to be sent
  size_t sent_ = 0;    ///< of it
  std::string opened_; ///< to be read
  size_t taken_ = 0;   ///< of it
  Status failure_;     ///< of reading, once all before it has been read
};

} // namespace braid
