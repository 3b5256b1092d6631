#!/bin/sh
# exits.sh N COMMAND...: runs the command and fails unless it exits with N.
expected=$1
shift
"$@"
got=$?
[ "$got" -eq "$expected" ] && exit 0
echo "expected exit status $expected, got $got from: $*" >&2
exit 1
