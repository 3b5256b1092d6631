//===- tests/fuzz/fuzz_launcher_store.cpp - any bytes, as what a launcher's store answers -----===//

#include "ir/printable.h"
#include "runtime/job/network/pmi_store.h"
#include "runtime/job/network/torch_store.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

#include <sys/socket.h>

namespace braid {
namespace {

/// A connection on which `bytes` have come, and then the end.
ByteStream streamOf(llvm::StringRef bytes, FileDescriptor &other) {
  int both[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
  other = FileDescriptor(both[1]);
  require(send(both[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  shutdown(both[1], SHUT_WR);
  return ByteStream(FileDescriptor(both[0]), "the launcher");
}

Deadline soon() { return deadlineIn(std::chrono::seconds(10)); }

/// It ends before any deadline, with a value that is no longer than allowed or a message that can
/// be printed.
void check(const Result<std::string> &got) {
  require(got.status().code() != StatusCode::TimedOut);
  if (got)
    require(got->size() <= kMaxStoreValue);
  else
    require(printable(got.status().message(), got.status().message().size()) ==
            got.status().message());
}

void checkTorch(llvm::StringRef bytes) {
  FileDescriptor other;
  ByteStream stream = streamOf(bytes, other);
  check(TorchStore::getOver(stream, "key", soon()));
  ByteStream second = streamOf(bytes, other);
  require(TorchStore::putOver(second, "key", "value", soon()).isOk() ==
          (!bytes.empty() && bytes[0] == 0));
}

void checkPmi(llvm::StringRef bytes) {
  FileDescriptor other;
  auto store = PmiStore::openOver(streamOf(bytes, other), "job", soon());
  if (!store)
    return check(store.status());
  (void)(*store)->put("name", "value", soon());
  check((*store)->get("name", soon()));
}

void checkValue(llvm::StringRef text) {
  if (auto value = unescapeStoreValue(text))
    require(unescapeStoreValue(escapeStoreValue(*value)) == value);
  require(unescapeStoreValue(escapeStoreValue(text.str())) == text.str());
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Less than a socket holds.
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), std::min<size_t>(size, 16384));
  braid::checkTorch(bytes);
  braid::checkPmi(bytes);
  braid::checkValue(bytes);
  return 0;
}
