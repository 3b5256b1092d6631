//===- tests/fuzz/fuzz_store.cpp - fuzzes both sides of the store protocol --------------------===//

#include "runtime/job/network/tcp_store.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

#include <sys/socket.h>

namespace braid {
namespace {

/// The answers must not depend on how the bytes are split into reads.
void checkServer(llvm::StringRef bytes) {
  StoreTable once, bytewise;
  std::string all = bytes.str(), allAnswers, answers, pending;
  const Status status = once.serve(all, allAnswers);
  Status later;
  for (size_t i = 0; i < bytes.size() && later.isOk(); ++i) {
    pending += bytes[i];
    later = bytewise.serve(pending, answers);
  }
  require(status.isOk() == later.isOk() && answers == allAnswers);
}

/// If a store sends these bytes, the client must return an answer of limited length or fail.
void checkClient(llvm::StringRef bytes) {
  int both[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
  FileDescriptor other(both[1]);
  require(send(both[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  shutdown(both[1], SHUT_WR);
  const std::unique_ptr<Store> store = storeThrough(FileDescriptor(both[0]), "the store");
  const auto value = store->putIfAbsent("key", "value");
  require(value ? value->size() <= kMaxStoreValue
                : value.status().code() == StatusCode::PeerFailed);
  require(value.isOk() || !store->poll("key").isOk());
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Limits the input to less than the capacity of a socket.
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), std::min<size_t>(size, 16384));
  braid::checkServer(bytes);
  braid::checkClient(bytes);
  return 0;
}
