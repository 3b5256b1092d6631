//===- runtime/job/network/secure_stream.cpp --------------------------------------------------===//

#include "runtime/job/network/secure_stream.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace braid {

SecureStream::SecureStream(FileDescriptor socket, const StreamKeys &keys, std::string received)
    : socket_(std::move(socket)), sealer_(keys.sends), opener_(keys.receives) {
  failure_ = opener_.feed(received, opened_);
}

Status SecureStream::flush() {
  while (hasUnsent()) {
    const ssize_t count = ::send(socket_.get(), sealed_.data() + sent_, sealed_.size() - sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && hasNothingNow())
      return Status::ok();
    if (count < 0)
      return peerFailed("cannot send: {}", llvm::sys::StrError(errno));
    sent_ += static_cast<size_t>(count);
  }
  sealed_.clear();
  sent_ = 0;
  return Status::ok();
}

Result<size_t> SecureStream::write(llvm::StringRef bytes) {
  size_t taken = 0;
  for (BRAID_TRY(flush()); !hasUnsent() && taken < bytes.size(); BRAID_TRY(flush())) {
    const llvm::StringRef part = bytes.substr(taken, kMaxRecordBytes);
    sealer_.seal(part, sealed_);
    taken += part.size();
  }
  return taken;
}

Status SecureStream::readSocket() {
  char bytes[size_t(64) << 10];
  const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && hasNothingNow())
    return Status::ok();
  if (count == 0)
    return peerFailed("the other side closed the connection");
  if (count < 0)
    return peerFailed("cannot receive: {}", llvm::sys::StrError(errno));
  return opener_.feed({bytes, static_cast<size_t>(count)}, opened_);
}

Result<size_t> SecureStream::read(llvm::MutableArrayRef<char> place) {
  if (!hasUnread()) {
    opened_.clear();
    taken_ = 0;
    if (failure_.isOk())
      failure_ = readSocket();
  }
  if (!hasUnread() && !failure_.isOk())
    return failure_;
  const size_t count = std::min(place.size(), opened_.size() - taken_);
  std::memcpy(place.data(), opened_.data() + taken_, count);
  taken_ += count;
  return count;
}

} // namespace braid
