//===- runtime/job/network/store_server.h - the store that host 0 runs for all hosts ----------===//
//
// Like torchrun's store, this store can be read and written by anyone who can connect to its port.
// It accepts connections until all hosts have connected, and then releases the port.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/tcp.h"
#include "runtime/job/network/tcp_store.h"

#include <map>
#include <memory>
#include <thread>

namespace braid {

/// The contents of a store. Depends only on its input bytes, so that it can be fuzzed.
class StoreTable {
public:
  /// Removes all complete requests from the front of `bytes`, and appends the answers to `answers`.
  /// Returns BadInput for malformed bytes; the caller must then drop the client.
  Status serve(std::string &bytes, std::string &answers);

private:
  void answer(const StoreRequest &request, std::string &answers);
  std::map<std::string, std::string> values_;
};

class StoreServer {
public:
  /// Listens at `at` and starts a thread that serves clients. Fails if listenAt() fails.
  static Result<std::unique_ptr<StoreServer>> start(const TcpAddress &at, int64_t hosts);
  /// Stops the thread and closes all connections.
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;

  const TcpAddress &address() const { return listener_.address; }

private:
  struct Client {
    FileDescriptor socket;
    std::string requests = {}, answers = {};
    bool isHost = false; ///< whether the client has sent a request
  };
  StoreServer(TcpListener listener, int64_t hosts, FileDescriptor end)
      : listener_(std::move(listener)), hosts_(hosts), end_(std::move(end)) {}
  void run();
  bool serve(Client &client);

  TcpListener listener_;
  const int64_t hosts_;
  const FileDescriptor end_; ///< an eventfd, readable once the thread must stop
  std::vector<Client> clients_;
  StoreTable table_;
  std::thread thread_;
};

} // namespace braid
