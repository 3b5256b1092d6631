//===- api/c.cpp - C interface of the library -------------------------------------------------===//

#include "api/c.h"

#include "api/session.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>

struct braid_error {
  braid::Status status;
};

struct braid_program {
  braid::CompiledProgram program;
  std::string text, answer = {}; ///< `answer`: the last string returned
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

/// A pointer argument that must not be NULL.
struct Needed {
  const char *name;
  const void *given;
};

Status expectGiven(std::initializer_list<Needed> needed) {
  for (const Needed &each : needed)
    if (!each.given)
      return badInput("{}: expected a pointer, got NULL", each.name);
  return Status::ok();
}

Status expectArray(const char *name, const void *given, size_t count) {
  return given || count == 0 ? Status::ok()
                             : badInput("{}: expected {} elements, got NULL", name, count);
}

/// Returns a static error, because allocating an error would also fail.
braid_error *outOfMemory() {
  static braid_error error{{StatusCode::Unsupported, "out of memory"}};
  return &error;
}

/// Implements a function that returns an error: calls `work` unless a required argument is NULL,
/// and converts exceptions to errors.
template <class Work>
braid_error *toC(std::initializer_list<Needed> needed, const Work &work) noexcept {
  try {
    try {
      Status status = expectGiven(needed);
      if (status.isOk())
        status = work();
      return status.isOk() ? nullptr : new braid_error{std::move(status)};
    } catch (const std::bad_alloc &) {
      return outOfMemory();
    } catch (const std::exception &error) {
      return new braid_error{internalError("{}", error.what())};
    }
  } catch (...) {
    return outOfMemory();
  }
}

/// Implements a function that cannot fail: returns `otherwise` if `object` is NULL or `ask` throws.
template <class Answer, class Object, class Ask>
Answer answerOf(Object *object, Answer otherwise, const Ask &ask) noexcept {
  try {
    return object ? ask(*object) : otherwise;
  } catch (...) {
    return otherwise;
  }
}

template <class T> void put(T *place, T value) {
  if (place)
    *place = value;
}

Status give(Result<CompiledProgram> program, braid_program **result) {
  const CompiledProgram made = BRAID_TRY(std::move(program));
  *result = new braid_program{made, made.str()};
  return Status::ok();
}

Status give(Result<std::shared_ptr<Job>> job, braid_job **result) {
  std::shared_ptr<Job> made = BRAID_TRY(std::move(job));
  *result = new braid_job{std::move(made)};
  return Status::ok();
}

/// Moves the string to `program`, which then owns it, and points `*text` to it.
Status give(Result<std::string> answer, braid_program *program, const char **text) {
  program->answer = BRAID_TRY(std::move(answer));
  *text = program->answer.c_str();
  return Status::ok();
}

/// Converts a caller's options struct to this version of the struct. Uses `defaults` if `given` is
/// NULL, and for fields that the caller's version lacks.
template <class Options>
Result<Options> sized(const char *name, const Options *given, Options defaults) {
  if (!given)
    return defaults;
  constexpr size_t kMostBytes = 4096;
  const size_t size = given->size;
  if (size < sizeof given->size || size > kMostBytes || size % alignof(Options) != 0)
    return badInput("{0}::size: expected sizeof({0}), got {1}", name, size);
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (size_t i = sizeof defaults; i < size; ++i)
    if (bytes[i] != 0)
      return badInput("{}: expected fields unknown to braid {} (starting at byte {}) to be 0, got "
                      "{} at byte {}",
                      name, BRAID_VERSION, sizeof defaults, bytes[i], i);
  std::memcpy(&defaults, given, std::min(size, sizeof defaults));
  return defaults;
}

Result<LoweringOptions> fromC(const braid_lowering *caller) {
  const braid_lowering given =
      BRAID_TRY(sized<braid_lowering>("braid_lowering", caller, BRAID_LOWERING_DEFAULTS));
  LoweringOptions options;
  if (given.entry)
    options.entry = given.entry;
  if (given.ranks != 0)
    options.ranks = given.ranks;
  BRAID_TRY(expectArray("parameter_names", given.parameter_names, given.parameters));
  BRAID_TRY(expectArray("parameter_values", given.parameter_values, given.parameters));
  for (size_t i = 0; i < given.parameters; ++i) {
    BRAID_TRY(expectGiven({{"parameter_names", given.parameter_names[i]}}));
    options.parameters.emplace_back(given.parameter_names[i], given.parameter_values[i]);
  }
  if (given.schedule)
    options.schedule = given.schedule;
  options.autoSeconds = given.auto_seconds;
  options.reproducible = given.reproducible != 0;
  return options;
}

Result<JobOptions> fromC(const braid_job_options *caller) {
  const braid_job_options given =
      BRAID_TRY(sized<braid_job_options>("braid_job_options", caller, BRAID_JOB_DEFAULTS));
  JobOptions options;
  if (given.backend)
    options.backend = given.backend;
  options.ranks = given.ranks;
  options.timeout = std::chrono::milliseconds(given.timeout_ms);
  options.mostBytes = given.most_bytes;
  if (given.device >= 0)
    options.device = given.device;
  options.reproducible = given.reproducible != 0;
  if (given.name)
    options.place = {given.rank, given.ranks, given.name};
  return options;
}

// The structs must not end in padding, because a later version could place a field there.
static_assert(offsetof(braid_lowering, reproducible) + sizeof(int64_t) == sizeof(braid_lowering));
static_assert(offsetof(braid_job_options, rank) + sizeof(int64_t) == sizeof(braid_job_options));

/// Exceeds the number of axes of any tensor. Bounds the read if the caller passes a wrong number.
constexpr int32_t kMostAxes = 64;

/// Converts a tensor. Error messages refer to the tensor by `number`, its index in the call.
Result<Tensor> fromC(const braid_tensor &given, size_t number) {
  if (given.dtype < BRAID_BF16 || given.dtype > BRAID_F64)
    return badInput("tensor {}: expected an element type from {} to {}, got {}", number,
                    static_cast<int>(BRAID_BF16), static_cast<int>(BRAID_F64), given.dtype);
  if (given.axes < 0 || given.axes > kMostAxes)
    return badInput("tensor {}: expected 0 to {} axes, got {}", number, kMostAxes, given.axes);
  BRAID_TRY(expectArray("shape", given.shape, static_cast<size_t>(given.axes))
                .annotated(fmt::format("tensor {}", number)));
  return Tensor{given.data, static_cast<DType>(given.dtype),
                std::span(given.shape, static_cast<size_t>(given.axes))};
}

/// Returns the tensors of all ranks in this process, in thread-local storage.
Result<std::span<const RankTensors>> fromC(const braid_session &session,
                                           const braid_tensor *tensors, size_t count) {
  thread_local std::vector<RankTensors> ranks;
  BRAID_TRY(expectArray("tensors", tensors, count));
  const size_t each = session.inputs + session.outputs;
  if (each == 0 || count % each != 0)
    return badInput("expected {} tensors for each rank in this process ({} inputs, {} outputs), "
                    "got {} in total",
                    each, session.inputs, session.outputs, count);
  ranks.resize(count / each);
  for (RankTensors &rank : ranks) {
    rank.inputs.clear();
    rank.outputs.clear();
  }
  for (size_t i = 0; i < count; ++i) {
    RankTensors &rank = ranks[i / each];
    Tensor tensor = BRAID_TRY(fromC(tensors[i], i));
    (i % each < session.inputs ? rank.inputs : rank.outputs).push_back(tensor);
  }
  return std::span<const RankTensors>(ranks);
}

} // namespace
} // namespace braid

using namespace braid; // the C functions below are outside the namespace

int32_t braid_error_code(const braid_error *error) {
  return error ? static_cast<int32_t>(error->status.code()) : BRAID_OK;
}
const char *braid_error_message(const braid_error *error) {
  return error ? error->status.message().c_str() : "";
}
void braid_error_free(braid_error *error) {
  if (error != outOfMemory())
    delete error;
}

const char *braid_version(void) { return BRAID_VERSION; }

braid_error *braid_compile_text(const char *name, const char *text, const braid_lowering *options,
                                braid_program **program) {
  return toC({{"name", name}, {"text", text}, {"program", program}}, [&]() -> Status {
    return give(compileText(name, text, BRAID_TRY(fromC(options))), program);
  });
}
braid_error *braid_compile_file(const char *path, const braid_lowering *options,
                                braid_program **program) {
  return toC({{"path", path}, {"program", program}}, [&]() -> Status {
    return give(compileFile(path, BRAID_TRY(fromC(options))), program);
  });
}
void braid_program_free(braid_program *program) { delete program; }

int64_t braid_program_ranks(const braid_program *program) {
  return answerOf(program, int64_t(0), [](auto &p) { return p.program.ranks(); });
}
const char *braid_program_name(const braid_program *program) {
  return answerOf(program, "", [](auto &p) { return p.program.name().c_str(); });
}
const char *braid_program_text(const braid_program *program) {
  return answerOf(program, "", [](auto &p) { return p.text.c_str(); });
}
const char *braid_program_schedule(braid_program *program) {
  return answerOf(program, "", [](braid_program &p) {
    p.answer = p.program.schedule();
    return p.answer.c_str();
  });
}
const char *braid_program_explain(braid_program *program) {
  return answerOf(program, "", [](braid_program &p) {
    p.answer = p.program.explain() + p.program.trials();
    return p.answer.c_str();
  });
}

size_t braid_program_inputs(const braid_program *program) {
  return answerOf(program, size_t(0), [](auto &p) { return p.program.inputs().size(); });
}
size_t braid_program_outputs(const braid_program *program) {
  return answerOf(program, size_t(0), [](auto &p) { return p.program.outputs().size(); });
}
braid_error *braid_program_tensor(const braid_program *program, size_t index, const char **name,
                                  braid_tensor *tensor) {
  return toC({{"program", program}, {"name", name}, {"tensor", tensor}}, [&]() -> Status {
    const auto inputs = program->program.inputs(), outputs = program->program.outputs();
    if (index >= inputs.size() + outputs.size())
      return badInput("expected a tensor index below {}, got {}", inputs.size() + outputs.size(),
                      index);
    const TensorSpec &spec = index < inputs.size() ? inputs[index] : outputs[index - inputs.size()];
    *name = spec.name.c_str();
    *tensor = {nullptr, spec.shape.data(), static_cast<int32_t>(spec.shape.size()),
               static_cast<int32_t>(spec.dtype)};
    return Status::ok();
  });
}

braid_error *braid_program_plan(braid_program *program, int64_t rank, const char **text) {
  return toC({{"program", program}, {"text", text}},
             [&] { return give(program->program.plan(rank), program, text); });
}
braid_error *braid_program_check(braid_program *program, uint32_t queues, uint32_t runs,
                                 const char **report) {
  return toC({{"program", program}, {"report", report}}, [&]() -> Status {
    BRAID_TRY(
        program->program.check({queues, runs == 0 ? CheckLimits().runs : runs}, &program->answer));
    *report = program->answer.c_str();
    return Status::ok();
  });
}

braid_error *braid_job_create(const braid_job_options *options, braid_job **job) {
  return toC({{"job", job}},
             [&]() -> Status { return give(Job::create(BRAID_TRY(fromC(options))), job); });
}
braid_error *braid_job_join(const braid_job_options *options, braid_job **job) {
  return toC({{"job", job}},
             [&]() -> Status { return give(Job::join(BRAID_TRY(fromC(options))), job); });
}
void braid_job_free(braid_job *job) { delete job; }

int64_t braid_job_ranks(const braid_job *job) {
  return answerOf(job, int64_t(0), [](auto &j) { return j.job->ranks(); });
}
int64_t braid_job_first_rank(const braid_job *job) {
  return answerOf(job, int64_t(0), [](auto &j) { return j.job->firstRank(); });
}
int64_t braid_job_hosted(const braid_job *job) {
  return answerOf(job, int64_t(0), [](auto &j) { return j.job->hosted(); });
}
braid_error *braid_job_compile_text(braid_job *job, const char *name, const char *text,
                                    const braid_lowering *options, braid_program **program) {
  return toC({{"job", job}, {"name", name}, {"text", text}, {"program", program}}, [&]() -> Status {
    return give(job->job->compileText(name, text, BRAID_TRY(fromC(options))), program);
  });
}
braid_error *braid_job_compile_file(braid_job *job, const char *path, const braid_lowering *options,
                                    braid_program **program) {
  return toC({{"job", job}, {"path", path}, {"program", program}}, [&]() -> Status {
    return give(job->job->compileFile(path, BRAID_TRY(fromC(options))), program);
  });
}
braid_error *braid_job_stream(braid_job *job, uint32_t number, void **stream) {
  return toC({{"job", job}, {"stream", stream}}, [&]() -> Status {
    *stream = BRAID_TRY(job->job->stream(number));
    return Status::ok();
  });
}
braid_error *braid_job_synchronize(braid_job *job) {
  return toC({{"job", job}}, [&] { return job->job->synchronize(); });
}
braid_error *braid_job_commit(braid_job *job) {
  return toC({{"job", job}}, [&] { return job->job->commit(); });
}
braid_error *braid_job_close(braid_job *job) {
  return toC({{"job", job}}, [&] { return job->job->close(); });
}
braid_error *braid_job_fail(braid_job *job, int32_t code, const char *message) {
  return toC({{"job", job}, {"message", message}}, [&]() -> Status {
    const std::optional<StatusCode> failure = failureOfCode(code);
    return failure ? job->job->fail({*failure, message})
                   : badInput("expected an error code, got {}", code);
  });
}
void braid_job_abort(braid_job *job, int32_t code, const char *message) {
  answerOf(job, 0, [&](braid_job &j) {
    j.job->abort({failureOfCode(code).value_or(StatusCode::Internal),
                  message ? message : "no reason was given"});
    return 0;
  });
}
int32_t braid_job_is_stuck(const braid_job *job) {
  return answerOf(job, 0, [](auto &j) { return j.job->isStuck() ? 1 : 0; });
}
void braid_job_usage(const braid_job *job, int64_t *sessions, int64_t *bytes, int64_t *most) {
  const JobUsage usage = answerOf(job, JobUsage(), [](auto &j) { return j.job->usage(); });
  put(sessions, usage.sessions);
  put(bytes, usage.bytes);
  put(most, usage.most);
}
void braid_job_held(const braid_job *job, int64_t *in_graphs, int64_t *held, int64_t *most_held) {
  const JobUsage usage = answerOf(job, JobUsage(), [](auto &j) { return j.job->usage(); });
  put(in_graphs, usage.inGraphs);
  put(held, usage.held);
  put(most_held, usage.mostHeld);
}
braid_error *braid_job_give_back(braid_job *job) {
  return toC({{"job", job}}, [&] { return job->job->giveBack(); });
}
int64_t braid_job_mark(braid_job *job) {
  return answerOf(job, int64_t(0), [](auto &j) { return j.job->mark(); });
}
int64_t braid_job_passed_marks(const braid_job *job) {
  return answerOf(job, int64_t(0), [](auto &j) { return j.job->passedMarks(); });
}

braid_error *braid_session_prepare(braid_job *job, const braid_program *program, int32_t measures,
                                   braid_session **session) {
  return toC({{"job", job}, {"program", program}, {"session", session}}, [&]() -> Status {
    std::unique_ptr<Session> prepared = BRAID_TRY(
        Session::prepare(job->job, program->program, PrepareOptions{.measures = measures != 0}));
    *session = new braid_session{std::move(prepared), braid_program_inputs(program),
                                 braid_program_outputs(program)};
    return Status::ok();
  });
}
void braid_session_free(braid_session *session) { delete session; }
int64_t braid_session_runs(const braid_session *session) {
  return answerOf(session, int64_t(0), [](auto &s) { return s.session->runs(); });
}
void braid_session_usage(const braid_session *session, int64_t *bytes, int64_t *most,
                         int32_t *is_in_graph) {
  const SessionUsage usage =
      answerOf(session, SessionUsage(), [](auto &s) { return s.session->usage(); });
  put(bytes, usage.bytes);
  put(most, usage.most);
  put(is_in_graph, static_cast<int32_t>(usage.isInGraph));
}
braid_error *braid_session_run(braid_session *session, const braid_tensor *tensors, size_t count,
                               void *stream) {
  return toC({{"session", session}}, [&]() -> Status {
    const auto ranks = BRAID_TRY(fromC(*session, tensors, count));
    return session->session->run(ranks, stream);
  });
}
braid_error *braid_session_run_at(braid_session *session, void *const *addresses, size_t count,
                                  void *stream) {
  return toC({{"session", session}}, [&]() -> Status {
    BRAID_TRY(expectArray("addresses", addresses, count));
    return session->session->runAt({addresses, count}, stream);
  });
}
braid_error *braid_session_capture(braid_session *session, const braid_tensor *tensors,
                                   size_t count) {
  return toC({{"session", session}}, [&]() -> Status {
    const auto ranks = BRAID_TRY(fromC(*session, tensors, count));
    return session->session->capture(ranks);
  });
}
braid_error *braid_session_replay(braid_session *session, void *stream) {
  return toC({{"session", session}}, [&] { return session->session->replay(stream); });
}
