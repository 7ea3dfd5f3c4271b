#!/bin/bash
# gpucheck.t - gpu_check.sh on machines of every kind, made of stand-ins for the programs it calls.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh

machine=$work/machine
mkdir -p "$machine"
PATH=$machine:$PATH
export PYTHON=$machine/python3 WM_CUDA_LIBS= WM_REPORT=$work/RESULTS.md WM_BIN=/nowhere
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
    bench) '$bench' ;; properties) echo "{\"deviceVer\": 900}" ;; ceilings) echo "| memory | 4300 GB/s |" ;; esac'

make gpu_check 'echo "# no NVIDIA driver, or one too old for CUDA 13.0"; exit 1'
make python3 'exit 1'
bare ()
{
    report 1 && says 'No GPU that this program can use' && says ': /dev has (none|one)' && says 'Nothing was measured'
}
ok "a machine without a GPU" bare
make nvidia-smi 'echo "GPU 0: Tesla T4"'
old () { report 1 && says "its driver is too old \(CUDA 13 needs 580"; }
ok "an old driver" old
make nvidia-smi 'exit 9'
make gpu_check 'echo "# libcudnn.so.9 is not here: install"; exit 1'
libraries ()
{
    report 1 && says 'libraries are missing' && says 'python3 -m pip install nvidia-cudnn-cu13 nvidia-cublas'
}
ok "no cuDNN" libraries
make gpu_check 'echo "version GLIBC_2.34 not found"; exit 126'
alien () { report 1 && says 'the program ended with 126'; }
ok "a program that does not run there" alien

make gpu_check "$good"
make nvidia-smi 'echo "0, NVIDIA H200"'
plain ()
{
    report 0 && says 'NVIDIA H200' && says '1 passed, 0 failed' && says 'has no torch' &&
        says 'Left out: broker, worker' && says deviceVer && says 'All passed'
}
ok "a GPU, Python without torch" plain
make compute-sanitizer 'case "$*" in *--help*) echo --kernel-name ;; *racecheck*) echo "========= Race"; exit 9 ;;
    *initcheck*kernel*) exit 1 ;; *synccheck*) echo "Error: Device not supported"; exit 255 ;; *memcheck*--kernel-name\ kns=wm_gpu*) exit 0 ;; *initcheck*) exit 0 ;; *) exit 1 ;; esac'
sanitizer ()
{
    report 1 && says 'memcheck: clean' && says 'racecheck: FAULTS' && says '==== Race' &&
        says 'synccheck: did not run here' && says 'Device not supported' && says 'initcheck: clean' && says FAILED
}
ok "compute-sanitizer finds something" sanitizer
make compute-sanitizer 'case "$*" in *--help*) ;; *initcheck*) exit 0 ;; *--kernel-regex\ kns=wm_gpu*) exit 0 ;; *) exit 1 ;; esac'
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
crash () { report 1 && says '0 passed' && says '^\| v1 \| fp16' && says deviceVer && says FAILED; }
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
    replay 0 && says '1 workers on the GPU: [0-9.]* million hits/s' && says '3 workers' &&
        says '[0-9]+ % of the engine alone \(v3, steady: 0.01'
}
ok "the whole pipeline on batches from memory" whole
rm "$work/wm_cuda.so"
none () { replay 1 && says 'the engine cuda cannot run here|nothing is done' && says deviceVer; }
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
