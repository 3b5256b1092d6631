//===- runtime/job/network/store_server.h - the store that host 0 has for the others ----------===//
//
// Anyone who reaches its port can read and write it, as with torchrun's store. It accepts
// connections until all hosts have connected. Then the port is free.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/tcp.h"
#include "runtime/job/network/tcp_store.h"

#include <map>
#include <memory>
#include <thread>

namespace braid {

/// The texts of a store. Depends on bytes only, so that it can be fuzzed.
class StoreTable {
public:
  /// Removes all complete requests from the front of `bytes`, and appends their answers. BadInput
  /// for anything else: the caller drops the client.
  Status serve(std::string &bytes, std::string &answers);

private:
  void answer(const StoreRequest &request, std::string &answers);
  std::map<std::string, std::string> values_;
};

class StoreServer {
public:
  /// Listens, and starts a thread. Fails as listenAt() does.
  static Result<std::unique_ptr<StoreServer>> start(const TcpAddress &at, int64_t hosts,
                                                    Deadline deadline);
  /// Ends all connections.
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;

  const TcpAddress &address() const { return listener_.address; }

private:
  struct Client {
    FileDescriptor socket;
    std::string requests = {}, answers = {};
    bool isHost = false; ///< it has asked something
  };
  StoreServer(TcpListener listener, int64_t hosts, FileDescriptor end)
      : listener_(std::move(listener)), hosts_(hosts), end_(std::move(end)) {}
  void run();
  bool serve(Client &client);

  TcpListener listener_;
  const int64_t hosts_;
  const FileDescriptor end_; ///< an eventfd: readable when the thread is to end
  std::vector<Client> clients_;
  StoreTable table_;
  std::thread thread_;
};

} // namespace braid
