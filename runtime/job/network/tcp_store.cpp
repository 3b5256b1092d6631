//===- runtime/job/network/tcp_store.cpp - a client for PyTorch's store protocol --------------===//

#include "runtime/job/network/tcp_store.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace braid {
namespace {

using Kind = StoreRequest::Kind;

constexpr uint32_t kMagic = 0x3c85f7ce;
/// The expected value in a COMPARE_SET that only reads. No host ever stores this value.
constexpr const char *kNothing = "nothing is here";

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
    return badInput("expected a string of at most {} bytes for a store, got {}", most, size);
  if (bytes.size() < size)
    return false;
  text = bytes.take_front(static_cast<size_t>(size)).str();
  bytes = bytes.drop_front(static_cast<size_t>(size));
  return true;
}

} // namespace

// -- Requests. --

std::string textOfStore(llvm::StringRef text) {
  return bytesOf<uint64_t>(text.size()) + text.str();
}

std::string StoreRequest::encode() const {
  const std::string begin = bytesOf(static_cast<uint8_t>(kind));
  switch (kind) {
  case Kind::Validate:
    return begin + bytesOf(kMagic);
  case Kind::Set:
    return begin + textOfStore(key) + textOfStore(value);
  case Kind::CompareSet:
    return begin + textOfStore(key) + textOfStore(expected) + textOfStore(value);
  }
  llvm_unreachable("covered above");
}

Result<std::optional<StoreRequest>> StoreRequest::take(llvm::StringRef &bytes) {
  const std::optional<StoreRequest> notYet;
  llvm::StringRef rest = bytes;
  StoreRequest request;
  uint8_t kind = 0;
  if (!takeNumber(rest, kind))
    return notYet;
  if (kind > static_cast<uint8_t>(Kind::CompareSet))
    return badInput("expected a request to a store, got kind {}", kind);
  request.kind = static_cast<Kind>(kind);
  if (request.kind == Kind::Validate) {
    uint32_t magic = 0;
    if (!takeNumber(rest, magic))
      return notYet;
    if (magic != kMagic)
      return badInput("the connection is not from a client of this store");
  } else {
    if (!BRAID_TRY(takeText(rest, kMaxStoreKey, request.key)) ||
        (request.kind == Kind::CompareSet &&
         !BRAID_TRY(takeText(rest, kMaxStoreValue, request.expected))) ||
        !BRAID_TRY(takeText(rest, kMaxStoreValue, request.value)))
      return notYet;
  }
  bytes = rest;
  return std::optional(std::move(request));
}

// -- The client. --

TcpStore::TcpStore(FileDescriptor socket, std::string whose)
    : socket_(std::move(socket)), whose_(std::move(whose)),
      unsent_(StoreRequest{.kind = Kind::Validate}.encode()) {}

/// First sends the remaining bytes of earlier requests.
Status TcpStore::put(const std::string &key, const std::string &value) {
  assert(!value.empty() && value.size() <= kMaxStoreValue);
  const Deadline deadline = deadlineIn(kLongest);
  BRAID_TRY(write(deadline));
  unsent_ = StoreRequest{.kind = Kind::Set, .key = key, .value = value}.encode();
  const Status sent = write(deadline);
  return sent.code() == StatusCode::TimedOut ? Status::ok() : sent;
}

Result<std::string> TcpStore::putIfAbsent(const std::string &key, const std::string &value) {
  assert(!value.empty() && value.size() <= kMaxStoreValue);
  return compareSet(key, "", value);
}

Result<std::optional<std::string>> TcpStore::poll(const std::string &key) {
  const std::string value = BRAID_TRY(compareSet(key, kNothing, kNothing));
  return value.empty() || value == kNothing ? std::optional<std::string>() : value;
}

/// If a call times out, its late answer is stored for the next call with the same request.
Result<std::string> TcpStore::compareSet(const std::string &key, const std::string &expected,
                                         const std::string &value) {
  const Deadline deadline = deadlineIn(kLongest);
  const std::string request =
      StoreRequest{.kind = Kind::CompareSet, .key = key, .expected = expected, .value = value}
          .encode();
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

Status TcpStore::write(Deadline deadline) {
  while (!unsent_.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !hasNothingNow())
      return peerFailed("cannot write to {}: {}", whose_, llvm::sys::StrError(errno));
    unsent_.erase(0, sent < 0 ? 0 : static_cast<size_t>(sent));
    if (sent < 0 && !waitUntilReady(socket_.get(), POLLOUT, deadline))
      return timedOut("{} did not read in time", whose_);
  }
  return Status::ok();
}

Result<std::string> TcpStore::readAnswer(Deadline deadline) {
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
      return peerFailed("{} closed the connection before it had answered", whose_);
    if (got < 0 && !hasNothingNow())
      return peerFailed("cannot read the answer of {}: {}", whose_, llvm::sys::StrError(errno));
    received_.append(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && !waitUntilReady(socket_.get(), POLLIN, deadline))
      return timedOut("{} did not answer in time", whose_);
  }
}

} // namespace braid
