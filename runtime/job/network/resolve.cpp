//===- runtime/job/network/resolve.cpp --------------------------------------------------------===//

#include "runtime/job/network/resolve.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <cstring>
#include <future>

#include <netdb.h>

namespace braid {
namespace {

struct Resolved {
  std::vector<SocketAddress> addresses;
  std::string failure; ///< why there are none
};

Resolved resolveNow(const std::string &host, uint16_t port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo *list = nullptr;
  Resolved resolved;
  if (int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list)) {
    resolved.failure = gai_strerror(error);
    return resolved;
  }
  for (addrinfo *entry = list; entry; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage))
      continue;
    SocketAddress address;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    resolved.addresses.push_back(address);
  }
  freeaddrinfo(list);
  return resolved;
}

} // namespace

/// A resolver knows no deadline, so it has a thread of its own, which is left behind if it is late.
Result<std::vector<SocketAddress>> resolveWithin(const std::string &host, uint16_t port,
                                                 Deadline deadline) {
  auto answer = std::make_shared<std::promise<Resolved>>();
  std::future<Resolved> future = answer->get_future();
  std::thread thread;
  BRAID_TRY(
      startThread(thread, "resolving a name", [=] { answer->set_value(resolveNow(host, port)); }));
  thread.detach();
  if (future.wait_until(deadline) != std::future_status::ready)
    return timedOut("no address of '{}' was found in time", printable(host, 253));
  Resolved resolved = future.get();
  if (resolved.addresses.empty())
    return badInput("expected a host with an address, got '{}': {}", printable(host, 253),
                    resolved.failure);
  return std::move(resolved.addresses);
}

} // namespace braid
