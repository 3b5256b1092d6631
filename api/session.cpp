//===- api/session.cpp - a program that is ready to run ---------------------------------------===//

#include "api/session.h"

#include "api/compile/check.h"
#include "api/compile/plans.h"
#include "api/ranks/check_tensors.h"
#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/execute/recorded_runs.h"

#include <fmt/format.h>

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
  Status checkTensors(std::span<const RankTensors> ranks) const;
  Status enter(void *stream);
  /// Undoes enter() if no run will be issued. Returns `why`.
  Status refuse(Status why);
  Status failure() const;
  void noteRun();
  Status checkAddresses(std::span<void *const> addresses);
};

namespace {

/// Stores the addresses of `tensors` in `addresses`, and returns a view of `addresses`.
template <class Address>
llvm::MutableArrayRef<Address> addressesOf(std::span<const Tensor> tensors,
                                           std::vector<Address> &addresses) {
  addresses.clear();
  for (const Tensor &tensor : tensors)
    addresses.push_back(tensor.data);
  return addresses;
}

/// Wraps the tensors, in thread-local storage, as those of the only rank in this process.
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
             : badInput("expected the tensors of {} rank{}, got those of {}", prepared().size(),
                        prepared().size() == 1 ? "" : "s", count);
}

Status Session::Impl::checkTensors(std::span<const RankTensors> ranks) const {
  BRAID_TRY(checkRanks(ranks.size()));
  return braid::checkTensors(program.inputs(), program.outputs(), ranks, cluster());
}

/// Returns the job's failure, if any. A failed job drops commands, so runs would not write outputs.
Status Session::Impl::failure() const {
  return cluster().control(cluster().firstHosted()).failure();
}

Status Session::Impl::enter(void *stream) {
  BRAID_TRY(failure());
  for (size_t i = 0; i < prepared().size(); ++i)
    BRAID_TRY(device(i).setCallerStream(stream, {&prepared()[i]->plan(), kNone, 0}));
  const Graphs *graphs = device(0).graphs();
  job->state_->isCaptured = graphs && graphs->isInCallersCapture();
  return Status::ok();
}

Status Session::Impl::refuse(Status why) {
  for (size_t i = 0; i < prepared().size(); ++i)
    if (Graphs *graphs = device(i).graphs())
      graphs->leaveCallersCapture();
  return why;
}

/// Records that a run was issued, or, if enter() found a capture, added to the caller's graph.
void Session::Impl::noteRun() {
  if (!job->state_->isCaptured)
    return job->state_->note(JobCall::Run, prepared()[0]->plan().firstCommand);
  job->state_->captured.insert(own->first);
  cluster().control(cluster().firstHosted()).noteUnseenRuns();
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
  Result<std::vector<Plan>> plans =
      options.checks ? makeSafePlans(compiled, check) : makePlans(compiled);
  if (!plans)
    return withLocated(plans.status(), *program.state_->source);
  const UnknownGemms unknown = options.measures ? UnknownGemms::Measure : UnknownGemms::Guess;
  const Sessions::iterator own =
      BRAID_TRY(state.prepare(std::move(*plans), transferModeOf(run), unknown));
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
  thread_local std::vector<const void *> read;
  thread_local std::vector<void *> written;
  BRAID_TRY(impl_->checkTensors(ranks));
  BRAID_TRY(impl_->enter(stream));
  for (size_t i = 0; i < ranks.size(); ++i)
    impl_->prepared()[i]->run(addressesOf(ranks[i].inputs, read),
                              addressesOf(ranks[i].outputs, written));
  impl_->noteRun();
  return impl_->failure();
}

Status Session::capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return capture(onlyRank(inputs, outputs));
}

Status Session::capture(std::span<const RankTensors> ranks) {
  BRAID_TRY(impl_->checkTensors(ranks));
  BRAID_TRY(impl_->failure());
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::vector<const void *> read;
    std::vector<void *> written;
    BRAID_TRY(impl_->prepared()[i]->capture(addressesOf(ranks[i].inputs, read),
                                            addressesOf(ranks[i].outputs, written)));
  }
  BRAID_TRY(impl_->failure()); // after a failure, the recorded graph is incomplete
  impl_->hasGraph = true;
  return Status::ok();
}

Status Session::Impl::checkAddresses(std::span<void *const> addresses) {
  const auto inputs = program.inputs(), outputs = program.outputs();
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool isOutput = i >= inputs.size();
    const size_t number = isOutput ? i - inputs.size() : i;
    const TensorSpec &spec = isOutput ? outputs[number] : inputs[number];
    BRAID_TRY(checkTensor(isOutput, number, spec, Tensor(addresses[i], spec), device(0)));
  }
  return Status::ok();
}

Status Session::runAt(std::span<void *const> addresses, void *stream) {
  BRAID_TRY(impl_->checkRanks(1));
  const size_t inputs = program().inputs().size(), outputs = program().outputs().size();
  if (addresses.size() != inputs + outputs)
    return badInput("@{}: expected {} addresses, got {}", program().name(), inputs + outputs,
                    addresses.size());
  BRAID_TRY(impl_->enter(stream));
  if (!impl_->recorded)
    impl_->recorded.emplace(*impl_->prepared()[0]);
  const llvm::ArrayRef<const void *> read(addresses.data(), inputs);
  thread_local std::vector<void *> written;
  written.assign(addresses.begin() + static_cast<ptrdiff_t>(inputs), addresses.end());
  const Status issued =
      impl_->recorded->run(read, written, [&] { return impl_->checkAddresses(addresses); });
  if (!issued.isOk())
    return impl_->refuse(issued);
  impl_->noteRun();
  return impl_->failure();
}

Status Session::replay(void *stream) {
  BRAID_TRY(impl_->job->state_->expectOwnProcess());
  if (!impl_->hasGraph)
    return badInput("@{}: expected capture() before replay()", program().name());
  BRAID_TRY(impl_->enter(stream));
  if (impl_->job->state_->isCaptured)
    return impl_->refuse(unsupported("@{}: the stream is being captured: call run() instead, and "
                                     "it becomes a part of that graph",
                                     program().name()));
  for (const std::unique_ptr<Prepared> &each : impl_->prepared())
    each->replay();
  impl_->noteRun();
  return impl_->failure();
}

} // namespace braid
