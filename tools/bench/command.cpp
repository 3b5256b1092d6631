//===- tools/bench/command.cpp - `braid bench` ------------------------------------------------===//
//
// The command has a job of processes for its own rows and a worker for those of a rival, and asks
// them for one row at a time. If a row fails or hangs, that is its result, and another job goes on
// with the next one.
//
//===----------------------------------------------------------------------------------------===//

#include "tools/command.h"
#include "api/run.h"
#include "runtime/bootstrap/environment.h"
#include "tools/bench/bench.h"
#include "tools/bench/serve.h"

#include <fmt/format.h>

#include <filesystem>
#include <thread>

namespace braid::tools {
namespace {

/// A private folder, gone with this object.
class TemporaryFolder {
public:
  TemporaryFolder() {
    path_ = temporaryFolder() + "/braid-bench-XXXXXX";
    isMade_ = mkdtemp(path_.data()) != nullptr;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (isMade_)
      std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  bool isMade() const { return isMade_; }
  const std::string &path() const { return path_; }

private:
  std::string path_;
  bool isMade_ = false;
};

Status checkAgainst(const BenchFlags &flags, const Backend &backend) {
  if (flags.graph != "no" && !backend.hasGraphs)
    return Status(StatusCode::Unsupported,
                  fmt::format("--graph: backend '{}' has no graphs", backend.name));
  return Status::ok();
}

int benchGatherMatmul(BenchFlags flags) {
  BackendRegistry registry = builtinBackends();
  const Backend *backend = registry.find(flags.backend);
  if (!backend)
    return report(badChoice("--backend", flags.backend, {"cpu", "cuda"}));
  if (Status status = flags.check(backend->hasGraphs); !status.isOk())
    return report(status);
  if (Status status = checkAgainst(flags, *backend); !status.isOk())
    return report(status);
  if (Status status = checkSettings(processEnvironment()); !status.isOk())
    return report(status);
  TemporaryFolder folder;
  if (!folder.isMade())
    return report(Status(StatusCode::Unsupported, "cannot make a folder like " + folder.path()));
  RanksJob job(flags, folder.path());
  Bench bench(flags, job);
  Status status = Status::ok();
  std::thread thread([&] {
    status = bench.run();
    job.close();
  });
  job.runJobs();
  thread.join();
  if (job.interruptedBy() != 0)
    return 128 + job.interruptedBy(); // as a shell says it
  if (!status.isOk())
    return report(status);
  return bench.hasFailedRow() ? static_cast<int>(StatusCode::PeerFailed) : 0;
}

} // namespace

Command addBench(CLI::App &app) {
  auto flags = std::make_shared<BenchFlags>();
  auto rankFlags = std::make_shared<BenchRankFlags>();
  CLI::App *command = app.add_subcommand("bench", "Time an operation beside its limits");
  CLI::App *operation =
      command->add_subcommand("gather-matmul", "gather of A, and the product with B");
  flags->addTo(*operation);
  CLI::App *rank = command->add_subcommand("rank", "one rank of a job of this command");
  rank->group("");
  rankFlags->addTo(*rank);
  command->require_subcommand(1);
  return {command, [flags, rankFlags, rank] {
            return rank->parsed() ? benchRank(*rankFlags) : benchGatherMatmul(*flags);
          }};
}

} // namespace braid::tools
