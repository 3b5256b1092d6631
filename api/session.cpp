//===- api/session.cpp - a program that is ready to run ---------------------------------------===//

#include "api/session.h"

#include "api/compile/plans.h"
#include "api/ranks/check_tensors.h"
#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/execute/recorded_runs.h"

namespace braid {

struct Session::Impl {
  std::shared_ptr<Job> job;
  CompiledProgram program;
  Sessions::iterator own; ///< in JobState::sessions
  bool hasGraph = false;
  std::optional<RecordedRuns> recorded = {}; ///< set by the first runAt()

  Cluster &cluster() const { return *job->state_->cluster; }
  Device &device(size_t i) {
    return cluster().device(cluster().firstHosted() + static_cast<int64_t>(i));
  }
  std::vector<std::unique_ptr<Prepared>> &prepared() const { return own->second.prepared; }
  Status checkRanks(size_t count) const;
  /// Issues a run on `stream` by calling `issue`, which issues nothing if it fails.
  Status run(void *stream, llvm::function_ref<Status()> issue);
  /// Returns the job's failure, if any. A failed job drops commands, so runs would not write
  /// outputs.
  Status failure() const { return cluster().control(cluster().firstHosted()).failure(); }
};

namespace {

/// Returns the addresses of `tensors`, in thread-local storage.
template <class Address>
llvm::MutableArrayRef<Address> addressesOf(std::span<const Tensor> tensors) {
  thread_local std::vector<Address> addresses;
  addresses.clear();
  for (const Tensor &tensor : tensors)
    addresses.push_back(tensor.data);
  return addresses;
}

/// Returns the tensors, in thread-local storage, as the tensors of the only rank in this process.
std::span<const RankTensors> onlyRank(std::span<const Tensor> inputs,
                                      std::span<const Tensor> outputs) {
  thread_local RankTensors tensors;
  tensors.inputs.assign(inputs.begin(), inputs.end());
  tensors.outputs.assign(outputs.begin(), outputs.end());
  return {&tensors, 1};
}

} // namespace

Status Session::Impl::checkRanks(size_t count) const {
  BRAID_TRY(job->state_->expectOwnProcess());
  return count == prepared().size()
             ? Status::ok()
             : badInput("expected tensors for {} rank{}, got tensors for {}", prepared().size(),
                        prepared().size() == 1 ? "" : "s", count);
}

Status Session::Impl::run(void *stream, llvm::function_ref<Status()> issue) {
  JobState &state = *job->state_;
  BRAID_TRY(failure());
  for (size_t i = 0; i < prepared().size(); ++i)
    BRAID_TRY(device(i).setCallerStream(stream, {&prepared()[i]->plan(), kNone, 0}));
  const Graphs *graphs = device(0).graphs();
  state.isCaptured = graphs && graphs->isInCallersCapture();
  if (Status issued = issue(); !issued.isOk()) {
    for (size_t i = 0; i < prepared().size(); ++i)
      if (Graphs *entered = device(i).graphs())
        entered->leaveCallersCapture();
    return issued;
  }
  if (state.isCaptured) { // the run was added to the caller's graph
    own->second.isCaptured = true;
    cluster().control(cluster().firstHosted()).noteUnseenRuns();
  } else {
    state.note(JobCall::Run, prepared()[0]->plan().firstCommand);
  }
  return failure();
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Session>> Session::prepare(std::shared_ptr<Job> job,
                                                  const CompiledProgram &program,
                                                  const PrepareOptions &options) {
  JobState &state = *job->state_;
  BRAID_TRY(state.expectOpen());
  const Configuration &run = program.state_->schedule.all;
  Compiled compiled = program.state_->compiled;
  compiled.transport = transportOf(run, state.backend.transport);
  BRAID_TRY(state.check(compiled, run));
  const CheckOptions check{.ordered = compiled.isReproducible,
                           .ownQueues = state.backend.ownQueues};
  std::vector<Plan> plans =
      BRAID_TRY(options.checks ? makeSafePlans(compiled, check) : makePlans(compiled));
  const UnknownGemms unknown = options.measures ? UnknownGemms::Measure : UnknownGemms::Guess;
  const Sessions::iterator own =
      BRAID_TRY(state.prepare(std::move(plans), transferModeOf(run), unknown));
  auto impl = std::unique_ptr<Impl>(new Impl{std::move(job), program, own});
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::~Session() {
  JobState &state = *impl_->job->state_;
  if (state.isForked()) {
    (void)impl_.release();
    return;
  }
  state.end(impl_->own);
}

const CompiledProgram &Session::program() const { return impl_->program; }
int64_t Session::runs() const { return impl_->prepared().front()->epoch(); }
SessionUsage Session::usage() const {
  const SessionPlans &own = impl_->own->second;
  return {own.bytes, own.most, own.isInGraph};
}

Status Session::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void *stream) {
  return run(onlyRank(inputs, outputs), stream);
}

Status Session::run(std::span<const RankTensors> ranks, void *stream) {
  BRAID_TRY(impl_->checkRanks(ranks.size()));
  BRAID_TRY(checkTensors(program(), ranks, impl_->cluster()));
  return impl_->run(stream, [&] {
    for (size_t i = 0; i < ranks.size(); ++i)
      impl_->prepared()[i]->run(addressesOf<const void *>(ranks[i].inputs),
                                addressesOf<void *>(ranks[i].outputs));
    return Status::ok();
  });
}

Status Session::capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return capture(onlyRank(inputs, outputs));
}

Status Session::capture(std::span<const RankTensors> ranks) {
  BRAID_TRY(impl_->checkRanks(ranks.size()));
  BRAID_TRY(checkTensors(program(), ranks, impl_->cluster()));
  BRAID_TRY(impl_->failure());
  for (size_t i = 0; i < ranks.size(); ++i)
    BRAID_TRY(impl_->prepared()[i]->capture(addressesOf<const void *>(ranks[i].inputs),
                                            addressesOf<void *>(ranks[i].outputs)));
  BRAID_TRY(impl_->failure()); // after a failure, the recorded graph is incomplete
  impl_->hasGraph = true;
  return Status::ok();
}

Status Session::runAt(std::span<void *const> addresses, void *stream) {
  BRAID_TRY(impl_->checkRanks(1));
  const size_t inputs = program().inputs().size(), outputs = program().outputs().size();
  if (addresses.size() != inputs + outputs)
    return badInput("@{}: expected {} addresses, got {}", program().name(), inputs + outputs,
                    addresses.size());
  if (!impl_->recorded)
    impl_->recorded.emplace(*impl_->prepared()[0]);
  const llvm::ArrayRef<const void *> read(addresses.data(), inputs);
  thread_local std::vector<void *> written;
  written.assign(addresses.begin() + static_cast<ptrdiff_t>(inputs), addresses.end());
  return impl_->run(stream, [&] {
    return impl_->recorded->run(
        read, written, [&] { return checkAddresses(program(), addresses, impl_->device(0)); });
  });
}

Status Session::replay(void *stream) {
  BRAID_TRY(impl_->job->state_->expectOwnProcess());
  if (!impl_->hasGraph)
    return badInput("@{}: capture() must be called before replay()", program().name());
  return impl_->run(stream, [&] {
    if (impl_->job->state_->isCaptured)
      return unsupported("@{}: the stream is already being captured: call run() instead, which "
                         "adds the run to the graph being captured",
                         program().name());
    for (const std::unique_ptr<Prepared> &each : impl_->prepared())
      each->replay();
    return Status::ok();
  });
}

} // namespace braid
