#!/bin/bash
# run.sh - runs one unit test; what it prints appears when it ends, so that several can run at a time.
#
# usage: tests/unit/run.sh build/release/tests/test_NAME
# glibc fills freed memory, so that reading it is noticed; of the compiler of OpenCL it would fill gigabytes.
[[ $1 == */test_kernels_@(opencl|strict) ]] || export MALLOC_PERTURB_=165
output=$("$1" 2>&1)
code=$?
exec 9>"${1%/*}/.printing" && flock 9
printf '== %s\n%s\n' "$1" "$output"
[ $code = 0 ] || echo "failed: $1"
exit $code
