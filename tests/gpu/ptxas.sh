#!/bin/bash
# ptxas.sh - what each of our kernels takes on each architecture, and that nothing is spilled.
#
# usage: tests/gpu/ptxas.sh LOG     (LOG: what nvcc -Xptxas -v printed)
# Prints one line a kernel: registers by architecture. Exits 1 for a spill, a stack frame, more than
# 96 registers (a block of 256 must fit a multiprocessor twice; dense has one for itself: 255), or a
# log that names no kernel.
awk '
/Compiling entry function/ {
    match ($0, /[0-9]+wm_gpu_[a-z]+_kernel/); kernel = substr ($0, RSTART, RLENGTH); sub (/^[0-9]+/, "", kernel)
    match ($0, /sm_[0-9a-z]+/); arch = substr ($0, RSTART, RLENGTH)
}
/bytes stack frame/ {
    if ($1 + $5 + $9 > 0) { print kernel " on " arch " spills: " $0; bad = 1 }
}
/Used [0-9]+ registers/ {
    match ($0, /Used [0-9]+/); n = substr ($0, RSTART + 5, RLENGTH - 5) + 0
    if (n > (kernel ~ /_dense/ ? 255 : 96)) { print kernel " on " arch " takes " n " registers"; bad = 1 }
    used[kernel] = used[kernel] " " arch ":" n; seen++
}
END {
    for (k in used) print "  " k used[k]
    if (!seen) { print "no kernel in the log"; bad = 1 }
    exit bad
}' "$1"
