#!/bin/sh
# clang_instead.sh LAUNCHER... CLANG -- COMPILER ARGUMENTS...
# CMake knows one C++ compiler. This stands before it where a target is for another one: it runs
# CLANG, behind launchers such as ccache, with the arguments that were for COMPILER.
command=
while [ "$1" != -- ]; do
  command="$command $1"
  shift
done
shift 2
exec $command "$@"
