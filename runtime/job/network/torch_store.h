//===- runtime/job/network/torch_store.h - torchrun's TCPStore --------------------------------===//
//
// torchrun's first agent has a TCPStore at MASTER_ADDR:MASTER_PORT, and sets
// TORCHELASTIC_USE_AGENT_STORE=True. Where it does not, the process of rank 0 makes one there, in
// torch.distributed.init_process_group.
//
// What is said, by PyTorch 2.1 and later, to either of its servers (libuv or not). Numbers are of
// the machine's own byte order; a text is its length in 8 bytes, then its bytes.
//
//   0 and 4 bytes 0x3c85f7ce      first of all, and has no answer
//   1, key, value                 SET, has no answer
//   3, key                        GET: the value; the key has to be there
//   6, 8 bytes 1, key             WAIT: a byte 0 when the key is there
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/byte_stream.h"
#include "runtime/job/network/launcher_store.h"

namespace braid {

/// Each call makes a connection of its own, so that one that ran out of time leaves nothing behind.
class TorchStore : public LauncherStore {
public:
  /// BadInput if MASTER_PORT is no port. Unsupported if nobody listens there, and nobody else than
  /// this rank, which is 0, ever would. Connects, if that may take until the deadline.
  static Result<std::unique_ptr<TorchStore>>
  open(const Place &place, const Environment &environment, Deadline deadline);
  Status put(const std::string &name, const std::string &value, Deadline deadline) override;
  Result<std::string> get(const std::string &name, Deadline deadline) override;
  /// By which it reaches the store, as all others do.
  Result<std::string> addressOfThisHost(Deadline deadline) override;

  // The two calls over a connection that is there. `key` is as the server has it.
  static Status putOver(ByteStream &stream, const std::string &key, const std::string &value,
                        Deadline deadline);
  static Result<std::string> getOver(ByteStream &stream, const std::string &key, Deadline deadline);

private:
  Result<ByteStream> connect(Deadline deadline) const;

  std::string host_, job_, expected_;
  uint16_t port_ = 0;
  bool isPatient_ = true;
};

} // namespace braid
