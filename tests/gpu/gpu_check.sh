#!/bin/bash
# gpu_check.sh - everything that needs a GPU, in one go: tests, benchmark, pipeline, PyTorch, sanitizer.
#
# usage: gpu_check.sh [PROGRAM]    (PROGRAM: gpu_check, else beside this script)
# Prints Markdown as it goes, complete enough to decide by it alone, and keeps it as RESULTS.md beside
# this script (WM_REPORT=file: there); a run that is cut short leaves what it had. Ends within 8 minutes
# (WM_SECONDS=465): parts that time is too short for are listed as skipped, and where even a kill does not help,
# as with a driver that never returns, the rest is skipped soon after. Parts do not depend on each other. Exits 1 if
# one failed; without a GPU that is so, too. cuDNN 9 comes from the machine: WM_CUDA_LIBS, the
# loader's path, /usr/local/cuda, the `nvidia` packages of a Python; what needs none is measured without it. PYTHON picks the Python that may
# have torch. The pipeline's programs are in WM_BIN, else in bin/ beside this script.
set -o pipefail
export WM_SECONDS=${WM_SECONDS:-465}
if [ -z "$WM_BOUNDED" ]; then
    WM_BOUNDED=1 exec timeout --foreground -k 2 $((WM_SECONDS * 41 / 40 + 1)) "$BASH" "$0" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
program=${1:-$here/gpu_check}
bin=${WM_BIN:-$here/bin}
python=${PYTHON:-$(command -v python3 || command -v python || echo python3)}
folder=$(mktemp -d)
trap 'case $BASHPID in $$) rm -rf "$folder" ;; esac' EXIT # bash runs it also in a child that a signal ends at once
failed=0
export WM_REQUIRE_GPU=1

section () { printf '\n## %s\n\n' "$*"; }
indent () { sed -u 's/^/    /'; }
smi () { timeout 20 nvidia-smi "$@"; } # a sick GPU may keep it for ever
left () { echo $((WM_SECONDS - SECONDS)); }

# Runs a command for so many seconds at most, fewer where fewer are left; reports when it was cut off.
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

# A Python's own folders of NVIDIA's libraries, behind WM_CUDA_LIBS.
python_libraries=$(timeout 20 "$python" -c '
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
        smi --query-gpu=index,name,uuid,driver_version,memory.total,memory.used,temperature.gpu --format=csv,noheader
        smi --query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,persistence_mode --format=csv
        smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,mig.mode.current,ecc.mode.current --format=csv
        smi --query-compute-apps=pid,used_memory --format=csv # others at work spoil the times
    else
        echo "no nvidia-smi here"
    fi 2>&1
    local found
    found=$(cd /dev && ls -d nvidia* 2>/dev/null | tr '\n' ' ')
    echo "/dev: ${found:-no nvidia*}"
    found=$( (nvcc --version || /usr/local/cuda/bin/nvcc --version) 2>/dev/null | sed -n 's/.*release/release/p')
    echo "nvcc: ${found:-none, and none is needed}"
    echo "python: $python $("$python" -V 2>&1)"
    echo "WM_CUDA_LIBS: ${WM_CUDA_LIBS:-none}"
}

report ()
{
    printf '# GPU check of %s%s\n\n' "$(date -u +%Y-%m-%dT%H:%MZ)" "$(cat "$here/version" 2>/dev/null)"
    machine | indent
    device || return 1
    if [ -r "$here/ptxas" ]; then
        printf '\nRegisters of our kernels, by architecture (nothing spills):\n\n'
        indent <"$here/ptxas"
    fi
    section 'compute-sanitizer, early: memory'
    sanitize 60 memcheck
    run_tests
    section Ceilings
    within 25 "$program" ceilings || failed=1
    section Benchmark
    within 170 "$program" bench | tee "$folder/bench" || failed=1
    section 'Whole pipeline'
    pipeline || failed=1
    section 'wiremill bench'
    own_bench || failed=1
    section 'PyTorch, side by side'
    torch
    section 'Other networks, side by side'
    networks
    section 'Nsight Compute: Dense-1'
    profile
    section 'compute-sanitizer: races, barriers, memory never written'
    sanitize 60 racecheck synccheck initcheck
    printf '\n%s after %d s.\n' "$( ((failed)) && echo FAILED || echo All passed)" $SECONDS
    return $failed
}

# Whether there is a GPU that the program can use; if not, why.
device ()
{
    local code
    within 60 "$program" device >"$folder/device" 2>&1
    code=$?
    echo
    indent <"$folder/device"
    ((code != 0)) || return 0
    ((code == 1 || code == 2)) || { printf '\nNothing was measured: the program ended with %d.\n' $code; return 1; }
    printf '\nNo GPU that this program can use'
    if grep -q 'shows no GPU\|is no NVIDIA driver\|there is no NVIDIA driver' "$folder/device"; then
        if command -v nvidia-smi >/dev/null && smi -L >/dev/null 2>&1; then
            printf ': nvidia-smi sees one (is CUDA_VISIBLE_DEVICES set? In a container: is libcuda.so.1 passed in?)'
        elif ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
            printf ': /dev has one, so its driver does not answer (in a container: is it passed in?)'
        else
            printf ': /dev has none (in a container: it must be passed in, as by docker run --gpus all)'
        fi
    fi
    printf '. Nothing was measured.\n'
    return 1
}

run_tests ()
{
    section Tests
    within 150 "$program" test 2>&1 | tee "$folder/tests" | indent || failed=1
    echo
    echo "$(grep -c '^ok ' "$folder/tests") passed, $(grep -c '^not ok ' "$folder/tests") failed."
}

# The largest number of million hits/s that a row of an engine in fp16 has: "v4 12.34".
fastest ()
{
    awk -F '|' '/^\| *v[0-9]+ *\| *fp16/ && $5 + 0 > ours { ours = $5 + 0; row = $2; gsub (/ /, "", row) }
        END { if (ours) print row, ours }' "$folder/bench"
}

# Prints what part of a CPU each thread took in the next seconds, and what the GPU did.
usage () # seconds, pids..., the last one's children too
{
    local pid task now before seconds=$1
    local -A was
    shift
    for ((now = 0; now < 2; now++)); do
        for pid in "$@" $(cat /proc/"${*: -1}"/task/*/children 2>/dev/null); do
            for task in /proc/"$pid"/task/*; do
                read -r -a stat < <(sed 's/.*) //' "$task/stat" 2>/dev/null) || continue
                before=${was[$task]:-none}
                was[$task]=$((stat[11] + stat[12])) # in 1/100 s
                ((now)) && [ "$before" != none ] && (((was[$task] - before) / seconds >= 1)) &&
                    printf '%s %d %%, ' "$(cat "$task/comm")" $(((was[$task] - before) / seconds))
            done
        done
        ((now)) || sleep "$seconds"
    done
    smi --query-gpu=utilization.gpu,power.draw --format=csv,noheader 2>/dev/null | tr '\n' ' '
}

# A real broker and real workers on the GPU; batches come encoded from memory. One line a crew, one of what was busy.
campaign () # workers
{
    local home=$folder/crew$1 pids=() limit code measured=${WM_PIPELINE_S:-12}
    limit=$(($(left) < 60 ? $(left) : 60))
    ((limit > 0)) || { printf '\nNo time was left for this.\n'; return 124; }
    mkdir "$home"
    timeout -k 5 $limit "$here/gpu_pipeline" "ipc://$home/b" $measured \
            "${WM_PIPELINE_HITS:-55000}" >"$home/rate" 2>"$home/why" &
    pids+=($!)
    "$bin/wiremill" broker --model "$folder/m.onnx" --precision fast --output "$home" \
            --listen "ipc://$home/b" >"$home/log" 2>&1 &
    pids+=($!)
    for ((w = 0; w < $1; w++)); do
        "$bin/wiremill-worker" --broker "ipc://$home/b" --engine cuda --cache "$folder/cache" \
                --give-up 30 >>"$home/log" 2>&1 &
        pids+=($!)
    done
    # In the midst of the measurement.
    (sleep $((measured * 2 / 3)) && usage $(((measured + 2) / 3)) "${pids[@]}") >"$home/usage" 2>/dev/null &
    wait -n "${pids[@]}" # the first that ends; normally the one that measured
    code=$?
    kill -0 "${pids[0]}" 2>/dev/null && code=1
    kill "${pids[0]}" 2>/dev/null
    kill -KILL "${pids[@]:1}" 2>/dev/null # their work is no longer wanted
    for ((w = 0; w < 50; w++)); do # no `wait`: a sick driver may keep one of them for ever
        [ -n "$(jobs -rp)" ] || break
        sleep 0.1
    done
    echo "- $1 workers on the GPU: $(cat "$home/rate" "$home/why")"
    [ ! -s "$home/usage" ] || echo "  Busy (of a CPU each): $(cat "$home/usage")"
    ((code == 0)) || { echo; tail -8 "$home/log" | indent; echo; }
    cat "$home/rate" >>"$folder/pipeline"
    rm -rf "$home" "$home.wiremill"
    return $code
}

pipeline ()
{
    local fine=0
    if ! [ -x "$here/gpu_pipeline" ] || ! [ -x "$bin/wiremill-worker" ]; then
        echo "Left out: broker, worker and gpu_pipeline were not built here (make gpu-bundle has them where ZeroMQ is)."
        return 0
    fi
    [ ! -d "$here/lib" ] || local -x LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    if ! "$bin/wiremill" model new emtrkmichel --seed 1 -o "$folder/m.onnx" >"$folder/log" 2>&1; then
        echo "Left out: the programs do not run here:"
        echo
        tail -3 "$folder/log" | indent
        return 0
    fi
    echo "Producers replaying batches encoded in memory, broker, workers, ledger and journal; no file is read."
    echo
    : >"$folder/pipeline"
    for crew in 1 3; do campaign $crew || fine=1; done
    read -r row ours <<<"$(fastest)"
    sort -rn "$folder/pipeline" | awk -v row="$row" -v ours="$ours" 'NR == 1 && ours && $1 + 0 > 0 {
        printf "\n%.0f %% of the engine alone (%s, steady: %.2f million hits/s). Wanted: 70.\n", 100 * $1 / ours, row, ours }'
    return $fine
}

torch ()
{
    local seconds
    if ! within 60 "$python" -c 'import torch, numpy' 2>"$folder/log"; then
        echo "$python has no torch with numpy: $(tail -1 "$folder/log")"
        return
    fi
    if ! within 60 "$program" dump "$folder"; then
        echo "Our side failed: see above."
        failed=1
        return
    fi
    seconds=$(($(left) - 75))
    within $((seconds < 130 ? seconds : 130)) "$python" -u "$here/gpu_torch.py" "$folder" \
        $((seconds < 100 ? seconds : 90)) \
        2>"$folder/log" | tee "$folder/torch" ||
        { echo "PyTorch's side failed ($?):"; echo; tail -5 "$folder/log" | indent; echo; }
    read -r row ours <<<"$(fastest)"
    awk -v row="$row" -v ours="$ours" '/^Fastest: / { theirs = $2 + 0 }
        END { if (ours && theirs) printf "\nOurs, the whole way from decoded batches to scores in host memory: %s at %.2f million hits/s, %.1f times the fastest PyTorch (which has its patches on the device). Wanted: 3.\n", row, ours, ours / theirs
            else print "\nNo ratio: one side has no number." }' "$folder/torch"
}

# Networks outside the family, by the engine for any CNN and by what this Python has.
networks ()
{
    local code
    if ! [ -x "$here/gpu_networks" ]; then
        echo "Left out: gpu_networks was not built here."
        return
    fi
    within 100 "$python" -u "$here/gpu_networks.py" "$here/gpu_networks" 85 2>"$folder/log"
    code=$?
    ((code == 0)) || { printf '\nIt ended with %d:\n\n' $code; tail -5 "$folder/log" | indent; }
}

# The worker's own measurement, as users start it.
own_bench ()
{
    local code
    if ! [ -x "$bin/wiremill-producer" ] || ! [ -s "$folder/m.onnx" ]; then
        echo "Left out: the programs were not built here, or do not run here."
        return 0
    fi
    [ ! -d "$here/lib" ] || local -x LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    within 60 "$bin/wiremill" bench engine --quiet --model "$folder/m.onnx" --engine cuda --precision fp32,split,fast \
        --batch 16384 --threads 1 --seconds 1 --events 1 --hits "${WM_PIPELINE_HITS:-55000}" --judged 200 --folder "$folder" 2>"$folder/log"
    code=$?
    ((code == 0)) || { echo; tail -5 "$folder/log" | indent; }
    return $code
}

# What bounds Dense-1, by the hardware's counters; needs the right to read them.
profile ()
{
    local ncu code
    ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | head -1)
    [ -n "$ncu" ] || { echo "Not on this machine."; return; }
    mkdir -p "$folder/ncu"
    # The first launch is the checksum's calibration, the second is full. The GPU's clocks are left alone.
    within 60 "$ncu" --kernel-name regex:wm_gpu_dense --launch-skip 1 --launch-count 1 --clock-control none \
        --section SpeedOfLight --section Occupancy --section MemoryWorkloadAnalysis --section WarpStateStats "$program" dump "$folder/ncu" >"$folder/log" 2>&1
    code=$?
    grep -vE '^==PROF==|^ *-+ *$|^$' "$folder/log" | head -60 | indent
    ((code == 0)) || printf '\nncu ended with %d (ERR_NVGPUCTRPERM: only root may read the counters here).\n' $code
}

sanitize () # seconds each, tools...
{
    local sanitizer help code options seconds=$1
    shift
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    [ -n "$sanitizer" ] || { echo "Not on this machine."; return; }
    help=$(within 10 "$sanitizer" --help 2>&1)
    for tool; do
        options=(--tool "$tool" --error-exitcode 9)
        case $help in # only our kernels
        *--kernel-name*) options+=(--kernel-name kns=wm_gpu) ;;
        *) options+=(--kernel-regex kns=wm_gpu) ;;
        esac
        options+=("$program" quick)
        case $tool in racecheck) options+=(own) ;; esac # under it cuDNN's own kernels fail (CUDA 13.0 on an H200)
        if [ "$tool" = initcheck ]; then # a library's kernels would be taken to write nothing; scores of no hit are copied
            options+=(own)
            case $help in *--check-api-memory-access*) options=(--check-api-memory-access no "${options[@]}") ;; esac
        fi
        within "$seconds" "$sanitizer" "${options[@]}" >"$folder/sanitizer" 2>&1
        code=$?
        case $code in
        0) echo "- $tool: clean" ;;
        9) echo "- $tool: FAULTS"; failed=1 ;;
        124 | 137) echo "- $tool: cut off" ;;
        *) echo "- $tool: did not run here, or a test failed under it ($code)" ;;
        esac
        ((code == 0)) || grep -E '=====|^not ok|[Ee]rror' "$folder/sanitizer" | head -12 | indent
    done
}

exec 3> >(exec tee "${WM_REPORT:-$here/RESULTS.md}") # not a pipe: what ends this process ends the report
tee=$!
report >&3 2>&1
code=$?
exec 3>&-
wait $tee
exit $code
