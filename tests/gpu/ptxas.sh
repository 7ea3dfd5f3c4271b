#!/bin/bash
# ptxas.sh - what each of our kernels takes on each architecture, and that nothing is spilled.
#
# usage: tests/gpu/ptxas.sh LOG...     (LOG: what the assembler printed with -v)
# Prints one line a kernel: registers by architecture, and how many warps of it a multiprocessor of sm_90 holds by its
# registers (of 64, in blocks of 256 threads; those of dense are larger). Exits 1 for a spill, a stack frame, a log that names no kernel, or more than
# 96 registers (two blocks of 256); `active` has at most 64 (four blocks: it waits for memory; on sm_120, which holds 48 warps,
# 80: three), dense 255 (one of 256 threads),
# densewide 128 (one of 512), which on sm_90a are exact: wm_gpu_wide.cuh hands them on. Fails, too, where the assembler reports
# that it does not let products of warpgroups overlap.
awk '
/Compiling entry function/ {
    match ($0, /wm_gpu_[a-z0-9_]+_kernel/); kernel = substr ($0, RSTART, RLENGTH)
    match ($0, /sm_[0-9a-z]+/); arch = substr ($0, RSTART, RLENGTH)
}
/bytes stack frame/ {
    line = $0; gsub (/[^0-9 ]/, "", line); split (line, n_bytes)
    if (n_bytes[1] + n_bytes[2] + n_bytes[3] > 0) { print kernel " on " arch " spills: " $0; bad = 1 }
}
/Potential Performance Loss/ { print; bad = 1 }
/Used [0-9]+ registers/ {
    match ($0, /Used [0-9]+/); n = substr ($0, RSTART + 5, RLENGTH - 5) + 0
    if (kernel ~ /_densewide/ && arch == "sm_90a" && n != 128) { print kernel " on " arch " takes " n " registers, not 128"; bad = 1 }
    if (n > (kernel ~ /_dense/ ? 255 : kernel ~ /_active_/ ? (arch ~ /^sm_120/ ? 80 : 64) : 96)) { print kernel " on " arch " takes " n " registers"; bad = 1 }
    used[kernel] = used[kernel] " " arch ":" n; seen++
    blocks = int (65536 / (int ((n + 7) / 8) * 8 * 256))
    if (arch ~ /^sm_90/) warps[kernel] = ", " (blocks > 8 ? 8 : blocks) * 8 " warps"
}
END {
    for (k in used) print "  " k used[k] warps[k]
    if (!seen) { print "no kernel in the log"; bad = 1 }
    exit bad
}' "$@"
