/* tests/network/fake_pmix.c - a fake PMIx library, whose server is a folder.
 *
 * The folder FAKE_PMIX_FOLDER has a file for each key. FAKE_PMIX selects a fault: "no server",
 * "late" (calls return after their timeout), "number" (values are not strings), "endless" (strings
 * are not terminated), "lost" (the server has died). FAKE_PMIX_RANK is the rank. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
  char name_space[256];
  uint32_t rank;
};
struct value {
  uint16_t type;
  union {
    char *text;
    char room[24];
  } data;
};
struct info {
  char key[512];
  uint32_t flags;
  struct value value;
};

static int is(const char *fault) {
  const char *set = getenv("FAKE_PMIX");
  return set && strcmp(set, fault) == 0;
}

/* The returned buffer is thread-local. */
static const char *file_of(const char *key) {
  static _Thread_local char path[4096];
  char name[512];
  snprintf(name, sizeof name, "%s", key);
  for (char *c = name; *c; ++c)
    if (*c == '/')
      *c = '+';
  snprintf(path, sizeof path, "%s/%s", getenv("FAKE_PMIX_FOLDER"), name);
  return path;
}

int PMIx_Init(struct process *self, struct info *info, size_t count) {
  (void)info, (void)count;
  if (is("no server"))
    return -25;
  if (is("late"))
    sleep(5);
  strcpy(self->name_space, "fake");
  self->rank = (uint32_t)atoi(getenv("FAKE_PMIX_RANK"));
  return 0;
}

int PMIx_Finalize(const struct info *info, size_t count) {
  (void)info, (void)count;
  FILE *file = fopen(file_of("finalized"), "w");
  if (file)
    fclose(file);
  return 0;
}

int PMIx_Put(uint8_t scope, const char *key, struct value *value) {
  if (scope != 3 || value->type != 3)
    return -27;
  /* The file is renamed when complete, so that readers never see part of a value. */
  char part[4096 + 8];
  snprintf(part, sizeof part, "%s.part", file_of(key));
  FILE *file = fopen(part, "w");
  if (!file)
    return -1;
  fputs(value->data.text, file);
  return fclose(file) || rename(part, file_of(key)) ? -1 : 0;
}

int PMIx_Commit(void) { return is("lost") ? -25 : 0; }

int PMIx_Get(const struct process *owner, const char *key, const struct info *limit, size_t count,
             struct value **value) {
  if (is("lost"))
    return -25;
  if (strcmp(owner->name_space, "fake") != 0 || owner->rank != 0 || count != 1 ||
      strcmp(limit->key, "pmix.timeout") != 0 || limit->value.type != 6)
    return -27;
  FILE *file = fopen(file_of(key), "r");
  if (!file)
    return -46;
  char text[4096] = {0};
  if (is("endless"))
    memset(text, 'x', sizeof text - 1);
  else if (!fgets(text, sizeof text, file))
    text[0] = 0;
  fclose(file);
  *value = calloc(1, sizeof **value);
  (*value)->type = is("number") ? 6 : 3;
  if (!is("number"))
    (*value)->data.text = strdup(text);
  return 0;
}

const char *PMIx_Error_string(int code) { return code == -25 ? "UNREACHABLE" : "ERROR"; }
