#!/bin/sh
# check_format.sh: fails if clang-format 14 would change a source file. Other versions differ
# slightly, so the check is skipped without version 14.
for tool in clang-format-14 clang-format; do
  "$tool" --version 2>/dev/null | grep -q 'version 14\.' && break
  tool=
done
if [ -z "$tool" ]; then
  echo "skipped: clang-format 14 is not installed"
  exit 77
fi
find ir lowering runtime backends api tools examples tests \
  -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.def' | sort |
  xargs "$tool" --dry-run -Werror
