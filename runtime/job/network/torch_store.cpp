//===- runtime/job/network/torch_store.cpp ----------------------------------------------------===//

#include "runtime/job/network/torch_store.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/network/tcp.h"

#include <cstring>

namespace braid {
namespace {

enum class Query : uint8_t { Validate = 0, Set = 1, Get = 3, Wait = 6 };
constexpr uint32_t kTorchMagic = 0x3c85f7ce;
constexpr char kStoppedWaiting = 0;

template <class Number> std::string bytesOf(Number number) {
  return {reinterpret_cast<const char *>(&number), sizeof number};
}
std::string textOf(const std::string &text) { return bytesOf<uint64_t>(text.size()) + text; }
std::string queryOf(Query query) { return bytesOf(static_cast<uint8_t>(query)); }

std::string greeting() { return queryOf(Query::Validate) + bytesOf(kTorchMagic); }
std::string waitQueryOf(const std::string &key) {
  return queryOf(Query::Wait) + bytesOf<uint64_t>(1) + textOf(key);
}

/// PyTorch's own clients put a slash before their keys, and so can read ours.
std::string keyOf(const std::string &job, const std::string &name) {
  return "/" + storeKey(job, name);
}

Status untilThere(ByteStream &stream, const std::string &key, Deadline deadline) {
  const std::string answer = BRAID_TRY(stream.read(1, deadline));
  if (answer[0] != kStoppedWaiting)
    return badInput("expected {} to say that it has {}, got '{}'", stream.whose(), key,
                    printable(answer, 4));
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<TorchStore>>
TorchStore::open(const Place &place, const Environment &environment, Deadline deadline) {
  auto store = std::unique_ptr<TorchStore>(new TorchStore);
  const std::string port = environment("MASTER_PORT").value_or("");
  store->host_ = environment("MASTER_ADDR").value_or("");
  store->job_ = place.job;
  if (llvm::StringRef(port).getAsInteger(10, store->port_) || store->port_ == 0)
    return badInput("expected MASTER_PORT to be a port, got '{}'", printable(port, 20));
  const bool isOfAgent = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  store->expected_ = fmt::format("{} at {}:{}",
                                 isOfAgent ? "torchrun's store"
                                           : "the store of torch.distributed.init_process_group",
                                 printable(store->host_, 253), store->port_);
  store->isPatient_ = isOfAgent || place.rank != 0;
  Result<ByteStream> stream = store->connect(deadline);
  if (stream)
    return store;
  if (stream.status().code() == StatusCode::PeerFailed)
    return unsupported("torchrun has no store of its own (TORCHELASTIC_USE_AGENT_STORE is not "
                       "True), and {}: call it before on rank 0",
                       stream.status().message());
  return stream.status();
}

Result<ByteStream> TorchStore::connect(Deadline deadline) const {
  return ByteStream::connect(host_, port_, expected_, isPatient_, deadline);
}

/// SET has no answer, so the key is waited for: what has come to the server stays there.
Status TorchStore::putOver(ByteStream &stream, const std::string &key, const std::string &value,
                           Deadline deadline) {
  BRAID_TRY(stream.write(
      greeting() + queryOf(Query::Set) + textOf(key) + textOf(value) + waitQueryOf(key), deadline));
  return untilThere(stream, key, deadline);
}

Result<std::string> TorchStore::getOver(ByteStream &stream, const std::string &key,
                                        Deadline deadline) {
  BRAID_TRY(stream.write(greeting() + waitQueryOf(key), deadline));
  BRAID_TRY(untilThere(stream, key, deadline));
  BRAID_TRY(stream.write(queryOf(Query::Get) + textOf(key), deadline));
  uint64_t bytes = 0;
  const std::string length = BRAID_TRY(stream.read(sizeof bytes, deadline));
  std::memcpy(&bytes, length.data(), sizeof bytes);
  if (bytes > kMaxStoreValue)
    return badInput("expected at most {} bytes of {}, got {}", kMaxStoreValue, stream.whose(),
                    bytes);
  return stream.read(static_cast<size_t>(bytes), deadline);
}

Status TorchStore::put(const std::string &name, const std::string &value, Deadline deadline) {
  BRAID_TRY(checkStoreEntry(name, value));
  ByteStream stream = BRAID_TRY(connect(deadline));
  return putOver(stream, keyOf(job_, name), value, deadline);
}

Result<std::string> TorchStore::get(const std::string &name, Deadline deadline) {
  BRAID_TRY(checkStoreEntry(name, ""));
  ByteStream stream = BRAID_TRY(connect(deadline));
  return getOver(stream, keyOf(job_, name), deadline);
}

/// On the store's own host, its name may mean the loopback's address, which others do not reach.
Result<std::string> TorchStore::addressOfThisHost(Deadline deadline) {
  auto isLoopback = [](const std::string &host) {
    return host.starts_with("127.") || host == "::1" || host == "localhost";
  };
  const ByteStream stream = BRAID_TRY(connect(deadline));
  std::string address = addressOfThisEnd(stream.descriptor());
  return isLoopback(address) && !isLoopback(host_) ? braid::addressOfThisHost() : address;
}

} // namespace braid
