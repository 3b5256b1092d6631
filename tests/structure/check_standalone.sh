#!/bin/sh
# check_standalone.sh PROGRAM: fails if it needs a shared library that minimal systems lack.
needed=$(ldd "$1") || exit 1
known='linux-vdso|libc\.|libm\.|libdl\.|librt\.|libpthread\.|/lib(64)?/ld-linux'
extra=$(echo "$needed" | grep -vE "^\s*($known)")
[ -z "$extra" ] && exit 0
echo "expected $1 to need the C library only, but it needs:" >&2
echo "$extra" >&2
exit 1
