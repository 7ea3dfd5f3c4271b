#!/bin/bash
# gpu_check.sh - everything that needs a GPU, in one go: tests, benchmark, PyTorch, compute-sanitizer.
#
# usage: gpu_check.sh [PROGRAM]    (PROGRAM: gpu_check, else beside this script)
# Prints Markdown, for tests/gpu/RESULTS.md, complete enough to decide by it alone; ends within 8
# minutes (WM_SECONDS=480): what finds no time any more says so. Exits 1 if a test failed; without a
# GPU that is so, too. cuDNN 9 and cuBLAS come from the machine: WM_CUDA_LIBS, the loader's path,
# /usr/local/cuda, the `nvidia` packages of a Python. PYTHON picks the Python that may have torch.
here=$(cd "$(dirname "$0")" && pwd)
program=${1:-$here/gpu_check}
python=${PYTHON:-$(command -v python3 || command -v python || echo python3)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
export WM_REQUIRE_GPU=1

section () { printf '\n## %s\n\n' "$*"; }
indent () { sed 's/^/    /'; }
left () { echo $((${WM_SECONDS:-480} - SECONDS)); }

# Runs a command for so many seconds at most, fewer where fewer are left; says when it was cut off.
within () # seconds, command...
{
    local limit=$1 code
    shift
    (($(left) >= limit)) || limit=$(left)
    ((limit > 0)) || { printf '\nNo time was left for this.\n'; return 124; }
    timeout -k 5 "$limit" "$@"
    code=$?
    ((code != 124 && code != 137)) || printf '\nCut off after %d s.\n' "$limit"
    return $code
}

# A Python's own folders of NVIDIA's libraries, behind what was told.
python_libraries=$("$python" -c '
import glob, sys
print(":".join(d for p in sys.path for d in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null)
export WM_CUDA_LIBS=${WM_CUDA_LIBS:+$WM_CUDA_LIBS:}$python_libraries

machine ()
{
    uname -srm
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /'
    sed -n 's/^MemTotal: */memory /p' /proc/meminfo
    ldd --version 2>&1 | head -1
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total,memory.used,temperature.gpu --format=csv,noheader
        nvidia-smi --query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,persistence_mode --format=csv
        nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,mig.mode.current,ecc.mode.current --format=csv
        nvidia-smi --query-compute-apps=pid,used_memory --format=csv # others at work spoil the times
    else
        echo "no nvidia-smi here"
    fi 2>&1
    echo "/dev: $(cd /dev && ls -d nvidia* 2>/dev/null | tr '\n' ' ')"
    echo "nvcc: $( (nvcc --version || /usr/local/cuda/bin/nvcc --version) 2>/dev/null | sed -n 's/.*release/release/p')"
    echo "python: $python $("$python" -V 2>&1)"
    echo "libraries told: ${WM_CUDA_LIBS:-none}"
}

printf '# GPU check of %s%s\n\n' "$(date -u +%Y-%m-%dT%H:%MZ)" "$(cat "$here/version" 2>/dev/null)"
machine | indent
if [ -r "$here/ptxas" ]; then
    printf '\nRegisters of our kernels, by architecture (nothing spills):\n\n'
    indent <"$here/ptxas"
fi

section Tests
within 150 "$program" test >"$folder/tests" 2>&1
code=$?
indent <"$folder/tests"
((code == 0)) || failed=1
if ! grep -q '^ok ' "$folder/tests"; then
    case $(cat "$folder/tests") in
    *'no NVIDIA'* | *'No such device'*) printf '\nNo GPU that this program can use'
        if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
            printf ': nvidia-smi sees one, so its driver is too old (CUDA 13 needs 580 or newer)'
        elif ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
            printf ': /dev has one, so its driver does not answer (in a container: is it passed in?)'
        fi
        printf '. Nothing was measured.\n' ;;
    *libcudnn* | *libcublasLt*) printf '\nNVIDIA'\''s libraries are missing. Nothing was measured. Try\n\n    %s -m pip install nvidia-cudnn-cu13 nvidia-cublas\n' "$python" ;;
    *) printf '\nNothing was measured: the program ended with %d.\n' $code ;;
    esac
    exit 1
fi
echo
echo "$(grep -c '^ok ' "$folder/tests") passed, $(grep -c '^not ok ' "$folder/tests") failed."

section Ceilings
within 30 "$program" ceilings || failed=1

section Benchmark
within 200 "$program" bench >"$folder/bench" 2>&1 || failed=1
cat "$folder/bench"

section 'PyTorch, side by side'
if "$python" -c 'import torch, numpy' 2>"$folder/words"; then
    if within 60 "$program" dump "$folder"; then
        seconds=$(($(left) - 60))
        within $((seconds < 150 ? seconds : 150)) "$python" -u "$here/gpu_torch.py" "$folder" $((seconds < 120 ? seconds : 90)) \
            >"$folder/torch" 2>"$folder/words" || { echo "PyTorch's side failed ($?):"; echo; tail -5 "$folder/words" | indent; echo; }
        cat "$folder/torch"
        # Ours is the largest number of million hits/s that a row of an engine in fp16 has.
        awk -F '|' '/^\| *v[0-9]+ *\| *fp16/ && $5 + 0 > ours { ours = $5 + 0; row = $2; gsub (/ /, "", row) }
            /^Fastest: / { split ($0, word, " "); theirs = word[2] + 0 }
            END { if (ours && theirs) printf "\nOurs, the whole way from decoded batches to scores in host memory: %s at %.2f million hits/s, %.1f times the fastest PyTorch (which has its patches on the device). Wanted: 3.\n", row, ours, ours / theirs
                else print "\nNo ratio: one side has no number." }' "$folder/bench" "$folder/torch"
    else
        echo "Our side failed: see above."
        failed=1
    fi
else
    echo "$python has no torch with numpy: $(tail -1 "$folder/words")"
fi

section compute-sanitizer
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
# Only our kernels, but for initcheck, which has to see what the libraries' kernels write.
ours=kernel-name
[ -z "$sanitizer" ] || "$sanitizer" --help 2>/dev/null | grep -q -e "--$ours" || ours=kernel-regex
for tool in memcheck racecheck synccheck initcheck; do
    [ -n "$sanitizer" ] || { echo "Not on this machine."; break; }
    only=("--$ours" kns=wm_gpu)
    [ $tool != initcheck ] || only=()
    within 60 "$sanitizer" --tool $tool "${only[@]}" --error-exitcode 9 "$program" quick >"$folder/sanitizer" 2>&1
    code=$?
    case $code in
    0) echo "- $tool: clean" ;;
    9) echo "- $tool: FAULTS"; failed=1 ;;
    124 | 137) echo "- $tool: cut off" ;;
    *) echo "- $tool: did not run here, or a test failed under it ($code)" ;;
    esac
    ((code == 0)) || grep -E '=====|^not ok|[Ee]rror' "$folder/sanitizer" | head -12 | indent
done

section 'Device properties, as cuDNN writes them'
within 30 "$program" properties | indent
printf '\n%s after %d s.\n' "$( ((failed)) && echo FAILED || echo All passed)" $SECONDS
exit $failed
