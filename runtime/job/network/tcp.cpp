//===- runtime/job/network/tcp.cpp ------------------------------------------------------------===//

#include "runtime/job/network/tcp.h"

#include "ir/failure.h"
#include "runtime/host_name.h"
#include "runtime/job/network/resolve.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cerrno>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace braid {
namespace {

constexpr int kWaitingConnections = 128;

/// An address as numbers, and its port.
TcpAddress numbersOf(const sockaddr *address, socklen_t size) {
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  TcpAddress numbers;
  if (getnameinfo(address, size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return numbers;
  numbers.host = host;
  llvm::StringRef(port).getAsInteger(10, numbers.port);
  return numbers;
}

TcpAddress addressOfSocket(int socket) {
  sockaddr_storage bytes = {};
  socklen_t size = sizeof bytes;
  if (getsockname(socket, reinterpret_cast<sockaddr *>(&bytes), &size) != 0)
    return {};
  return numbersOf(reinterpret_cast<const sockaddr *>(&bytes), size);
}

/// An errno in place of a socket.
Result<TcpListener> tryToListen(const SocketAddress &address, int &error) {
  FileDescriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // The port of a job that has just ended can be taken at once.
  if (!socket.isValid() ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr *>(&address.bytes), address.size) != 0 ||
      ::listen(socket.get(), kWaitingConnections) != 0) {
    error = errno;
    return unsupported("{}", llvm::sys::StrError(error));
  }
  TcpAddress numbers = addressOfSocket(socket.get());
  return TcpListener{std::move(socket), std::move(numbers)};
}

/// The interfaces that are up have these, without the loopback's and link-local ones.
std::vector<std::string> addressesOfInterfaces() {
  std::vector<std::string> addresses;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return addresses;
  for (int family : {AF_INET, AF_INET6})
    for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
      if (!entry->ifa_addr || entry->ifa_addr->sa_family != family ||
          (entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      const std::string host = numbersOf(entry->ifa_addr, size).host;
      if (host.find('%') == std::string::npos)
        addresses.push_back(host);
    }
  freeifaddrs(list);
  return addresses;
}

} // namespace

Result<TcpListener> listenAt(const TcpAddress &at, Deadline deadline) {
  int error = 0;
  for (const SocketAddress &address : BRAID_TRY(resolveWithin(at.host, at.port, deadline))) {
    if (Result<TcpListener> listener = tryToListen(address, error))
      return listener;
    // At another address of this host, the others would not look for it: somebody else answers.
    if (error == EADDRINUSE)
      break;
  }
  if (error == EADDRNOTAVAIL)
    return badInput("expected an address of this host to listen at, got {}", textOf(at));
  return badInput("cannot listen at {}: {}", textOf(at), llvm::sys::StrError(error));
}

FileDescriptor acceptFrom(const TcpListener &listener) {
  FileDescriptor socket(
      accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int on = 1;
  if (socket.isValid())
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Result<std::string> addressOfThisHost() {
  const std::vector<std::string> addresses = addressesOfInterfaces();
  if (addresses.empty())
    return unsupported("expected an interface that leads to other hosts, got none that is up");
  if (const std::string name = hostName(); !name.empty())
    if (auto found = resolveWithin(name, 0, deadlineIn(std::chrono::seconds(2))))
      for (const SocketAddress &each : *found)
        if (std::string host =
                numbersOf(reinterpret_cast<const sockaddr *>(&each.bytes), each.size).host;
            llvm::is_contained(addresses, host))
          return host;
  return addresses.front();
}

std::string textOf(const TcpAddress &address) {
  const bool isIpv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", isIpv6 ? "[" : "", address.host, isIpv6 ? "]" : "", address.port);
}

} // namespace braid
