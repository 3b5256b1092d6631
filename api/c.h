/*===- api/c.h - the library from C, and so from any language ---------------------------------===//
 *
 *   braid_program *program = NULL;
 *   braid_error *error = braid_compile_file("mlp.braid", NULL, &program);
 *   if (error) { fprintf(stderr, "%s\n", braid_error_message(error)); ... }
 *
 * Each function corresponds to the one of the same name in api/program.h, api/job.h or
 * api/session.h, which document its effect, whether it blocks, and whether it is collective.
 * Nothing here is thread-safe, except that threads may use objects of different jobs.
 *
 * An error is a value: NULL means success, and anything else must be passed to braid_error_free().
 * A result is written only on success, and belongs to the caller: each kind has a function that
 * frees it and accepts NULL. Texts returned as `const char *` are zero-terminated UTF-8, belong to
 * the object that was queried, and remain valid until it is queried again or freed.
 *
 * A struct of options begins with its size, as compiled by the caller, and grows at its end:
 * initialize it with its ..._DEFAULTS. Fields that an older caller lacks have their defaults; those
 * that a newer caller adds must be 0, or the call fails with BRAID_BAD_INPUT.
 *
 * Arguments may be NULL only where documented. Elsewhere NULL is BRAID_BAD_INPUT, with the
 * argument's name; functions that return no error then return 0 or "", and write nothing to NULL.
 * No exception leaves this interface. A child of fork() is not part of its parent's jobs: see
 * api/job.h.
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

/* -- Errors. Codes are the exit codes of the command line; see api/status.h. -- */

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
/* Says what was expected and what was found. Each mistake in a text is `name:line:col: error: ...`
 * with the line and a caret below it. */
BRAID_EXPORT const char *braid_error_message(const braid_error *error);
BRAID_EXPORT void braid_error_free(braid_error *error);

/* Returns the version that `braid --version` prints: "0.1.0". Static. */
BRAID_EXPORT const char *braid_version(void);

/* -- Tensors. -- */

/* Element types, as in braid::DType. */
enum { BRAID_BF16 = 0, BRAID_F16 = 1, BRAID_F32 = 2, BRAID_F64 = 3 };

/* The local shape of a tensor, row-major and contiguous, and its address in a run. */
typedef struct {
  void *data; /* NULL from braid_program_tensor() */
  const int64_t *shape;
  int32_t axes; /* number of extents, up to 64 */
  int32_t dtype;
} braid_tensor;

/* -- Programs. -- */

/* braid::LoweringOptions. NULL stands for the defaults. */
typedef struct {
  size_t size;       /* sizeof(braid_lowering) */
  const char *entry; /* NULL: the only entry of the text */
  int64_t ranks;     /* 0: as in the text, or in the job */
  const char *const *parameter_names;
  const int64_t *parameter_values;
  size_t parameters;
  const char *schedule; /* NULL: none is named */
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
/* Returns a braid_lowering::schedule; "" for a program that was not lowered. */
BRAID_EXPORT const char *braid_program_schedule(braid_program *program);
/* Returns the choices of lowering and any trials, as `braid run --explain` prints them. */
BRAID_EXPORT const char *braid_program_explain(braid_program *program);

/* The tensors of the program on each rank: 0 to inputs - 1 are inputs, the others outputs. `name`
 * has no `%`; it and the shape belong to the program. Fails with BRAID_BAD_INPUT beyond the end. */
BRAID_EXPORT size_t braid_program_inputs(const braid_program *program);
BRAID_EXPORT size_t braid_program_outputs(const braid_program *program);
BRAID_EXPORT braid_error *braid_program_tensor(const braid_program *program, size_t index,
                                               const char **name, braid_tensor *tensor);

/* Returns the Plan of one rank, as `braid compile --emit plan` prints it. */
BRAID_EXPORT braid_error *braid_program_plan(braid_program *program, int64_t rank,
                                             const char **text);
/* Returns the report of `braid check`, or fails with BRAID_REJECTED and a counterexample. 0 queues
 * accepts any number that is safe; 0 runs means 3. */
BRAID_EXPORT braid_error *braid_program_check(braid_program *program, uint32_t queues,
                                              uint32_t runs, const char **report);

/* -- Jobs. -- */

/* braid::JobOptions. NULL stands for the defaults. `timeout_ms` is at least 1. */
typedef struct {
  size_t size;         /* sizeof(braid_job_options) */
  const char *backend; /* NULL: cpu */
  int64_t ranks;
  int64_t timeout_ms;
  int64_t most_bytes;
  int32_t device; /* -1: the rank's index on this host */
  int32_t reproducible;
  const char *name; /* with rank and ranks, the braid::JobPlace; NULL: from the environment */
  int64_t rank;
} braid_job_options;
#define BRAID_JOB_DEFAULTS                                                                         \
  { sizeof(braid_job_options), NULL, 0, 60000, 0, -1, 0, NULL, 0 }

/* Creates all ranks as threads of this process. */
BRAID_EXPORT braid_error *braid_job_create(const braid_job_options *options, braid_job **job);
/* Joins a job as the rank that `name`, `rank` and `ranks`, or else the environment, define. */
BRAID_EXPORT braid_error *braid_job_join(const braid_job_options *options, braid_job **job);
/* Releases what it can, once the last of its sessions is freed, too. */
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
/* Ends the job for all ranks; `code` must not be BRAID_OK. Returns the first cause. */
BRAID_EXPORT braid_error *braid_job_fail(braid_job *job, int32_t code, const char *message);
/* The same without blocking; callable from any thread. `message` may be NULL. */
BRAID_EXPORT void braid_job_abort(braid_job *job, int32_t code, const char *message);
/* braid::Job::isStuck(), 1 or 0. */
BRAID_EXPORT int32_t braid_job_is_stuck(const braid_job *job);
BRAID_EXPORT void braid_job_usage(const braid_job *job, int64_t *sessions, int64_t *bytes,
                                  int64_t *most);
/* The other fields of braid::JobUsage: `in_graphs`, `held` and `most_held`. */
BRAID_EXPORT void braid_job_held(const braid_job *job, int64_t *in_graphs, int64_t *held,
                                 int64_t *most_held);
BRAID_EXPORT braid_error *braid_job_give_back(braid_job *job);
/* braid::Job::mark() and passedMarks(). */
BRAID_EXPORT int64_t braid_job_mark(braid_job *job);
BRAID_EXPORT int64_t braid_job_passed_marks(const braid_job *job);

/* -- Sessions. -- */

/* `measures`: braid::PrepareOptions::measures, 1 or 0. */
BRAID_EXPORT braid_error *braid_session_prepare(braid_job *job, const braid_program *program,
                                                int32_t measures, braid_session **session);
BRAID_EXPORT void braid_session_free(braid_session *session);
BRAID_EXPORT int64_t braid_session_runs(const braid_session *session);
/* braid::SessionUsage. */
BRAID_EXPORT void braid_session_usage(const braid_session *session, int64_t *bytes, int64_t *most,
                                      int32_t *is_in_graph);
/* Issues one run. `tensors` has `count` entries: the inputs, then the outputs, of each rank of this
 * process in turn. */
BRAID_EXPORT braid_error *braid_session_run(braid_session *session, const braid_tensor *tensors,
                                            size_t count, void *stream);
/* Issues one run by the addresses of these tensors, on the only rank of this process. */
BRAID_EXPORT braid_error *braid_session_run_at(braid_session *session, void *const *addresses,
                                               size_t count, void *stream);
BRAID_EXPORT braid_error *braid_session_capture(braid_session *session, const braid_tensor *tensors,
                                                size_t count);
BRAID_EXPORT braid_error *braid_session_replay(braid_session *session, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* BRAID_API_C_H */
