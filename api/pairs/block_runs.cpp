//===- api/pairs/block_runs.cpp - runs that move blocks between ranks, ready to be issued -----===//

#include "api/pairs/block_runs.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

class ProgramRun final : public BlockRun {
public:
  ProgramRun(std::unique_ptr<Prepared> prepared, int64_t rowBytes)
      : prepared_(std::move(prepared)) {
    const auto &buffers = prepared_->plan().buffers;
    const auto memory = llvm::find_if(
        buffers, [](const PlanBuffer &buffer) { return buffer.kind == BufferKind::Symmetric; });
    mine_ =
        static_cast<char *>(prepared_->address(static_cast<uint32_t>(memory - buffers.begin())));
    theirs_ = mine_ + rowBytes;
  }
  /// From now on a run is one launch.
  Status record() {
    isGraph_ = true;
    return prepared_->capture({}, {});
  }
  void issue() override {
    if (isGraph_)
      prepared_->replay();
    else
      prepared_->run({}, {});
  }
  int64_t mostAhead() const override { return kRunsAhead; }
  const Plan &plan() const override { return prepared_->plan(); }

private:
  std::unique_ptr<Prepared> prepared_;
  bool isGraph_ = false;
};

class HostRun final : public BlockRun {
public:
  HostRun(Device &device, HostPath &path, const BlockTransfers &transfers, Moves moves)
      : device_(device), path_(path), transfers_(transfers), moves_(std::move(moves)) {}
  ~HostRun() override {
    if (mine_)
      device_.release(mine_);
  }
  Status allocate() {
    const int64_t bytes = moves_.rows(transfers_.ranks) * transfers_.shape.allBytes();
    mine_ = static_cast<char *>(BRAID_TRY(device_.allocate(ArenaKind::Private, 2 * bytes)));
    theirs_ = mine_ + bytes;
    return Status::ok();
  }
  void issue() override { path_.issue(moves_, transfers_.shape, transfers_.count, mine_, theirs_); }
  int64_t mostAhead() const override {
    return path_.mostAhead(transfers_.shape) / transfers_.count;
  }
  const Plan &plan() const override { return path_.plan(); }

private:
  Device &device_;
  HostPath &path_;
  const BlockTransfers transfers_;
  const Moves moves_;
};

} // namespace

/// A device with one engine has nothing to choose, and copies by it.
TransferMode BlockRuns::modeOf(Path path) const {
  const TransferMode mode{recipeOf(path).copies, SignalBy::Default};
  const bool canChoose = device().peerMemory() && device().peerMemory()->offers(mode);
  return canChoose || mode.copies == CopyBy::Kernel ? mode : TransferMode();
}

std::string BlockRuns::lackOf(Path path) const {
  if (path == Path::Messages) {
    if (!device().messages() || !backend_.messages)
      return fmt::format("the ranks of backend '{}' send no messages", backend_.name);
    const Result<std::string> library = backend_.messages();
    return library ? "" : library.status().message();
  }
  if (!device().peerMemory())
    return fmt::format("the ranks of backend '{}' reach no memory of each other", backend_.name);
  if (reachesPeers(path) && !device().peerMemory()->offers(modeOf(path)))
    return fmt::format("backend '{}' has one way to copy, which is measured as {}", backend_.name,
                       name(path == Path::PutKernel ? Path::PutEngine : Path::GetEngine).str());
  return "";
}

Result<std::unique_ptr<BlockRun>> BlockRuns::make(const BlockTransfers &transfers,
                                                  const Moves &moves) {
  return transfers.path == Path::Host ? makeHost(transfers, moves) : makeProgram(transfers, moves);
}

Result<std::unique_ptr<BlockRun>> BlockRuns::makeProgram(const BlockTransfers &transfers,
                                                         const Moves &moves) {
  std::vector<Plan> plans = BRAID_TRY(blockPlans(transfers, moves));
  BRAID_TRY(checkHosts(cluster_, plans.front()));
  nextCommand_ = numberCommands(plans, nextCommand_);
  plans_.push_back(std::move(plans));
  if (cluster_.hosted() == 1)
    cluster_.setPlans(plans_.back());
  auto prepared = BRAID_TRY(prepare(plans_.back()[static_cast<size_t>(rank_)], device(),
                                    cluster_.control(rank_), modeOf(transfers.path)));
  const int64_t rowBytes = moves.rows(transfers.ranks) * transfers.shape.allBytes();
  auto run = std::make_unique<ProgramRun>(std::move(prepared), rowBytes);
  // Together, streams are not joined in the end, as those of a graph have to be.
  if (backend_.hasGraphs && moves.kind != Moves::Kind::Together)
    BRAID_TRY(run->record());
  return std::unique_ptr<BlockRun>(std::move(run));
}

Result<std::unique_ptr<BlockRun>> BlockRuns::makeHost(const BlockTransfers &transfers,
                                                      const Moves &moves) {
  if (!host_) {
    plans_.push_back(HostPath::namingPlans(cluster_.ranks(), nextCommand_));
    host_ = BRAID_TRY(HostPath::create(cluster_, rank_, plans_.back()));
    nextCommand_ += host_->commands();
  }
  // All have come, so nobody uses what the runs before have released.
  BRAID_TRY(cluster_.control(rank_).allGather(""));
  device().recycle();
  auto run = std::make_unique<HostRun>(device(), *host_, transfers, moves);
  BRAID_TRY(run->allocate());
  return std::unique_ptr<BlockRun>(std::move(run));
}

} // namespace braid
