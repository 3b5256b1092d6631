//===- runtime/job/network/tcp_store.cpp - PyTorch's store protocol, client and server --------===//

#include "runtime/job/network/tcp_store.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <deque>

#include <poll.h>
#include <sys/socket.h>

namespace braid {
namespace {

enum Kind : uint8_t { Validate = 0, Set = 1, CompareSet = 2 };
constexpr uint32_t kMagic = 0x3c85f7ce;
/// The expected value in a COMPARE_SET that only reads. No host ever stores this value.
constexpr const char *kNothing = "nothing is here";
constexpr size_t kMaxKey = 256;

template <class Number> std::string bytesOf(Number number) {
  return {reinterpret_cast<const char *>(&number), sizeof number};
}

template <class Number> bool takeNumber(llvm::StringRef &bytes, Number &number) {
  if (bytes.size() < sizeof number)
    return false;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes = bytes.drop_front(sizeof number);
  return true;
}

/// Decodes a string of at most `most` bytes. Returns false if it is incomplete.
Result<bool> takeText(llvm::StringRef &bytes, size_t most, std::string &text) {
  uint64_t size = 0;
  if (!takeNumber(bytes, size))
    return false;
  if (size > most)
    return badInput("expected a string of at most {} bytes in the store, got {} bytes", most, size);
  if (bytes.size() < size)
    return false;
  text = bytes.take_front(static_cast<size_t>(size)).str();
  bytes = bytes.drop_front(static_cast<size_t>(size));
  return true;
}

class TcpStore final : public Store {
public:
  TcpStore(FileDescriptor socket, std::string whose)
      : socket_(std::move(socket)), whose_(std::move(whose)),
        unsent_(bytesOf(Validate) + bytesOf(kMagic)) {}

  /// First sends the remaining bytes of earlier requests.
  Status put(const std::string &key, const std::string &value) override {
    assert(!value.empty() && value.size() <= kMaxStoreValue);
    const Deadline deadline = deadlineIn(kLongest);
    BRAID_TRY(write(deadline));
    unsent_ = bytesOf(Set) + textOfStore(key) + textOfStore(value);
    const Status sent = write(deadline);
    return sent.code() == StatusCode::TimedOut ? Status::ok() : sent;
  }
  Result<std::string> putIfAbsent(const std::string &key, const std::string &value) override {
    assert(!value.empty() && value.size() <= kMaxStoreValue);
    return compareSet(key, "", value);
  }
  Result<std::optional<std::string>> poll(const std::string &key) override {
    const std::string value = BRAID_TRY(compareSet(key, kNothing, kNothing));
    return value.empty() || value == kNothing ? std::optional<std::string>() : value;
  }

private:
  /// If a call times out, its answer may still arrive. The answer is then kept for the next call
  /// with the same request.
  Result<std::string> compareSet(const std::string &key, const std::string &expected,
                                 const std::string &value) {
    const Deadline deadline = deadlineIn(kLongest);
    const std::string request =
        bytesOf(CompareSet) + textOfStore(key) + textOfStore(expected) + textOfStore(value);
    BRAID_TRY(write(deadline));
    if (!llvm::is_contained(asked_, request) && late_.count(request) == 0) {
      asked_.push_back(request);
      unsent_ = request;
      BRAID_TRY(write(deadline));
    }
    while (late_.count(request) == 0) {
      late_[asked_.front()] = BRAID_TRY(readAnswer(deadline));
      asked_.pop_front();
    }
    return late_.extract(request).mapped();
  }

  Status write(Deadline deadline) {
    while (!unsent_.empty()) {
      const ssize_t sent =
          ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && !hasNothingNow())
        return peerFailed("cannot write to {}: {}", whose_, llvm::sys::StrError(errno));
      unsent_.erase(0, sent < 0 ? 0 : static_cast<size_t>(sent));
      if (sent < 0 && !waitUntilReady(socket_.get(), POLLOUT, deadline))
        return timedOut("{} did not receive the request in time", whose_);
    }
    return Status::ok();
  }

  Result<std::string> readAnswer(Deadline deadline) {
    for (char buffer[65536];;) {
      llvm::StringRef rest = received_;
      std::string answer;
      const Result<bool> isComplete = takeText(rest, kMaxStoreValue, answer);
      if (!isComplete)
        return peerFailed("{}: {}", whose_, isComplete.status().message());
      if (*isComplete) {
        received_.erase(0, received_.size() - rest.size());
        return answer;
      }
      const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0)
        return peerFailed("{} closed the connection before responding", whose_);
      if (got < 0 && !hasNothingNow())
        return peerFailed("cannot read the response from {}: {}", whose_,
                          llvm::sys::StrError(errno));
      received_.append(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && !waitUntilReady(socket_.get(), POLLIN, deadline))
        return timedOut("{} did not answer in time", whose_);
    }
  }

  const FileDescriptor socket_;
  const std::string whose_;
  std::string received_;                    ///< bytes of answers received so far
  std::string unsent_;                      ///< the unsent bytes of requests
  std::deque<std::string> asked_;           ///< unanswered requests, in order
  std::map<std::string, std::string> late_; ///< late answers, keyed by request
};

} // namespace

std::string textOfStore(llvm::StringRef text) {
  return bytesOf<uint64_t>(text.size()) + text.str();
}

std::unique_ptr<Store> storeThrough(FileDescriptor socket, std::string whose) {
  return std::make_unique<TcpStore>(std::move(socket), std::move(whose));
}

Status StoreTable::serve(std::string &bytes, std::string &answers) {
  llvm::StringRef rest = bytes;
  Result<bool> isServed = true;
  while (isServed && *isServed)
    isServed = serveOne(rest, answers);
  bytes.erase(0, bytes.size() - rest.size());
  return isServed.status();
}

/// Returns false, and leaves `bytes` unchanged, if the request is incomplete.
Result<bool> StoreTable::serveOne(llvm::StringRef &bytes, std::string &answers) {
  llvm::StringRef rest = bytes;
  uint8_t kind = 0;
  uint32_t magic = kMagic;
  std::string key, expected, value;
  if (!takeNumber(rest, kind) || (kind == Validate && !takeNumber(rest, magic)))
    return false;
  if (kind > CompareSet)
    return badInput("unknown kind of store request: {}", kind);
  if (magic != kMagic)
    return badInput("the connection is not from a client of this store");
  if (kind != Validate &&
      (!BRAID_TRY(takeText(rest, kMaxKey, key)) ||
       (kind == CompareSet && !BRAID_TRY(takeText(rest, kMaxStoreValue, expected))) ||
       !BRAID_TRY(takeText(rest, kMaxStoreValue, value))))
    return false;
  bytes = rest;
  if (kind == Validate)
    return true;
  std::string &there = values_[key]; // empty if the key is new
  if (kind == Set || there == expected)
    there = value;
  if (kind == CompareSet)
    answers += textOfStore(there);
  return true;
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const TcpAddress &at, int64_t hosts) {
  std::unique_ptr<StoreServer> server(new StoreServer(BRAID_TRY(listenAt(at)), hosts));
  BRAID_TRY(server->thread_.start("the hosts' store", [its = server.get()] { its->run(); }));
  return server;
}

void StoreServer::run() {
  for (;;) {
    std::vector<pollfd> events = {{thread_.end(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}};
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
