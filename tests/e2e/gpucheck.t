#!/bin/bash
# gpucheck.t - gpu_check.sh on machines of every kind, made of stand-ins for the programs it calls.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh

machine=$work/machine
mkdir -p "$machine"
PATH=$machine:$PATH
export PYTHON=$machine/python3 WM_CUDA_LIBS= WM_REPORT=$work/RESULTS.md WM_BIN=/proc/nowhere
make () # name, script: a program of the machine
{
    printf '#!/bin/bash\n%s\n' "$2" >"$machine/$1"
    chmod +x "$machine/$1"
}
report () # code: the output of the check, kept for `says`
{
    keep exits "$1" bash tests/gpu/gpu_check.sh "$machine/gpu_check"
}
bench='echo "| v1 | fp16 | 5.50 | 10.00 | 1e-4 | 800 | x |"; echo "| v1 | fp32 | 50 | 99.00 | x |"'
good='case $1 in device) echo "# NVIDIA H200" ;; test) echo "ok 1 - all"; echo 1..1 ;; quick) echo "ok 1 - all" ;;
    bench) '$bench' ;; ceilings) echo "| memory | 4300 GB/s |" ;; esac'

make gpu_check 'echo "# there is no NVIDIA driver (libcuda.so.1 is not found)"; exit 1'
make python3 'exit 1'
bare ()
{
    report 1 && says 'No GPU that this program can use' && says ': /dev has (none|one)' && says 'Nothing was measured'
}
ok "a machine without a GPU" bare
make gpu_check 'echo "# the NVIDIA driver shows no GPU"; exit 1'
make nvidia-smi 'echo "GPU 0: Tesla T4"'
hidden () { report 1 && says 'nvidia-smi sees one \(is CUDA_VISIBLE_DEVICES set'; }
ok "a GPU that is hidden" hidden
make gpu_check 'echo "# the NVIDIA driver is too old: it is for CUDA 11.8, needed is CUDA 12.0 (driver 525 or newer)"; exit 2'
old () { report 1 && says 'too old: it is for CUDA 11.8' && says 'can use. Nothing was measured'; }
ok "an old driver" old
make nvidia-smi 'exit 9'
make gpu_check 'echo "version GLIBC_2.34 not found"; exit 126'
alien () { report 1 && says 'the program ended with 126'; }
ok "a program that does not run there" alien

make gpu_check "$good"
make nvidia-smi 'echo "0, NVIDIA H200"'
plain ()
{
    report 0 && says 'NVIDIA H200' && says '1 passed, 0 failed' && says 'has no torch' &&
        says 'Left out: broker, worker' && says 'All passed'
}
ok "a GPU, Python without torch" plain
make ncu 'echo "==PROF== Connected"; case "$*" in *regex:wm_gpu_dense*skip\ 1\ *clock-control\ none*dump*) echo "  wm_gpu_dense_kernel (66, 1, 1)" ;; esac'
counters () { report 0 && says '^ +wm_gpu_dense_kernel \(66' && ! says '==PROF=='; }
ok "the hardware's counters" counters
make ncu 'echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1'
refused_counters () { report 0 && says 'ERR_NVGPUCTRPERM' && says 'ncu ended with 1' && says 'All passed'; }
ok "counters that may not be read" refused_counters
make ncu 'echo "==WARNING== No kernels were profiled."'
no_launches () { report 0 && says 'No kernels were profiled'; }
ok "counters of nothing" no_launches
rm "$machine/ncu"
# Its help is longer than a pipe holds.
make compute-sanitizer 'case "$*" in *--help*) echo --kernel-name; seq 30000; echo --check-api-memory-access ;;
    *racecheck*) echo "========= Race"; exit 9 ;; *synccheck*) echo "Error: Device not supported"; exit 255 ;;
    *memcheck*--kernel-name\ kns=wm_gpu*\ quick) exit 0 ;;
    *api-memory-access\ no*initcheck*--kernel-name\ kns=wm_gpu*\ quick\ own) exit 0 ;; *) exit 1 ;; esac'
early () { (($(grep -n 'memcheck: clean' "$work/said" | cut -d: -f1) < $(grep -n '^## Tests' "$work/said" | cut -d: -f1))); }
sanitizer ()
{
    report 1 && early && says 'memcheck: clean' && says 'racecheck: FAULTS' && says '==== Race' &&
        says 'synccheck: did not run here' && says 'Device not supported' && says 'initcheck: clean' && says FAILED
}
ok "compute-sanitizer finds something" sanitizer
make compute-sanitizer 'case "$*" in *--help*) ;; *api-memory*) exit 1 ;; *--kernel-regex\ kns=wm_gpu*) exit 0 ;; *) exit 1 ;; esac'
older () { report 0 && says 'memcheck: clean' && says 'initcheck: clean'; }
ok "an older compute-sanitizer" older
rm "$machine/compute-sanitizer"

make python3 'case "$1" in -c) exit 0 ;; -V) echo Python 3 ;; *) echo "Fastest: 2.000 million patches/s (eager)." ;; esac'
ratio () { report 0 && says ': v1 at 10.00 million hits/s, 5.0 times the fastest PyTorch'; }
ok "PyTorch beside it" ratio
make python3 'case "$1" in -c) exit 0 ;; -V) ;; *) echo "RuntimeError: no kernel image" >&2; exit 1 ;; esac'
torch () { report 0 && says "PyTorch's side failed \(1\)" && says 'no kernel image' && says 'No ratio'; }
ok "a PyTorch that fails" torch
make python3 'case "$1" in -c) exit 0 ;; -V) ;; *) exec sleep 60 ;; esac'
late () { local -x WM_SECONDS=62; report 0 && says 'No time was left for this|Cut off after' && says 'All passed'; }
ok "time is up" late

# What no time limit ends: the report has what there was before.
make python3 'exit 1'
make gpu_check "case \$1 in ceilings) for ((i = 0; i < 20; i++)); do sleep 1; done ;; esac; $good"
make timeout 'case "$*" in *ceilings*) for a; do shift; case $a in */gpu_check) exec "$a" "$@" ;; esac; done ;; *) exec /usr/bin/timeout "$@" ;; esac'
endless () { local -x WM_SECONDS=4; report 124 && says '1 passed, 0 failed' && says '## Ceilings'; }
ok "a part that cannot be ended" endless
rm "$machine/timeout"

make python3 'exit 1'
make gpu_check "case \$1 in test) echo 'ok 1 - a'; echo 'not ok 2 - b'; exit 1 ;; esac; $good"
broken () { report 1 && says '1 passed, 1 failed' && says 'FAILED'; }
ok "a test that fails" broken
make gpu_check "case \$1 in test) kill -SEGV \$\$ ;; ceilings) exit 9 ;; esac; $good"
crash () { report 1 && says '0 passed' && says '^\| v1 \| fp16' && says FAILED; }
ok "tests that crash do not cost the rest" crash
make gpu_check "case \$1 in bench) echo '| v3 | fp16 | 4.00 | 13.00 |'; exec sleep 60 ;; esac; $good"
cut_short ()
{
    local pid i
    setsid bash tests/gpu/gpu_check.sh "$machine/gpu_check" >"$work/report" 2>&1 &
    pid=$!
    for ((i = 0; i < 600; i++)); do grep -q '13.00' "$work/RESULTS.md" 2>/dev/null && break; sleep 0.1; done
    kill -KILL -- "-$pid"
    wait "$pid"
    grep -q '13.00' "$work/RESULTS.md"
}
rm -f "$work/RESULTS.md"
ok "a report that is cut short has what there was" cut_short

# The whole pipeline, with the sparse engine in the GPU's place.
make gpu_check "case \$1 in bench) echo '| v3 | fp16 | 4.00 | 0.01 |' ;; *) $good ;; esac"
cp tests/gpu/gpu_check.sh "$WM_BUILD/gpu/gpu_pipeline" "$machine"
${CC:-gcc} -shared -fPIC -I. -D_GNU_SOURCE -x c tests/unit/fake_cuda.h -o "$work/wm_cuda.so" || exit 1
replay ()
{
    WM_BIN=$bin WM_CUDA_SO=$work/wm_cuda.so WM_PIPELINE_S=2 WM_PIPELINE_HITS=300 keep exits "$1" bash \
            "$machine/gpu_check.sh"
}
whole ()
{
    replay 0 && says '1 workers on the GPU: [0-9.]* million hits/s' && says '3 workers' && says 'Busy .*wiremill-[a-z]+ [0-9]+ %' &&
        says '[0-9]+ % of the engine alone \(v3, steady: 0.01' && says 'cuda/fake/fp16/v0 +split'
}
ok "the whole pipeline on batches from memory" whole
# The program that times other networks, on the stand-in.
small ()
{
    keep "$WM_BUILD/tests/gpu_networks" "$work/m8.onnx" small 0 &&
        says '\| small \| ours, fp16, from host memory \| 64 \| [0-9]+ \| cuda/' && says 'ours, fp32'
}
"$bin/wiremill" model new emtrkmichel --seed 1 --wire 8 --bin 8 -o "$work/m8.onnx" >&2
ok "other networks are timed" small
counted ()
{
    keep "$WM_BUILD/tests/gpu_networks" counts "$work/m8.onnx" small && says '\| small \| fp32 \| all of ours \| [0-9]+ \| [0-9.]+' &&
        says '\| small \| fp16 \| pool|\| small \| fp16 \| copy'
}
ok "what our kernels read and write for a network" counted
unread () { exits 1 keep "$WM_BUILD/tests/gpu_networks" "$work/none.onnx" none 0 && says '\| none \| ours \| \| \| .*none.onnx'; }
ok "a network that cannot be read" unread
rm "$work/wm_cuda.so"
none () { replay 1 && says 'the engine cuda cannot run here|nothing is done'; }
ok "workers without an engine" none
made () { bash -c "$(sed -n '/^python_libraries=/,/^export/p' tests/gpu/gpu_check.sh); echo \$WM_CUDA_LIBS"; }
mkdir -p "$work/site/nvidia/cudnn/lib" "$work/site/nvidia/cu13/lib"
libs ()
{
    python=python3 PATH=${PATH#*:} PYTHONPATH=$work/site made |
        grep -q "$work/site/nvidia/cu13/lib:$work/site/nvidia/cudnn/lib"
}
ok "a Python's libraries are found" libs
done_testing
