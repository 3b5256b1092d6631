//===- runtime/job/network/tcp_store.h - a store that is reached by PyTorch's protocol --------===//
//
// torchrun's first agent has a TCPStore, and StoreServer is one that Braid has itself. This is what
// is said to either, as PyTorch 2.1 and later do. Numbers are of the machine's own byte order; a
// text is its length in 8 bytes, then its bytes.
//
//   0 and 4 bytes 0x3c85f7ce   VALIDATE: first of all; no answer
//   1, key, value              SET: no answer
//   2, key, expected, value    COMPARE_SET: puts the value if there is none and `expected` is
//                              empty, or if what is there is `expected`. The answer is what is
//                              there then; without a value, `expected` or an empty text
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"
#include "runtime/job/bootstrap/store.h"

#include "llvm/ADT/StringRef.h"

#include <map>

namespace braid {

class TcpStore final : public Store {
public:
  /// Over a connection that has been made. `whose` names the store in messages.
  TcpStore(FileDescriptor socket, std::string whose);
  Status put(const std::string &key, const std::string &value) override;
  Result<std::string> putIfAbsent(const std::string &key, const std::string &value) override;
  Result<std::optional<std::string>> poll(const std::string &key) override;

private:
  Result<std::string> compareSet(const std::string &key, const std::string &expected,
                                 const std::string &value);
  Status write(Deadline deadline);
  Status read(size_t bytes, Deadline deadline);
  Result<std::string> readAnswer(Deadline deadline);

  const FileDescriptor socket_;
  const std::string whose_;
  std::string received_; ///< bytes of answers
  std::string unsent_;   ///< requests, or the end of one
  std::string asked_;    ///< the request that has yet to be answered; empty: none
  std::map<std::string, std::string> late_; ///< late answers, by request
};

/// A message of a client to a server.
struct StoreRequest {
  enum class Kind : uint8_t { Validate = 0, Set = 1, CompareSet = 2 };
  Kind kind = Kind::Validate;
  std::string key = {}, expected = {}, value = {};

  std::string encode() const;
  /// Takes one from the front of `bytes`; nothing if it has not come as a whole. BadInput for
  /// anything else.
  static Result<std::optional<StoreRequest>> take(llvm::StringRef &bytes);
};
inline constexpr size_t kMaxStoreKey = 256;

/// A text as the protocol has it.
std::string textOfStore(llvm::StringRef text);

} // namespace braid
