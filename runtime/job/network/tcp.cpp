//===- runtime/job/network/tcp.cpp ------------------------------------------------------------===//

#include "runtime/job/network/tcp.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/host_name.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kWaitingConnections = 128;
/// The time limit per address, so that an unresponsive address does not block the others.
constexpr milliseconds kForAddress{3000};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Resolves `host` to at least one address. Returns BadInput if it has none.
Result<Addresses> resolve(const std::string &host, uint16_t port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo *list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (error != 0)
    return badInput("cannot resolve host '{}': {}", printable(host, 253), gai_strerror(error));
  return Addresses(list, freeaddrinfo);
}

/// Creates a socket with TCP_NODELAY, which accepted connections inherit.
FileDescriptor makeSocket(const addrinfo &address) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

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

/// On failure, returns nullopt and sets `error` to an errno value.
std::optional<TcpListener> tryToListen(const addrinfo &at, int &error) {
  FileDescriptor socket = makeSocket(at);
  const int on = 1;
  sockaddr_storage bytes = {};
  auto *own = reinterpret_cast<sockaddr *>(&bytes);
  socklen_t size = sizeof bytes;
  // Allows immediate reuse of the port of a job that has just ended.
  if (!socket.isValid() ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 ||
      ::listen(socket.get(), kWaitingConnections) != 0 ||
      getsockname(socket.get(), own, &size) != 0) {
    error = errno;
    return std::nullopt;
  }
  return TcpListener{std::move(socket), numbersOf(own, size)};
}

/// On failure, returns an invalid descriptor and sets `error` to an errno value.
FileDescriptor tryToConnect(const addrinfo &to, Deadline deadline, int &error) {
  FileDescriptor socket = makeSocket(to);
  if (!socket.isValid() || (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0 &&
                            errno != EINPROGRESS && errno != EINTR)) {
    error = errno;
    return FileDescriptor();
  }
  error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (waitUntilReady(socket.get(), POLLOUT, std::min(deadline, Clock::now() + kForAddress)))
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(socket) : FileDescriptor();
}

/// Returns the addresses of the interfaces that are up, except loopback and link-local addresses.
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

Result<TcpListener> listenAt(const TcpAddress &at) {
  int error = 0;
  const Addresses addresses = BRAID_TRY(resolve(at.host, at.port));
  for (const addrinfo *each = addresses.get(); each; each = each->ai_next) {
    if (std::optional<TcpListener> listener = tryToListen(*each, error))
      return std::move(*listener);
    // Do not try the next address: other hosts would still try this one and find another process.
    if (error == EADDRINUSE)
      break;
  }
  if (error == EADDRNOTAVAIL)
    return badInput("cannot listen on {}: not an address of this host", textOf(at));
  return badInput("cannot listen on {}: {}", textOf(at), llvm::sys::StrError(error));
}

Result<FileDescriptor> connectTo(const TcpAddress &at, const std::string &whose,
                                 Deadline deadline) {
  int error = 0;
  const Addresses addresses = BRAID_TRY(resolve(at.host, at.port));
  for (const addrinfo *each = addresses.get(); each; each = each->ai_next) {
    int its = 0;
    FileDescriptor socket = tryToConnect(*each, deadline, its);
    if (socket.isValid())
      return socket;
    if (error == 0 || its != ETIMEDOUT) // ignore attempts cut short by the deadline
      error = its;
  }
  return Status(Clock::now() >= deadline ? StatusCode::TimedOut : StatusCode::PeerFailed,
                fmt::format("cannot connect to {}: {}", whose, llvm::sys::StrError(error)));
}

Result<std::string> addressOfThisHost() {
  const std::vector<std::string> addresses = addressesOfInterfaces();
  if (addresses.empty())
    return unsupported("cannot reach other hosts: no network interface is up");
  if (const auto named = resolve(hostName(), 0))
    for (const addrinfo *each = named->get(); each; each = each->ai_next)
      if (std::string host = numbersOf(each->ai_addr, each->ai_addrlen).host;
          llvm::is_contained(addresses, host))
        return host;
  return addresses.front();
}

std::string textOf(const TcpAddress &address) {
  const bool isIpv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", isIpv6 ? "[" : "", address.host, isIpv6 ? "]" : "", address.port);
}

} // namespace braid
