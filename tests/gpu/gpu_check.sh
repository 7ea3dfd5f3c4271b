#!/bin/bash
# gpu_check.sh - everything that needs a GPU, in one go: tests, compute-sanitizer, benchmark, PyTorch.
#
# usage: gpu_check.sh [PROGRAM]    (PROGRAM: gpu_check, else beside this script)
# Prints Markdown, for tests/gpu/RESULTS.md. Exits 1 if a test failed; without a GPU that is so, too.
# cuDNN 9 and cuBLAS 13 come from the machine: WM_CUDA_LIBS, the loader's path, /usr/local/cuda, the
# `nvidia` packages of a Python. PYTHON picks the Python that may have torch.
here=$(cd "$(dirname "$0")" && pwd)
program=${1:-$here/gpu_check}
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
export WM_REQUIRE_GPU=1

section () { printf '\n## %s\n\n' "$*"; }

printf '# GPU check of %s\n\n' "$(date -u +%Y-%m-%dT%H:%MZ)"
{ command -v nvidia-smi >/dev/null || echo no nvidia-smi here; } | sed 's/^/    /'
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null | sed 's/^/    /'

section Tests
timeout 240 "$program" test >"$folder/tests" 2>&1 || failed=1
sed 's/^/    /' "$folder/tests"
if ((failed)) && grep -q 'a GPU that opens: no NVIDIA' "$folder/tests"; then
    printf '\nNo GPU: nothing was measured.\n'
    exit 1
fi

section compute-sanitizer
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck synccheck; do
        if timeout 120 "$sanitizer" --tool $tool --kernel-regex kns=wm_gpu --error-exitcode 9 "$program" quick \
            >"$folder/sanitizer" 2>&1; then
            echo "- $tool: clean"
        else
            echo "- $tool: exit $?"
            grep -E '=====|^not ok' "$folder/sanitizer" | head -20 | sed 's/^/    /'
            failed=1
        fi
    done
else
    echo "Not on this machine."
fi

section Benchmark
timeout 240 "$program" bench || failed=1

section 'PyTorch, side by side'
if "$python" -c 'import torch, numpy' 2>/dev/null; then
    timeout 60 "$program" dump "$folder" && timeout 180 "$python" "$here/gpu_torch.py" "$folder"
else
    echo "$python has no torch."
fi

section 'Device properties, as cuDNN writes them'
timeout 60 "$program" properties | sed 's/^/    /'
exit $failed
