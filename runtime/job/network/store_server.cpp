//===- runtime/job/network/store_server.cpp - the store that host 0 has for the others --------===//

#include "runtime/job/network/store_server.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <csignal>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace braid {
namespace {

constexpr size_t kMostClients = 4096;
constexpr size_t kMostBytes = size_t(1) << 30; ///< sum over all values

} // namespace

Status StoreTable::serve(std::string &bytes, std::string &answers) {
  llvm::StringRef rest = bytes;
  Status status;
  while (status.isOk()) {
    const Result<std::optional<StoreRequest>> request = StoreRequest::take(rest);
    if (request && !*request)
      break;
    status = request ? answer(**request, answers) : request.status();
  }
  bytes.erase(0, bytes.size() - rest.size());
  return status;
}

Status StoreTable::answer(const StoreRequest &request, std::string &answers) {
  if (request.kind == StoreRequest::Kind::Validate)
    return Status::ok();
  auto found = values_.find(request.key);
  const std::string there = found == values_.end() ? "" : found->second;
  if (request.kind == StoreRequest::Kind::CompareSet && there != request.expected) {
    answers += textOfStore(there);
    return Status::ok();
  }
  if (bytes_ - there.size() + request.value.size() > kMostBytes)
    return badInput("expected at most {} bytes in a store, got more", kMostBytes);
  bytes_ += request.value.size() - there.size();
  values_[request.key] = request.value;
  if (request.kind == StoreRequest::Kind::CompareSet)
    answers += textOfStore(request.value);
  return Status::ok();
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const TcpAddress &at, Deadline deadline) {
  TcpListener listener = BRAID_TRY(listenAt(at, deadline));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.isValid())
    return unsupported("cannot make an eventfd: {}", llvm::sys::StrError(errno));
  std::unique_ptr<StoreServer> server(new StoreServer(std::move(listener), std::move(wake)));
  BRAID_TRY(
      startThread(server->thread_, "the hosts' store", [server = server.get()] { server->run(); }));
  return server;
}

StoreServer::~StoreServer() {
  isEnding_ = true;
  wake();
  if (thread_.joinable())
    thread_.join();
}

void StoreServer::close() {
  isClosed_ = true;
  wake();
}

void StoreServer::wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void StoreServer::run() {
  // Signals are for the process's own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::vector<pollfd> events;
  while (!isEnding_) {
    events = {{wake_.get(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}};
    // A client that does not read its answers is not heard.
    for (const Client &client : clients_)
      events.push_back(
          {client.socket.get(), client.answers.empty() ? short(POLLIN) : short(POLLOUT), 0});
    poll(events.data(), events.size(), -1);
    uint64_t count;
    (void)!read(wake_.get(), &count, sizeof count);
    size_t i = 2;
    llvm::erase_if(clients_, [&](Client &client) { return events[i++].revents && !serve(client); });
    if (isClosed_)
      listener_.socket.reset();
    else if (events[1].revents)
      accept();
  }
}

void StoreServer::accept() {
  FileDescriptor socket = acceptFrom(listener_);
  if (socket.isValid() && clients_.size() < kMostClients)
    clients_.push_back({std::move(socket)});
}

/// False if the client is to be dropped.
bool StoreServer::serve(Client &client) {
  char bytes[65536];
  if (client.answers.empty()) {
    const ssize_t got = recv(client.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !hasNothingNow()))
      return false;
    client.requests.append(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (!table_.serve(client.requests, client.answers).isOk())
      return false;
  }
  const ssize_t sent = send(client.socket.get(), client.answers.data(), client.answers.size(),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && !hasNothingNow())
    return false;
  client.answers.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  return true;
}

} // namespace braid
