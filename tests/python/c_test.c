/*===- tests/python/c_test.c - the shared library from C --------------------------------------===//
 *
 * usage: c_test EXAMPLE     (a fusion of f32 or any other type that gathers A for A * B)
 *
 * What is said of a mistake, then one run on two ranks of ones: every element is the depth.
 *
 *===----------------------------------------------------------------------------------------===*/
#include "api/c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* In bf16, one is 0x3f80. */
static braid_tensor filled(braid_tensor tensor, uint16_t value) {
  const int64_t count = elements_of(&tensor);
  uint16_t *data = malloc((size_t)count * sizeof *data);
  for (int64_t i = 0; i < count; ++i)
    data[i] = value;
  tensor.data = data;
  return tensor;
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
