/*===- tests/python/c_test.c - the shared library from C --------------------------------------===//
 *
 * usage: c_test EXAMPLE     (a bf16 fusion with parameters M, K and N that gathers A for A * B)
 *
 * Checks the message of an error, and one run on two ranks with inputs of ones, where every element
 * of the result is the depth. Then checks that wrong arguments and a forked child do no harm.
 *
 *===----------------------------------------------------------------------------------------===*/
#define _POSIX_C_SOURCE 200809L
#include "api/c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int holds, const char *what, const braid_error *error) {
  if (holds)
    return;
  fprintf(stderr, "expected %s; %s\n", what, braid_error_message(error));
  exit(1);
}

static int64_t elements_of(const braid_tensor *tensor) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor->axes; ++axis)
    count *= tensor->shape[axis];
  return count;
}

/* Fills a tensor of 16-bit elements. One is 0x3f80 in bf16. */
static braid_tensor filled(braid_tensor tensor, uint16_t value) {
  const int64_t count = elements_of(&tensor);
  uint16_t *data = malloc((size_t)count * sizeof *data);
  for (int64_t i = 0; i < count; ++i)
    data[i] = value;
  tensor.data = data;
  return tensor;
}

/* Expects an error with these words and frees it. */
static void expect_bad_input(braid_error *error, const char *words) {
  expect(braid_error_code(error) == BRAID_BAD_INPUT &&
             strstr(braid_error_message(error), words) != NULL,
         words, error);
  braid_error_free(error);
}

static void try_wrong_programs(const char *path) {
  braid_program *program = NULL;
  braid_lowering lowering = BRAID_LOWERING_DEFAULTS;
  expect_bad_input(braid_compile_text(NULL, "", NULL, &program), "name: expected");
  expect_bad_input(braid_compile_text("t", NULL, NULL, &program), "text: expected");
  expect_bad_input(braid_compile_file(NULL, NULL, &program), "path: expected");
  expect_bad_input(braid_compile_file(path, NULL, NULL), "program: expected");
  const char *const names[] = {NULL};
  const int64_t values[] = {4};
  lowering.parameters = 1;
  expect_bad_input(braid_compile_file(path, &lowering, &program), "parameter_names: expected");
  lowering.parameter_names = names;
  expect_bad_input(braid_compile_file(path, &lowering, &program), "parameter_values: expected");
  lowering.parameter_values = values;
  expect_bad_input(braid_compile_file(path, &lowering, &program), "parameter_names: expected");
  const char *const twice[] = {"M", "M"};
  const int64_t of_both[] = {4, 8};
  lowering.parameter_names = twice;
  lowering.parameter_values = of_both;
  lowering.parameters = 2;
  expect_bad_input(braid_compile_file(path, &lowering, &program),
                   ": error: expected only one value for 'M' of @ag_matmul, got 4 and 8");
  expect_bad_input(braid_program_plan(NULL, 0, NULL), "program: expected");
  expect(braid_program_ranks(NULL) == 0 && *braid_program_text(NULL) == 0, "nothing", NULL);
}

/* Options of a caller that was compiled with another version. A guard after them must not be read
 * as a field. */
static void try_other_versions(const char *path) {
  braid_program *program = NULL;
  struct {
    braid_lowering lowering;
    int64_t more[2];
  } newer = {BRAID_LOWERING_DEFAULTS, {0, 0}};
  newer.lowering.ranks = 2;
  newer.lowering.size = sizeof newer;
  braid_error *error = braid_compile_file(path, &newer.lowering, &program);
  expect(!error && braid_program_ranks(program) == 2, "a newer caller to be served", error);
  braid_program_free(program);
  newer.more[1] = 1;
  expect_bad_input(braid_compile_file(path, &newer.lowering, &program),
                   "braid_lowering: expected fields unknown to braid ");

  braid_lowering lowering = BRAID_LOWERING_DEFAULTS; /* as if it ended before `schedule` */
  lowering.ranks = 2;
  lowering.size = offsetof(braid_lowering, schedule);
  lowering.schedule = "no schedule";
  lowering.reproducible = 1;
  error = braid_compile_file(path, &lowering, &program);
  expect(!error && braid_program_ranks(program) == 2, "an older caller to be served", error);
  expect(strcmp(braid_program_schedule(program), "pairwise") == 0, "the default", NULL);
  braid_program_free(program);
  const size_t wrong[] = {0, sizeof lowering - 1, SIZE_MAX, SIZE_MAX - 7};
  for (int i = 0; i < 4; ++i) {
    lowering.size = wrong[i];
    expect_bad_input(braid_compile_file(path, &lowering, &program),
                     "braid_lowering::size: expected sizeof(braid_lowering), got");
  }

  braid_job *job = NULL;
  braid_job_options options = BRAID_JOB_DEFAULTS;
  options.size = 0;
  expect_bad_input(braid_job_create(&options, &job), "braid_job_options::size: expected");
  expect_bad_input(braid_job_join(&options, &job), "braid_job_options::size: expected");
  options.size = offsetof(braid_job_options, timeout_ms);
  options.ranks = 2;
  options.timeout_ms = -1;
  error = braid_job_create(&options, &job);
  expect(!error && braid_job_ranks(job) == 2, "an older caller to be served", error);
  braid_job_free(job);
}

static void try_wrong_jobs(void) {
  braid_job_options options = BRAID_JOB_DEFAULTS;
  braid_job *job = NULL;
  expect_bad_input(braid_job_join(NULL, NULL), "job: expected");
  options.name = "c_test";
  options.ranks = 1;
  for (options.timeout_ms = -1; options.timeout_ms < 1; ++options.timeout_ms)
    expect_bad_input(braid_job_join(&options, &job), "of at least 1 ms, got");
  options.timeout_ms = INT64_MAX;
  braid_error *error = braid_job_join(&options, &job);
  expect(!error, "a job without a time limit", error);
  expect_bad_input(braid_job_fail(job, BRAID_PEER_FAILED, NULL), "message: expected");
  error = braid_job_close(job);
  expect(!error, "the job to close", error);
  braid_job_free(job);
  expect_bad_input(braid_job_synchronize(NULL), "job: expected");
  braid_job_abort(NULL, BRAID_INTERNAL, NULL);
  braid_job_usage(NULL, NULL, NULL, NULL);
  expect(braid_job_ranks(NULL) == 0, "no ranks", NULL);
}

static void try_wrong_tensors(braid_job *job, const braid_program *program, braid_session *session,
                              const braid_tensor *tensors) {
  const char *name = NULL;
  braid_tensor wrong[6];
  memcpy(wrong, tensors, sizeof wrong);
  wrong[4].shape = NULL;
  expect_bad_input(braid_session_run(session, wrong, 6, NULL), "tensor 4: shape: expected");
  const int32_t axes[] = {-1, 2000000000};
  for (int i = 0; i < 2; ++i) {
    memcpy(wrong, tensors, sizeof wrong);
    wrong[4].axes = axes[i];
    expect_bad_input(braid_session_run(session, wrong, 6, NULL), "tensor 4: expected 0 to 64 axes");
  }
  expect_bad_input(braid_session_run(session, NULL, 6, NULL), "tensors: expected");
  expect_bad_input(braid_session_run_at(session, NULL, 3, NULL), "addresses: expected");
  expect_bad_input(braid_session_replay(NULL, NULL), "session: expected");
  expect_bad_input(braid_session_prepare(NULL, program, 1, &session), "job: expected");
  expect_bad_input(braid_session_prepare(job, NULL, 1, &session), "program: expected");
  expect_bad_input(braid_session_prepare(job, program, 1, NULL), "session: expected");
  expect_bad_input(braid_program_tensor(program, 0, &name, NULL), "tensor: expected");
}

/* A forked child has copies of all objects, but none of their threads or resources. */
static void try_from_child(braid_job *job, braid_session *session) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    expect_bad_input(braid_job_synchronize(job), "not by a forked child");
    expect_bad_input(braid_job_commit(job), "not by a forked child");
    braid_job_abort(job, BRAID_PEER_FAILED, "by a child");
    braid_session_free(session);
    braid_job_free(job);
    _exit(0);
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && status == 0, "a child that ends by itself", NULL);
}

int main(int count, char **arguments) {
  expect(count == 2, "the path of an example", NULL);
  braid_program *program = NULL;
  braid_error *error = braid_compile_text("t", "fusion @f {", NULL, &program);
  expect(braid_error_code(error) == BRAID_BAD_INPUT && !program, "a refusal", error);
  expect(strncmp(braid_error_message(error), "t:1:", 4) == 0, "the place", error);
  braid_error_free(error);

  const char *const names[] = {"M", "K", "N"};
  const int64_t values[] = {4, 8, 2};
  braid_lowering lowering = BRAID_LOWERING_DEFAULTS;
  lowering.ranks = 2;
  lowering.parameter_names = names;
  lowering.parameter_values = values;
  lowering.parameters = 3;
  error = braid_compile_file(arguments[1], &lowering, &program);
  expect(!error && braid_program_ranks(program) == 2, "a program", error);
  const char *report = NULL;
  error = braid_program_check(program, 0, 0, &report);
  expect(!error && strstr(report, "is safe on 2 ranks, 3 successive runs"), "a proof", error);

  braid_job_options options = BRAID_JOB_DEFAULTS;
  options.ranks = 2;
  braid_job *job = NULL;
  error = braid_job_create(&options, &job);
  expect(!error && braid_job_hosted(job) == 2, "a job", error);
  braid_session *session = NULL;
  error = braid_session_prepare(job, program, 1, &session);
  expect(!error, "a session", error);
  braid_tensor tensors[6];
  for (size_t i = 0; i < 6; ++i) {
    const char *name = NULL;
    error = braid_program_tensor(program, i % 3, &name, &tensors[i]);
    expect(!error && strchr("ABC", name[0]), "a tensor", error);
    tensors[i] = filled(tensors[i], i % 3 < 2 ? 0x3f80 : 0xffff);
  }
  error = braid_session_run(session, tensors, 5, NULL);
  expect(braid_error_code(error) == BRAID_BAD_INPUT, "five tensors to be refused", error);
  braid_error_free(error);
  error = braid_session_run(session, tensors, 6, NULL);
  expect(!error, "a run", error);
  error = braid_job_synchronize(job);
  expect(!error && braid_session_runs(session) == 1, "one run", error);
  int64_t bytes = 0, most = 0;
  int32_t is_in_graph = 1;
  braid_session_usage(session, &bytes, &most, &is_in_graph);
  expect(most > 0 && bytes == 2 * most && !is_in_graph, "what both ranks hold", NULL);
  try_wrong_programs(arguments[1]);
  try_other_versions(arguments[1]);
  try_wrong_jobs();
  try_wrong_tensors(job, program, session, tensors);
  try_from_child(job, session);
  error = braid_job_commit(job);
  expect(!error && braid_session_runs(session) == 1, "the job to go on", error);
  for (size_t i = 2; i < 6; i += 3)
    for (int64_t k = 0; k < elements_of(&tensors[i]); ++k)
      expect(((const uint16_t *)tensors[i].data)[k] == 0x4100, "8 in every element", NULL);
  braid_session_free(session);
  error = braid_job_close(job);
  expect(!error, "the job to close", error);
  for (size_t i = 0; i < 6; ++i)
    free(tensors[i].data);
  braid_job_free(job);
  braid_program_free(program);
  braid_program_free(NULL);
  return 0;
}
