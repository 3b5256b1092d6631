//===- backends/cpu/messages/carrier.h - what carries bytes to a peer and back ----------------===//
#pragma once

#include "api/status.h"
#include "runtime/job/bootstrap/socket.h"
#include "runtime/job/network/secure_stream.h"

#include <memory>

namespace braid {

/// A connection to a peer. No call blocks; a failure says that nothing more goes that way.
class Carrier {
public:
  virtual ~Carrier() = default;
  virtual int descriptor() const = 0;
  /// Takes as many of the bytes as it can now, the header's first: 0 if none.
  virtual Result<size_t> write(llvm::StringRef header, llvm::StringRef data) = 0;
  /// What was taken is still to be sent: write() again, of nothing if there is nothing more.
  virtual bool hasUnsent() const { return false; }
  /// 0 if nothing has come.
  virtual Result<size_t> read(llvm::MutableArrayRef<char> place) = 0;
  /// What has come has not been read, though the descriptor does not tell.
  virtual bool hasUnread() const { return false; }
};

/// Within a host: as the bytes are.
std::unique_ptr<Carrier> carryPlain(FileDescriptor socket);
/// Between hosts.
std::unique_ptr<Carrier> carrySealed(SecureStream stream);

} // namespace braid
