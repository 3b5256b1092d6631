//===- runtime/job/network/store_server.h - the store that host 0 has for the others ----------===//
//
// Anyone who reaches its port can read and write it, as with torchrun's store. It takes connections
// until close().
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/tcp.h"
#include "runtime/job/network/tcp_store.h"

#include <atomic>
#include <map>
#include <memory>
#include <thread>

namespace braid {

/// The texts of a store. Depends on bytes only, so that it can be fuzzed.
class StoreTable {
public:
  /// Takes the requests that have come from the front of `bytes`, and appends the answers. BadInput
  /// for what is no request: the client that said it is to be dropped.
  Status serve(std::string &bytes, std::string &answers);

private:
  Status answer(const StoreRequest &request, std::string &answers);
  std::map<std::string, std::string> values_;
  size_t bytes_ = 0; ///< sum over all values
};

class StoreServer {
public:
  /// Listens, and starts a thread. Fails as listenAt() does.
  static Result<std::unique_ptr<StoreServer>> start(const TcpAddress &at, Deadline deadline);
  /// Ends all connections.
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;

  const TcpAddress &address() const { return listener_.address; }
  /// Takes no more connections, and frees the port. Any thread.
  void close();

private:
  struct Client {
    FileDescriptor socket;
    std::string requests = {}, answers = {};
  };
  StoreServer(TcpListener listener, FileDescriptor wake)
      : listener_(std::move(listener)), wake_(std::move(wake)) {}
  void run();
  void wake();
  void accept();
  bool serve(Client &client);

  TcpListener listener_;
  const FileDescriptor wake_; ///< an eventfd
  std::atomic<bool> isClosed_{false}, isEnding_{false};
  std::vector<Client> clients_;
  StoreTable table_;
  std::thread thread_;
};

} // namespace braid
