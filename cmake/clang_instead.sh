#!/bin/sh
# clang_instead.sh LAUNCHER... CLANG -- COMPILER ARGUMENTS...
# CMake supports only one C++ compiler per project. This script is the launcher of targets that need
# another compiler: it runs CLANG, after launchers such as ccache, with COMPILER's arguments.
command=
while [ "$1" != -- ]; do
  command="$command $1"
  shift
done
shift 2
exec $command "$@"
