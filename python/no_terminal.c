/*===- python/no_terminal.c - the shared library asks no terminal for its colours -------------===//
 *
 * LLVM's support library asks terminfo whether a terminal has colours, which nothing here uses, and
 * the static terminfo of the distributions cannot be part of a shared library. These functions take
 * its place, and say that there is no terminal.
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
