//===- runtime/job/network/store_server.cpp - the store that host 0 runs for all hosts --------===//

#include "runtime/job/network/store_server.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace braid {

Status StoreTable::serve(std::string &bytes, std::string &answers) {
  llvm::StringRef rest = bytes;
  Status status;
  while (status.isOk()) {
    const Result<std::optional<StoreRequest>> request = StoreRequest::take(rest);
    if (request && !*request)
      break;
    status = request.status();
    if (request)
      answer(**request, answers);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return status;
}

void StoreTable::answer(const StoreRequest &request, std::string &answers) {
  if (request.kind == StoreRequest::Kind::Validate)
    return;
  std::string &there = values_[request.key]; // empty if the key is new
  if (request.kind == StoreRequest::Kind::Set || there == request.expected)
    there = request.value;
  if (request.kind == StoreRequest::Kind::CompareSet)
    answers += textOfStore(there);
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const TcpAddress &at, int64_t hosts) {
  TcpListener listener = BRAID_TRY(listenAt(at));
  FileDescriptor end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.isValid())
    return unsupported("cannot make an eventfd: {}", llvm::sys::StrError(errno));
  std::unique_ptr<StoreServer> server(new StoreServer(std::move(listener), hosts, std::move(end)));
  BRAID_TRY(
      startThread(server->thread_, "the hosts' store", [server = server.get()] { server->run(); }));
  return server;
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  (void)!write(end_.get(), &one, sizeof one);
  if (thread_.joinable())
    thread_.join();
}

void StoreServer::run() {
  blockSignals();
  for (;;) {
    std::vector<pollfd> events = {{end_.get(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}};
    // Do not receive requests from a client that has not read its answers.
    for (const Client &client : clients_)
      events.push_back(
          {client.socket.get(), client.answers.empty() ? short(POLLIN) : short(POLLOUT), 0});
    poll(events.data(), events.size(), -1);
    if (events[0].revents)
      return;
    size_t i = 2;
    llvm::erase_if(clients_, [&](Client &client) { return events[i++].revents && !serve(client); });
    if (llvm::count_if(clients_, [](const Client &client) { return client.isHost; }) == hosts_)
      listener_.socket.reset();
    else if (FileDescriptor socket = acceptFrom(listener_.socket); socket.isValid())
      clients_.push_back({std::move(socket)});
  }
}

/// Returns false if the client must be dropped.
bool StoreServer::serve(Client &client) {
  char bytes[65536];
  if (client.answers.empty()) {
    const ssize_t got = recv(client.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !hasNothingNow()))
      return false;
    client.requests.append(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (!table_.serve(client.requests, client.answers).isOk())
      return false;
    client.isHost |= !client.answers.empty();
  }
  const ssize_t sent = send(client.socket.get(), client.answers.data(), client.answers.size(),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && !hasNothingNow())
    return false;
  client.answers.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  return true;
}

} // namespace braid
