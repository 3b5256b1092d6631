//===- tests/bootstrap/raw_socket.h - messages that Connection would never send ---------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <cstring>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

namespace braid {

/// Sends a message with any number of descriptors. Returns false on failure.
inline bool sendRaw(int socket, llvm::StringRef bytes, const std::vector<int> &descriptors = {}) {
  iovec part{const_cast<char *>(bytes.data()), bytes.size()};
  std::vector<std::max_align_t> control(16);
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (size_t size = descriptors.size() * sizeof(int)) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Returns a blocking socket connected to the abstract `name`, or an invalid descriptor.
inline FileDescriptor connectRaw(const std::string &name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<sockaddr *>(&address), size) != 0)
    socket.reset();
  return socket;
}

} // namespace braid
