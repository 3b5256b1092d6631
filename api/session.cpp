//===- api/session.cpp - a program, ready to run ----------------------------------------------===//

#include "api/session.h"

#include "api/autotune/candidate.h"
#include "api/compile/check.h"
#include "api/compile/compiled_program.h"
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
  Sessions::iterator own; ///< among those of the job
  std::vector<std::unique_ptr<Prepared>> prepared;
  bool hasGraph = false;
  std::optional<RecordedRuns> recorded = {}; ///< if one rank is here

  LocalMesh &mesh() { return *job->impl_->mesh; }
  Device &device(size_t i) { return mesh().device(mesh().firstHosted() + static_cast<int64_t>(i)); }
  Status checkRanks(size_t given) const;
  Status check(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  Status check(std::span<const RankTensors> ranks);
  Status enter(void *stream);
  /// Undoes enter() where no run follows. Returns `why`.
  Status refuse(Status why);
  Status failure() const;
  void noteRun();
  void issue(size_t i, std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  Status checkAddresses(std::span<void *const> addresses);
  Status prepare(const PrepareOptions &options);
};

namespace {

/// The addresses of tensors, in a place that each thread keeps.
template <class Address>
llvm::MutableArrayRef<Address> addressesOf(std::span<const Tensor> tensors,
                                           std::vector<Address> &addresses) {
  addresses.clear();
  for (const Tensor &tensor : tensors)
    addresses.push_back(tensor.data);
  return addresses;
}

int64_t bytesOf(const Plan &plan) {
  return plan.symmetricBytes + plan.deviceBytes + static_cast<int64_t>(plan.flags) * kFlagStride;
}

} // namespace

Status Session::Impl::checkRanks(size_t given) const {
  BRAID_TRY(job->impl_->expectOwnProcess());
  return given == prepared.size()
             ? Status::ok()
             : badInput("expected the tensors of {} rank{}, got those of {}", prepared.size(),
                        prepared.size() == 1 ? "" : "s", given);
}

Status Session::Impl::check(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  BRAID_TRY(checkRanks(1));
  const GivenTensors given{mesh().firstHosted(), inputs, outputs, &device(0)};
  return checkTensors(program.inputs(), program.outputs(), given);
}

Status Session::Impl::check(std::span<const RankTensors> ranks) {
  BRAID_TRY(checkRanks(ranks.size()));
  llvm::SmallVector<GivenTensors, 8> given;
  for (size_t i = 0; i < ranks.size(); ++i)
    given.push_back({prepared[i]->plan().rank, ranks[i].inputs, ranks[i].outputs, &device(i)});
  return checkTensors(program.inputs(), program.outputs(), given);
}

/// A failed job drops what is issued to it, so outputs would stay as they were.
Status Session::Impl::failure() const {
  LocalMesh &mesh = *job->impl_->mesh;
  return mesh.control(mesh.firstHosted()).failure();
}

Status Session::Impl::enter(void *stream) {
  BRAID_TRY(failure());
  for (size_t i = 0; i < prepared.size(); ++i)
    BRAID_TRY(device(i).setCallerStream(stream, {&prepared[i]->plan(), kNone, 0}));
  const Graphs *graphs = device(0).graphs();
  job->impl_->isCaptured = graphs && graphs->isInCallersCapture();
  return Status::ok();
}

Status Session::Impl::refuse(Status why) {
  for (size_t i = 0; i < prepared.size(); ++i)
    if (Graphs *graphs = device(i).graphs())
      graphs->leaveCallersCapture();
  return why;
}

/// Once it has been issued, or recorded into a graph of the caller's, as enter() has found.
void Session::Impl::noteRun() {
  if (!job->impl_->isCaptured)
    return job->impl_->note(JobCall::Run, prepared[0]->plan().firstCommand);
  job->impl_->captured.insert(own->first);
  mesh().control(mesh().firstHosted()).noteUnseenRuns();
}

void Session::Impl::issue(size_t i, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs) {
  thread_local std::vector<const void *> read;
  thread_local std::vector<void *> written;
  prepared[i]->run(addressesOf(inputs, read), addressesOf(outputs, written));
}

/// All ranks meet here, after which the memory of ended sessions is free.
Status Session::Impl::prepare(const PrepareOptions &options) {
  Job::Impl &state = *job->impl_;
  const TransferMode mode = transferModeOf(program.impl_->schedule.all);
  const UnknownGemms unknown = options.measures ? UnknownGemms::Measure : UnknownGemms::Guess;
  state.note(JobCall::Prepare, own->second.plans.front().firstCommand);
  prepared.resize(static_cast<size_t>(mesh().hosted()));
  auto prepareRank = [&](int64_t rank) {
    const Plan &plan = own->second.plans[static_cast<size_t>(rank)];
    prepared[static_cast<size_t>(rank - mesh().firstHosted())] =
        BRAID_TRY(braid::prepare(plan, mesh().device(rank), mesh().control(rank), mode, unknown));
    return Status::ok();
  };
  BRAID_TRY(mesh().onEveryRank(prepareRank));
  return state.settle(&own->second);
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Session>> Session::prepare(std::shared_ptr<Job> job,
                                                  const CompiledProgram &program,
                                                  const PrepareOptions &options) {
  Job::Impl &state = *job->impl_;
  BRAID_TRY(state.expectOpen());
  Compiled compiled = program.impl_->compiled;
  compiled.travelBy(program.impl_->schedule.all, state.backend.transport);
  BRAID_TRY(state.check(compiled, program.impl_->schedule.all));
  Result<std::vector<Plan>> plans = makePlans(compiled);
  if (!plans)
    return withDiagnostics(*program.impl_->source, plans.status());
  BRAID_TRY(checkHosts(state.mesh->cluster(), plans->front()));
  if (options.checks)
    BRAID_TRY(
        expectSafe(compiled, *plans,
                   {.ordered = compiled.isReproducible, .ownQueues = state.backend.ownQueues}));
  SessionPlans own{std::move(*plans), 0, 0};
  for (const Plan &plan : own.plans) {
    own.bytes += state.mesh->hosts(plan.rank) ? bytesOf(plan) : 0;
    own.most = std::max(own.most, bytesOf(plan));
  }
  BRAID_TRY(state.checkBound(own.most, compiled.program->name()));
  const Sessions::iterator added = state.add(std::move(own));
  std::unique_ptr<Session> session(
      new Session(std::unique_ptr<Impl>(new Impl{std::move(job), program, added, {}, false})));
  BRAID_TRY(session->impl_->prepare(options));
  return session;
}

Session::~Session() {
  Job::Impl &state = *impl_->job->impl_;
  if (state.isForked()) {
    (void)impl_.release();
    return;
  }
  impl_->prepared.clear();
  state.end(impl_->own);
}

const CompiledProgram &Session::program() const { return impl_->program; }
int64_t Session::runs() const { return impl_->prepared.front()->epoch(); }
SessionUsage Session::usage() const {
  const SessionPlans &own = impl_->own->second;
  return {own.bytes, own.most, own.isInGraph};
}

Status Session::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void *stream) {
  BRAID_TRY(impl_->check(inputs, outputs));
  BRAID_TRY(impl_->enter(stream));
  impl_->issue(0, inputs, outputs);
  impl_->noteRun();
  return impl_->failure();
}

Status Session::Impl::checkAddresses(std::span<void *const> addresses) {
  const auto inputs = program.inputs(), outputs = program.outputs();
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool isInput = i < inputs.size();
    const TensorSpec &spec = isInput ? inputs[i] : outputs[i - inputs.size()];
    const Tensor tensor(addresses[i], spec);
    BRAID_TRY(checkTensor(isInput ? "input" : "output", isInput ? i : i - inputs.size(), spec,
                          tensor, device(0)));
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
    impl_->recorded.emplace(*impl_->prepared[0]);
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

Status Session::run(std::span<const RankTensors> ranks, void *stream) {
  BRAID_TRY(impl_->check(ranks));
  BRAID_TRY(impl_->enter(stream));
  for (size_t i = 0; i < ranks.size(); ++i)
    impl_->issue(i, ranks[i].inputs, ranks[i].outputs);
  impl_->noteRun();
  return impl_->failure();
}

Status Session::capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const RankTensors tensors{{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
  return capture({&tensors, 1});
}

Status Session::capture(std::span<const RankTensors> ranks) {
  BRAID_TRY(impl_->check(ranks));
  BRAID_TRY(impl_->failure());
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::vector<const void *> read;
    std::vector<void *> written;
    BRAID_TRY(impl_->prepared[i]->capture(addressesOf<const void *>(ranks[i].inputs, read),
                                          addressesOf<void *>(ranks[i].outputs, written)));
  }
  BRAID_TRY(impl_->failure()); // else the recording lacks commands
  impl_->hasGraph = true;
  return Status::ok();
}

Status Session::replay(void *stream) {
  BRAID_TRY(impl_->job->impl_->expectOwnProcess());
  if (!impl_->hasGraph)
    return badInput("@{}: expected capture() before replay()", program().name());
  BRAID_TRY(impl_->enter(stream));
  if (impl_->job->impl_->isCaptured)
    return impl_->refuse(unsupported("@{}: the stream is being captured: expected run(), which "
                                     "becomes a part of that graph",
                                     program().name()));
  for (const std::unique_ptr<Prepared> &each : impl_->prepared)
    each->replay();
  impl_->noteRun();
  return impl_->failure();
}

} // namespace braid
