//===- runtime/job/network/tcp_store.h - a client for PyTorch's store protocol ----------------===//
//
// The server is the TCPStore of torchrun's first agent, or Braid's StoreServer. This file
// implements the requests that Braid uses, in the protocol of PyTorch 2.1 and later. Numbers use
// the machine's byte order; a string is encoded as an 8-byte length followed by its bytes.
//
//  0, uint32 0x3c85f7ce       VALIDATE: the first request; no answer
//  1, key, value              SET: no answer
//  2, key, expected, value    COMPARE_SET: sets the value if there is none and `expected` is empty,
//                             or if the current value equals `expected`. The answer is the
//                             resulting value or, if there is none, `expected` or an empty string
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"
#include "runtime/job/bootstrap/store.h"

#include "llvm/ADT/StringRef.h"

#include <deque>
#include <map>

namespace braid {

class TcpStore final : public Store {
public:
  /// Uses an established connection. `whose` names the store in messages.
  TcpStore(FileDescriptor socket, std::string whose);
  Status put(const std::string &key, const std::string &value) override;
  Result<std::string> putIfAbsent(const std::string &key, const std::string &value) override;
  Result<std::optional<std::string>> poll(const std::string &key) override;

private:
  Result<std::string> compareSet(const std::string &key, const std::string &expected,
                                 const std::string &value);
  Status write(Deadline deadline);
  Result<std::string> readAnswer(Deadline deadline);

  const FileDescriptor socket_;
  const std::string whose_;
  std::string received_;                    ///< bytes of answers received so far
  std::string unsent_;                      ///< the unsent bytes of requests
  std::deque<std::string> asked_;           ///< unanswered requests, in order
  std::map<std::string, std::string> late_; ///< late answers, keyed by request
};

/// A client's request to the server.
struct StoreRequest {
  enum class Kind : uint8_t { Validate = 0, Set = 1, CompareSet = 2 };
  Kind kind = Kind::Validate;
  std::string key = {}, expected = {}, value = {};

  std::string encode() const;
  /// Removes one request from the front of `bytes`. Returns nullopt if the request is incomplete,
  /// and BadInput if it is malformed.
  static Result<std::optional<StoreRequest>> take(llvm::StringRef &bytes);
};
inline constexpr size_t kMaxStoreKey = 256;

/// Encodes `text` as a string of the protocol.
std::string textOfStore(llvm::StringRef text);

} // namespace braid
