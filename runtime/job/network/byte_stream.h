//===- runtime/job/network/byte_stream.h - bytes over a connected socket ----------------------===//
//
// Every call is bounded by a deadline, and every read by a number of bytes. No call raises SIGPIPE.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

namespace braid {

class ByteStream {
public:
  /// `whose` names the other side in messages: "torchrun's store at node1:29500". The socket may
  /// be in either mode: no call lets it block.
  ByteStream(FileDescriptor socket, std::string whose)
      : socket_(std::move(socket)), whose_(std::move(whose)) {}

  /// Tries all addresses that the name has, in turns, until one takes the connection. Where each
  /// refuses, PeerFailed at once, or at the deadline if `isPatient`. TimedOut at the deadline.
  static Result<ByteStream> connect(const std::string &host, uint16_t port, std::string whose,
                                    bool isPatient, Deadline deadline);

  const std::string &whose() const { return whose_; }
  int descriptor() const { return socket_.get(); }
  // TimedOut, or PeerFailed if the other side is gone.
  /// Takes what was written from the front of `bytes`: all of it, unless it fails.
  Status write(std::string &bytes, Deadline deadline);
  /// Exactly that many bytes, or none.
  Result<std::string> read(size_t bytes, Deadline deadline);
  /// The same; they are read again.
  Result<std::string> peek(size_t bytes, Deadline deadline);

private:
  Status readMore(Deadline deadline);

  FileDescriptor socket_;
  std::string whose_;
  std::string pending_; ///< read, and not yet asked for
};

} // namespace braid
