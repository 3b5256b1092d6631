/*===- api/c.h - C interface of the library ---------------------------------------------------===//
 *
 *   braid_program *program = NULL;
 *   braid_error *error = braid_compile_file("mlp.braid", NULL, &program);
 *   if (error) { fprintf(stderr, "%s\n", braid_error_message(error)); ... }
 *
 * Each function wraps the C++ function of the same name in api/program.h, api/job.h or
 * api/session.h, which document its effect, whether it blocks, and whether it is collective.
 * Functions are not thread-safe, but different threads may use objects of different jobs.
 *
 * Functions that can fail return NULL on success, or an error that the caller must pass to
 * braid_error_free(). Results are written only on success and are owned by the caller; each type
 * has a free function, which accepts NULL. Strings returned as `const char *` are NUL-terminated
 * UTF-8, owned by the queried object, and valid until that object is queried again or freed.
 *
 * An options struct begins with its size, because later versions append fields: initialize it with
 * its ..._DEFAULTS macro. Fields missing from an older caller's struct get their defaults; fields
 * that an older library does not have must be 0, or the call fails with BRAID_BAD_INPUT.
 *
 * Arguments may be NULL only where documented. If any other argument is NULL, functions that return
 * an error fail with BRAID_BAD_INPUT and a message that names the argument. Other functions return
 * 0 or "" if the object is NULL, and write only outputs that are not NULL. No function throws. A
 * process created by fork() is not part of its parent's jobs: see api/job.h.
 *
 *===----------------------------------------------------------------------------------------===*/
#ifndef BRAID_API_C_H
#define BRAID_API_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_EXPORT __attribute__((visibility("default")))

typedef struct braid_error braid_error;
typedef struct braid_program braid_program;
typedef struct braid_job braid_job;
typedef struct braid_session braid_session;

/* -- Errors. The codes are also the exit codes of `braid`; see api/status.h. -- */

enum {
  BRAID_OK = 0,
  BRAID_WRONG_RESULT = 1,
  BRAID_BAD_INPUT = 2,
  BRAID_REJECTED = 3,
  BRAID_UNSUPPORTED = 4,
  BRAID_PEER_FAILED = 5,
  BRAID_TIMED_OUT = 6,
  BRAID_INTERNAL = 70
};

BRAID_EXPORT int32_t braid_error_code(const braid_error *error);
/* Returns a message that states what was expected and what was found. Each error in a source text
 * is reported as `name:line:col: error: ...`, followed by the source line and a caret. */
BRAID_EXPORT const char *braid_error_message(const braid_error *error);
BRAID_EXPORT void braid_error_free(braid_error *error);

/* Returns the version that `braid --version` prints, such as "0.1.0", as a static string. */
BRAID_EXPORT const char *braid_version(void);

/* -- Tensors. -- */

/* Element types, as in braid::DType. */
enum { BRAID_BF16 = 0, BRAID_F16 = 1, BRAID_F32 = 2, BRAID_F64 = 3 };

/* A row-major, contiguous tensor: its address, local shape and element type. */
typedef struct {
  void *data; /* NULL if returned by braid_program_tensor() */
  const int64_t *shape;
  int32_t axes; /* number of extents, at most 64 */
  int32_t dtype;
} braid_tensor;

/* -- Programs. -- */

/* See braid::LoweringOptions. A NULL pointer selects the defaults. */
typedef struct {
  size_t size;       /* sizeof(braid_lowering) */
  const char *entry; /* NULL: the text has only one entry */
  int64_t ranks;     /* 0: as in the job or, without a job, as in the text */
  const char *const *parameter_names;
  const int64_t *parameter_values;
  size_t parameters;
  const char *schedule; /* NULL: not specified */
  double auto_seconds;
  int64_t reproducible; /* 1 or 0 */
} braid_lowering;
#define BRAID_LOWERING_DEFAULTS                                                                    \
  { sizeof(braid_lowering), NULL, 0, NULL, NULL, 0, NULL, 2.0, 0 }

BRAID_EXPORT braid_error *braid_compile_text(const char *name, const char *text,
                                             const braid_lowering *options,
                                             braid_program **program);
BRAID_EXPORT braid_error *braid_compile_file(const char *path, const braid_lowering *options,
                                             braid_program **program);
BRAID_EXPORT void braid_program_free(braid_program *program);

BRAID_EXPORT int64_t braid_program_ranks(const braid_program *program);
BRAID_EXPORT const char *braid_program_name(const braid_program *program);
/* Returns the text that `braid compile` prints. */
BRAID_EXPORT const char *braid_program_text(const braid_program *program);
/* Returns the schedule, as in braid_lowering::schedule, or "" if the program was not lowered. */
BRAID_EXPORT const char *braid_program_schedule(braid_program *program);
/* Returns the lowering decisions and any trials, as `braid run --explain` prints them. */
BRAID_EXPORT const char *braid_program_explain(braid_program *program);

/* The program's tensors on each rank: inputs, then outputs. The program owns `name`, which omits
 * `%`, and the shape. Fails with BRAID_BAD_INPUT if `index` is out of range. */
BRAID_EXPORT size_t braid_program_inputs(const braid_program *program);
BRAID_EXPORT size_t braid_program_outputs(const braid_program *program);
BRAID_EXPORT braid_error *braid_program_tensor(const braid_program *program, size_t index,
                                               const char **name, braid_tensor *tensor);

/* Returns the Plan of `rank`, as `braid compile --emit plan` prints it. */
BRAID_EXPORT braid_error *braid_program_plan(braid_program *program, int64_t rank,
                                             const char **text);
/* Returns the report of `braid check`, or fails with BRAID_REJECTED and a counterexample. If
 * `queues` is 0, finds the smallest safe number of queues; if `runs` is 0, checks 3 runs. */
BRAID_EXPORT braid_error *braid_program_check(braid_program *program, uint32_t queues,
                                              uint32_t runs, const char **report);

/* -- Jobs. -- */

/* See braid::JobOptions. A NULL pointer selects the defaults. `timeout_ms` must be at least 1. */
typedef struct {
  size_t size;         /* sizeof(braid_job_options) */
  const char *backend; /* NULL: cpu */
  int64_t ranks;
  int64_t timeout_ms;
  int64_t most_bytes;
  int32_t device; /* -1: the only GPU, or else the rank's index on this host */
  int32_t reproducible;
  const char *name; /* with `rank` and `ranks`: a braid::JobPlace; NULL: use the environment */
  int64_t rank;
} braid_job_options;
#define BRAID_JOB_DEFAULTS                                                                         \
  { sizeof(braid_job_options), NULL, 0, 60000, 0, -1, 0, NULL, 0 }

/* Creates all ranks as threads of this process. */
BRAID_EXPORT braid_error *braid_job_create(const braid_job_options *options, braid_job **job);
/* Joins a job as the rank given by `name`, `rank` and `ranks`, or by the environment. */
BRAID_EXPORT braid_error *braid_job_join(const braid_job_options *options, braid_job **job);
/* Releases the job's resources (best effort), but not before its last session has been freed. */
BRAID_EXPORT void braid_job_free(braid_job *job);

BRAID_EXPORT int64_t braid_job_ranks(const braid_job *job);
BRAID_EXPORT int64_t braid_job_first_rank(const braid_job *job);
BRAID_EXPORT int64_t braid_job_hosted(const braid_job *job);
BRAID_EXPORT braid_error *braid_job_compile_text(braid_job *job, const char *name, const char *text,
                                                 const braid_lowering *options,
                                                 braid_program **program);
BRAID_EXPORT braid_error *braid_job_compile_file(braid_job *job, const char *path,
                                                 const braid_lowering *options,
                                                 braid_program **program);
BRAID_EXPORT braid_error *braid_job_stream(braid_job *job, uint32_t number, void **stream);
BRAID_EXPORT braid_error *braid_job_synchronize(braid_job *job);
BRAID_EXPORT braid_error *braid_job_commit(braid_job *job);
BRAID_EXPORT braid_error *braid_job_close(braid_job *job);
/* Ends the job on all ranks; `code` must not be BRAID_OK. Returns the job's first failure. */
BRAID_EXPORT braid_error *braid_job_fail(braid_job *job, int32_t code, const char *message);
/* Like braid_job_fail(), but does not block. Any thread may call it; `message` may be NULL. */
BRAID_EXPORT void braid_job_abort(braid_job *job, int32_t code, const char *message);
/* Returns braid::Job::isStuck() as 1 or 0. */
BRAID_EXPORT int32_t braid_job_is_stuck(const braid_job *job);
BRAID_EXPORT void braid_job_usage(const braid_job *job, int64_t *sessions, int64_t *bytes,
                                  int64_t *most);
/* Returns the fields of braid::JobUsage that braid_job_usage() does not return. */
BRAID_EXPORT void braid_job_held(const braid_job *job, int64_t *in_graphs, int64_t *held,
                                 int64_t *most_held);
BRAID_EXPORT braid_error *braid_job_give_back(braid_job *job);
/* See braid::Job::mark() and passedMarks(). */
BRAID_EXPORT int64_t braid_job_mark(braid_job *job);
BRAID_EXPORT int64_t braid_job_passed_marks(const braid_job *job);

/* -- Sessions. -- */

/* `measures` is 1 or 0: see braid::PrepareOptions::measures. */
BRAID_EXPORT braid_error *braid_session_prepare(braid_job *job, const braid_program *program,
                                                int32_t measures, braid_session **session);
BRAID_EXPORT void braid_session_free(braid_session *session);
BRAID_EXPORT int64_t braid_session_runs(const braid_session *session);
/* Returns the fields of braid::SessionUsage. */
BRAID_EXPORT void braid_session_usage(const braid_session *session, int64_t *bytes, int64_t *most,
                                      int32_t *is_in_graph);
/* Issues one run. `tensors` lists, for each rank in this process, its inputs, then its outputs;
 * `count` is their total number. */
BRAID_EXPORT braid_error *braid_session_run(braid_session *session, const braid_tensor *tensors,
                                            size_t count, void *stream);
/* Like braid_session_run(), but takes only addresses. This process must have only one rank. */
BRAID_EXPORT braid_error *braid_session_run_at(braid_session *session, void *const *addresses,
                                               size_t count, void *stream);
BRAID_EXPORT braid_error *braid_session_capture(braid_session *session, const braid_tensor *tensors,
                                                size_t count);
BRAID_EXPORT braid_error *braid_session_replay(braid_session *session, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* BRAID_API_C_H */
