/*===- python/no_terminal.c - replaces terminfo in the shared library -------------------------===//
 *
 * LLVM's support library calls terminfo to find out whether a terminal supports colors, which Braid
 * does not need. The static terminfo library of Linux distributions cannot be linked into a shared
 * library, so these functions replace its functions, and report that there is no terminal.
 *
 *===----------------------------------------------------------------------------------------===*/
#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int setupterm(char *name, int file, int *status) {
  (void)name, (void)file;
  if (status)
    *status = -1;
  return -1;
}
HIDDEN int tigetnum(const char *capability) {
  (void)capability;
  return -1;
}
HIDDEN void *set_curterm(void *terminal) { return terminal; }
HIDDEN int del_curterm(void *terminal) {
  (void)terminal;
  return 0;
}
