//===- runtime/job/network/tcp_store.h - PyTorch's store protocol, client and server ----------===//
//
// The server is the TCPStore of torchrun's first agent, or the StoreServer that host 0 runs for all
// hosts. This file implements the requests that Braid uses, in the protocol of PyTorch 2.1 and
// later. Numbers use the machine's byte order; a string is encoded as an 8-byte length followed by
// its bytes.
//
//  0, uint32 0x3c85f7ce       VALIDATE: the first request; no answer
//  1, key, value              SET: no answer
//  2, key, expected, value    COMPARE_SET: sets the value if there is none and `expected` is empty,
//                             or if the current value equals `expected`. The answer is the
//                             resulting value or, if there is none, `expected` or an empty string
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/bootstrap/store.h"
#include "runtime/job/network/tcp.h"

#include <map>
#include <vector>

namespace braid {

/// Returns a client that uses an established connection. `whose` names the store in messages.
std::unique_ptr<Store> storeThrough(FileDescriptor socket, std::string whose);

/// The contents of a store. Depends only on its input bytes, so that it can be fuzzed.
class StoreTable {
public:
  /// Removes all complete requests from the front of `bytes`, and appends the answers to `answers`.
  /// Returns BadInput for malformed bytes; the caller must then drop the client.
  Status serve(std::string &bytes, std::string &answers);

private:
  Result<bool> serveOne(llvm::StringRef &bytes, std::string &answers);
  std::map<std::string, std::string> values_;
};

/// Like torchrun's store, this store can be read and written by anyone who can connect to its port.
/// It accepts connections until all hosts have connected, and then releases the port. The
/// destructor stops the thread and closes all connections.
class StoreServer {
public:
  /// Listens at `at` and starts a thread that serves clients. Fails if listenAt() fails.
  static Result<std::unique_ptr<StoreServer>> start(const TcpAddress &at, int64_t hosts);
  const TcpAddress &address() const { return listener_.address; }

private:
  struct Client {
    FileDescriptor socket;
    std::string requests = {}, answers = {};
    bool isHost = false; ///< whether the client has sent a request
  };
  StoreServer(TcpListener listener, int64_t hosts)
      : listener_(std::move(listener)), hosts_(hosts) {}
  void run();
  bool serve(Client &client);

  TcpListener listener_;
  const int64_t hosts_;
  std::vector<Client> clients_;
  StoreTable table_;
  ServiceThread thread_; ///< last, because it uses the other members
};

/// Encodes `text` as a string in the store's protocol.
std::string textOfStore(llvm::StringRef text);

} // namespace braid
