//===- runtime/job/network/pmi_store.h - names published with a launcher that speaks PMI ------===//
//
// MPICH's and Intel's mpiexec, and srun --mpi=pmi2, give each rank a socket, PMI_FD, over which
// PMI-1's lines go: "cmd=NAME key=value ...", and one line back. Its key-value space is filled by
// barriers of all ranks, which would wait for those that have nothing to say. Publishing a name
// needs no one else:
//
//   cmd=init pmi_version=1 pmi_subversion=1    cmd=response_to_init rc=0 ...
//   cmd=publish_name service=KEY port=VALUE    cmd=publish_result rc=0 ...
//   cmd=lookup_name service=KEY                cmd=lookup_result rc=0 port=VALUE ..., or rc=1 ...
//   cmd=finalize                               cmd=finalize_ack ...
//
// srun says info=ok and info=fail in place of rc.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/byte_stream.h"
#include "runtime/job/network/launcher_store.h"

#include <map>

namespace braid {

/// Its calls may take two seconds longer than their deadline, to hear the answer to what was asked.
class PmiStore : public LauncherStore {
public:
  /// Unsupported where there is no PMI_FD, or it leads to no launcher.
  static Result<std::unique_ptr<PmiStore>> open(const Place &place, const Environment &environment,
                                                Deadline deadline);
  /// Over `stream`. Says init.
  static Result<std::unique_ptr<PmiStore>> openOver(ByteStream stream, const std::string &job,
                                                    Deadline deadline);
  /// Says finalize, as the launcher takes a rank that ends without for one that died. Blocks for
  /// its answer, but not for long.
  ~PmiStore() override;
  Status put(const std::string &name, const std::string &value, Deadline deadline) override;
  Result<std::string> get(const std::string &name, Deadline deadline) override;

private:
  using Answer = std::map<std::string, std::string>;
  PmiStore(ByteStream stream, std::string job) : stream_(std::move(stream)), job_(std::move(job)) {}
  Result<Answer> ask(const std::string &command, const char *answer, Deadline deadline);
  Result<std::optional<std::string>> lookUp(const std::string &key, Deadline deadline);

  ByteStream stream_;
  std::string job_;
  Status failure_; ///< it stays failed: an answer may be yet to come
};

/// What "cmd=x a=b c" says: {"cmd": "x", "a": "b"}. Words without '=' are left out, and of a key
/// that comes twice the first counts.
std::map<std::string, std::string> parsePmiLine(llvm::StringRef line);

} // namespace braid
