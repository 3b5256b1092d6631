//===- api/c.cpp - the library from C -------------------------------------------------------===//

#include "api/c.h"

#include "api/session.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

struct braid_error {
  braid::Status status;
};

struct braid_program {
  braid::CompiledProgram program;
  std::string name, text, answer = {}; ///< `answer`: to the last question
};

struct braid_job {
  std::shared_ptr<braid::Job> job;
};

struct braid_session {
  std::unique_ptr<braid::Session> session;
  size_t inputs, outputs;
};

namespace braid {
namespace {

static_assert(static_cast<int>(DType::BF16) == BRAID_BF16 &&
              static_cast<int>(DType::F16) == BRAID_F16 &&
              static_cast<int>(DType::F32) == BRAID_F32 &&
              static_cast<int>(DType::F64) == BRAID_F64);

braid_error *toC(const Status &status) { return status.isOk() ? nullptr : new braid_error{status}; }

braid_error *toC(Result<CompiledProgram> program, braid_program **result) {
  if (!program)
    return toC(program.status());
  *result = new braid_program{*program, program->name(), program->str()};
  return nullptr;
}

braid_error *toC(Result<std::shared_ptr<Job>> job, braid_job **result) {
  if (!job)
    return toC(job.status());
  *result = new braid_job{std::move(*job)};
  return nullptr;
}

LoweringOptions fromC(const braid_lowering *given) {
  LoweringOptions options;
  if (!given)
    return options;
  if (given->entry)
    options.entry = given->entry;
  if (given->ranks != 0)
    options.ranks = given->ranks;
  for (size_t i = 0; i < given->parameters; ++i)
    options.parameters.emplace_back(given->parameter_names[i], given->parameter_values[i]);
  if (given->schedule)
    options.schedule = given->schedule;
  options.autoSeconds = given->auto_seconds;
  options.reproducible = given->reproducible != 0;
  return options;
}

JobOptions fromC(const braid_job_options *given) {
  JobOptions options;
  if (!given)
    return options;
  if (given->backend)
    options.backend = given->backend;
  options.ranks = given->ranks;
  options.timeout = std::chrono::milliseconds(given->timeout_ms);
  options.mostBytes = given->most_bytes;
  if (given->device >= 0)
    options.device = given->device;
  options.reproducible = given->reproducible != 0;
  if (given->name)
    options.place = {given->rank, given->ranks, given->name};
  return options;
}

Tensor fromC(const braid_tensor &given) {
  return {given.data, static_cast<DType>(given.dtype),
          std::span(given.shape, static_cast<size_t>(given.axes))};
}

/// Tensors of all ranks here, in a place that each thread keeps.
Result<std::span<const RankTensors>> fromC(const braid_session &session,
                                           std::span<const braid_tensor> given) {
  thread_local std::vector<RankTensors> ranks;
  const size_t each = session.inputs + session.outputs;
  if (each == 0 || given.size() % each != 0)
    return badInput("expected {} tensors for each rank that is here ({} inputs, {} outputs), got "
                    "{} in all",
                    each, session.inputs, session.outputs, given.size());
  ranks.resize(given.size() / each);
  for (size_t i = 0; i < ranks.size(); ++i) {
    auto copy = [&](size_t first, size_t count, std::vector<Tensor> &tensors) {
      tensors.clear();
      for (const braid_tensor &tensor : given.subspan(i * each + first, count)) {
        if (tensor.dtype < BRAID_BF16 || tensor.dtype > BRAID_F64)
          return badInput("expected an element type from {} to {}, got {}",
                          static_cast<int>(BRAID_BF16), static_cast<int>(BRAID_F64), tensor.dtype);
        tensors.push_back(fromC(tensor));
      }
      return Status::ok();
    };
    BRAID_TRY(copy(0, session.inputs, ranks[i].inputs));
    BRAID_TRY(copy(session.inputs, session.outputs, ranks[i].outputs));
  }
  return std::span<const RankTensors>(ranks);
}

} // namespace
} // namespace braid

using namespace braid; // what follows is not ours to name: it is C

int32_t braid_error_code(const braid_error *error) {
  return error ? static_cast<int32_t>(error->status.code()) : BRAID_OK;
}
const char *braid_error_message(const braid_error *error) {
  return error ? error->status.message().c_str() : "";
}
void braid_error_free(braid_error *error) { delete error; }

const char *braid_version(void) { return BRAID_VERSION; }

braid_error *braid_compile_text(const char *name, const char *text, const braid_lowering *options,
                                braid_program **program) {
  return toC(compileText(name, text, fromC(options)), program);
}
braid_error *braid_compile_file(const char *path, const braid_lowering *options,
                                braid_program **program) {
  return toC(compileFile(path, fromC(options)), program);
}
void braid_program_free(braid_program *program) { delete program; }

int64_t braid_program_ranks(const braid_program *program) { return program->program.ranks(); }
const char *braid_program_name(const braid_program *program) { return program->name.c_str(); }
const char *braid_program_text(const braid_program *program) { return program->text.c_str(); }
const char *braid_program_schedule(braid_program *program) {
  program->answer = program->program.schedule();
  return program->answer.c_str();
}
const char *braid_program_explain(braid_program *program) {
  program->answer = program->program.explain() + program->program.trials();
  return program->answer.c_str();
}

size_t braid_program_inputs(const braid_program *program) {
  return program->program.inputs().size();
}
size_t braid_program_outputs(const braid_program *program) {
  return program->program.outputs().size();
}
braid_error *braid_program_tensor(const braid_program *program, size_t index, const char **name,
                                  braid_tensor *tensor) {
  const auto inputs = program->program.inputs(), outputs = program->program.outputs();
  if (index >= inputs.size() + outputs.size())
    return toC(
        badInput("expected a tensor below {}, got {}", inputs.size() + outputs.size(), index));
  const TensorSpec &spec = index < inputs.size() ? inputs[index] : outputs[index - inputs.size()];
  *name = spec.name.c_str();
  *tensor = {nullptr, spec.shape.data(), static_cast<int32_t>(spec.shape.size()),
             static_cast<int32_t>(spec.dtype)};
  return nullptr;
}

braid_error *braid_program_plan(braid_program *program, int64_t rank, const char **text) {
  Result<std::string> plan = program->program.plan(rank);
  if (!plan)
    return toC(plan.status());
  program->answer = std::move(*plan);
  *text = program->answer.c_str();
  return nullptr;
}
braid_error *braid_program_check(braid_program *program, uint32_t queues, uint32_t runs,
                                 const char **report) {
  const Status status =
      program->program.check({queues, runs == 0 ? CheckLimits().runs : runs}, &program->answer);
  if (status.isOk())
    *report = program->answer.c_str();
  return toC(status);
}

braid_error *braid_job_create(const braid_job_options *options, braid_job **job) {
  return toC(Job::create(fromC(options)), job);
}
braid_error *braid_job_join(const braid_job_options *options, braid_job **job) {
  return toC(Job::join(fromC(options)), job);
}
void braid_job_free(braid_job *job) { delete job; }

int64_t braid_job_ranks(const braid_job *job) { return job->job->ranks(); }
int64_t braid_job_first_rank(const braid_job *job) { return job->job->firstRank(); }
int64_t braid_job_hosted(const braid_job *job) { return job->job->hosted(); }
braid_error *braid_job_compile_text(braid_job *job, const char *name, const char *text,
                                    const braid_lowering *options, braid_program **program) {
  return toC(job->job->compileText(name, text, fromC(options)), program);
}
braid_error *braid_job_compile_file(braid_job *job, const char *path, const braid_lowering *options,
                                    braid_program **program) {
  return toC(job->job->compileFile(path, fromC(options)), program);
}
braid_error *braid_job_stream(braid_job *job, uint32_t number, void **stream) {
  Result<void *> found = job->job->stream(number);
  if (!found)
    return toC(found.status());
  *stream = *found;
  return nullptr;
}
braid_error *braid_job_synchronize(braid_job *job) { return toC(job->job->synchronize()); }
braid_error *braid_job_commit(braid_job *job) { return toC(job->job->commit()); }
braid_error *braid_job_close(braid_job *job) { return toC(job->job->close()); }
braid_error *braid_job_fail(braid_job *job, int32_t code, const char *message) {
  const std::optional<StatusCode> failure = failureOfCode(code);
  if (!failure)
    return toC(badInput("expected the code of a failure, got {}", code));
  return toC(job->job->fail({*failure, message}));
}
void braid_job_abort(braid_job *job, int32_t code, const char *message) {
  job->job->abort({failureOfCode(code).value_or(StatusCode::Internal), message});
}
void braid_job_usage(const braid_job *job, int64_t *sessions, int64_t *bytes, int64_t *most) {
  const JobUsage usage = job->job->usage();
  *sessions = usage.sessions;
  *bytes = usage.bytes;
  *most = usage.most;
}

braid_error *braid_session_prepare(braid_job *job, const braid_program *program, int32_t measures,
                                   braid_session **session) {
  Result<std::unique_ptr<Session>> prepared =
      Session::prepare(job->job, program->program, {.measures = measures != 0});
  if (!prepared)
    return toC(prepared.status());
  *session = new braid_session{std::move(*prepared), braid_program_inputs(program),
                               braid_program_outputs(program)};
  return nullptr;
}
void braid_session_free(braid_session *session) { delete session; }
int64_t braid_session_runs(const braid_session *session) { return session->session->runs(); }
void braid_session_usage(const braid_session *session, int64_t *bytes, int64_t *most,
                         int32_t *is_in_graph) {
  const SessionUsage usage = session->session->usage();
  *bytes = usage.bytes;
  *most = usage.most;
  *is_in_graph = usage.isInGraph;
}
braid_error *braid_session_run(braid_session *session, const braid_tensor *tensors, size_t count,
                               void *stream) {
  const auto ranks = fromC(*session, {tensors, count});
  return toC(ranks ? session->session->run(*ranks, stream) : ranks.status());
}
braid_error *braid_session_run_at(braid_session *session, void *const *addresses, size_t count,
                                  void *stream) {
  return toC(session->session->runAt({addresses, count}, stream));
}
braid_error *braid_session_capture(braid_session *session, const braid_tensor *tensors,
                                   size_t count) {
  const auto ranks = fromC(*session, {tensors, count});
  return toC(ranks ? session->session->capture(*ranks) : ranks.status());
}
braid_error *braid_session_replay(braid_session *session, void *stream) {
  return toC(session->session->replay(stream));
}
