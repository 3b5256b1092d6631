/*===- cmake/glibc_2_34.c - lets what is built here start where the C library is 2.34 ---------===//
 *
 * The static C++ library calls arc4random(), which the C library has since 2.36. Linked in, this
 * one takes its place.
 *
 *===----------------------------------------------------------------------------------------===*/
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0)
    abort();
  return value;
}
