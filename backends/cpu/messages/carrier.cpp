//===- backends/cpu/messages/carrier.cpp - what carries bytes to a peer and back --------------===//

#include "backends/cpu/messages/carrier.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <cerrno>

#include <sys/socket.h>
#include <sys/uio.h>

namespace braid {
namespace {

class PlainCarrier final : public Carrier {
public:
  explicit PlainCarrier(FileDescriptor socket) : socket_(std::move(socket)) {}
  int descriptor() const override { return socket_.get(); }

  Result<size_t> write(llvm::StringRef header, llvm::StringRef data) override {
    iovec parts[] = {{const_cast<char *>(header.data()), header.size()},
                     {const_cast<char *>(data.data()), data.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t bytes = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (bytes < 0 && !hasNothingNow())
      return peerFailed("{}", llvm::sys::StrError(errno));
    return bytes < 0 ? size_t(0) : static_cast<size_t>(bytes);
  }

  Result<size_t> read(llvm::MutableArrayRef<char> place) override {
    const ssize_t bytes = recv(socket_.get(), place.data(), place.size(), MSG_DONTWAIT);
    if (bytes < 0 && hasNothingNow())
      return size_t(0);
    if (bytes <= 0)
      return peerFailed("{}", bytes < 0 ? llvm::sys::StrError(errno) : "it has ended");
    return static_cast<size_t>(bytes);
  }

private:
  FileDescriptor socket_;
};

class SealedCarrier final : public Carrier {
public:
  explicit SealedCarrier(SecureStream stream) : stream_(std::move(stream)) {}
  int descriptor() const override { return stream_.descriptor(); }
  bool hasUnsent() const override { return stream_.hasUnsent(); }
  bool hasUnread() const override { return stream_.hasUnread(); }

  Result<size_t> write(llvm::StringRef header, llvm::StringRef data) override {
    const size_t taken = BRAID_TRY(stream_.write(header));
    if (taken < header.size())
      return taken;
    Result<size_t> ofData = stream_.write(data);
    // What the header has taken counts; the failure comes again.
    return taken + (ofData ? *ofData : 0);
  }

  Result<size_t> read(llvm::MutableArrayRef<char> place) override { return stream_.read(place); }

private:
  SecureStream stream_;
};

} // namespace

std::unique_ptr<Carrier> carryPlain(FileDescriptor socket) {
  return std::make_unique<PlainCarrier>(std::move(socket));
}

std::unique_ptr<Carrier> carrySealed(SecureStream stream) {
  return std::make_unique<SealedCarrier>(std::move(stream));
}

} // namespace braid
