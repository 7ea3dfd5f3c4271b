#!/bin/bash
# auto.t - a worker of --engine auto takes a GPU by rule and reports it, or the CPU where the GPU fails; both share a campaign.
#
# Drivers are made up (tests/unit/fake_driver.h); the GPU is the stand-in, or an engine that the tests compile.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
standin=$PWD/${WM_BUILD:-build/release}/tests/wm_cuda_standin.so object=$PWD/${WM_BUILD:-build/release}/lib/wm_cuda.so
mkdir "$work/driver" "$work/none" && fake_driver "$work/driver" && touch "$work/none/libcuda.so.1" || bail "no compiler"
# shellcheck disable=SC2086 # CC may be two words
engine () { ${CC:-gcc} -shared -fPIC -I. -D_GNU_SOURCE -x c "$1" -o "$2"; }
engine tests/unit/fake_cuda.h "$work/fake.so" || bail "no compiler"
echo '__attribute__ ((constructor)) static void die (void) { __builtin_trap (); }' >"$work/dies.c"
engine "$work/dies.c" "$work/dies.so" || bail "no compiler"
make_model "${small}1" && make_events auto --events 2 --seed 3 --hits 300 --tpcs 1 || bail "no model or events"

campaign () # folder, options...: a campaign by a worker that has the driver
{
    local out=$work/$1
    shift
    LD_LIBRARY_PATH=${driver-$work/driver} keep "$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" \
        --workers 1 --input "$made/auto.h5" --output "$out" "$@"
}
logs () { cat "$work/$1"$beside/log/worker-*.log >"$work/said" && says "$2"; }
by () { campaign "${@:4}" && logs "$4" "$1" && says "engine $2/" && { [ -z "$3" ] || ! says "$3"; }; }

export WM_CUDA_SO=$work/fake.so WM_FAKE_DRIVER=12040,1,0
ok "auto takes the GPU, in one line" by 'takes the GPU: cuda/fake/fp16/v0 passed its self-test \(--device cpu declines it\)' \
    cuda 'does not take' gpu --precision fast
ok "... that is right" "$bin/wiremill" verify "$work/gpu"
ok "--device cpu declines it" by 'self-test is passed' sparse 'the GPU' cpu --device cpu
ok "--engine sparse has no GPU" by 'self-test is passed' sparse 'the GPU' named --engine sparse
wrong='does not take the GPU, the CPU scores: a canary died: output 0 of hit'
WM_FAKE_CUDA=1 ok "a GPU that computes wrongly is not taken" by "$wrong" sparse '' wrong
ok "... the CPU's scores are those without it" same_scores auto "$work/cpu" "$work/wrong"
WM_CUDA_SO=$work/dies.so ok "one that kills its process is not" by 'does not take the GPU by CUDA: it died by signal' sparse '' dies
WM_CUDA_SO=$work/nothing.so ok "nor one without an engine" by 'does not take the GPU, the CPU scores: the cuda engine cannot be opened' sparse '' nothing
driver=/proc/nowhere
if ! ldconfig -p | grep -q libcuda.so.1; then
    ok "a machine without a driver has nothing to tell" by 'self-test is passed' sparse 'GPU' plain
fi
driver=$work/none
ok "a driver that cannot be opened is named" by 'the CPU scores: the NVIDIA driver cannot be opened: .*libcuda.so.1' sparse 'takes the GPU' unreadable
driver=$work/driver
WM_FAKE_DRIVER=12040,0,100 CUDA_VISIBLE_DEVICES='' ok "GPUs that are hidden are not tried" by 'self-test is passed' sparse 'GPU' hidden
WM_FAKE_DRIVER=11080,1,0 ok "an old driver is named" \
    by 'the CPU scores: the NVIDIA driver is too old: it is for CUDA 11.8, needed is CUDA 12.0 \(driver 525 or newer' sparse '' old
if [ -e "$object" ]; then
    export WM_CUDA_SO=$object
    refused_as () # setting, text
    {
        WM_FAKE_DRIVER=$1 campaign refused --engine cuda
        local code=$?
        drop "$work/refused"
        [ $code != 0 ] && says "cannot run here: the cuda engine cannot start: the NVIDIA driver $2"
    }
    ok "--engine cuda: an old driver" refused_as 11080,1,0 'is too old'
    CUDA_VISIBLE_DEVICES='' ok "--engine cuda: GPUs that are hidden" refused_as 12040,0,100 "shows no GPU: CUDA_VISIBLE_DEVICES is ''"
    ok "--engine cuda: a driver that does not start" refused_as 12040,1,999 'does not start \(error 999\)'
else
    skip "there is no wm_cuda.so"
fi
[ -z "$WM_QUICK" ] || done_testing

# Workers: two where a GPU is likely, else by cores.
export WM_CUDA_SO=$work/fake.so
mkdir "$work/dev" && touch "$work/dev/nvidia0"
crew () { LD_LIBRARY_PATH=$work/driver WM_DEV=$1 WM_THREADS=8 keep "$bin/wiremill" run --precision fast --model "$made/model-${small}1.wmm" \
    --input "$made/auto.h5" --output "$work/crew" "${@:3}"; local code=$?; drop "$work/crew"; [ $code = 0 ] && says ", $2 workers? x"; }
cores=$(nproc) && ((cores < 8)) || cores=8
two=2 && ((cores > 1)) || two=1
ok "two workers for a GPU" crew "$work/dev" $two
ok "workers by cores without one" crew "$work/none" $(((cores + 3) / 4))
ok "... and with one that is declined" crew "$work/dev" $(((cores + 3) / 4)) --device cpu

# A CPU and a GPU share one campaign, each row names its own.
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --precision fast --output "$work/both" --batch-hits 64 \
        --listen "ipc://$work/b" >"$work/broker" 2>&1 &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$work/both$beside/endpoint.json" || bail "no broker"
produce () { "$bin/wiremill" produce --broker "ipc://$work/b" --input "$1"; }
worker () { LD_LIBRARY_PATH=$work/driver "$bin/wiremill" work --idle-timeout 2 --broker "ipc://$work/b" --cache "$work/cache" "$@"; }
make_events auto2 --events 1 --seed 4 --hits 300 --tpcs 1 || bail "no events"
one () { produce "$1" & worker "${@:2}" && wait $!; }
ok "a GPU scores an input" one "$made/auto.h5"
ok "a CPU scores the next one of the same campaign" one "$made/auto2.h5" --device cpu
kill $broker
wait $broker
both ()
{
    keep "$bin/wiremill" status --json --campaign "$work/both" && says cuda/fake/fp16/v0 && says sparse/
}
ok "its status has both signatures" both
ok "verify accepts both" "$bin/wiremill" verify "$work/both"

# All of the engine, on the stand-in, in every precision.
python=build/venv/bin/python
[ -x $python ] || { skip "no build/venv"; done_testing; }
export WM_CUDA_SO=$standin
echo 'patch: [8, 8]' >"$work/spec.yaml"
make_events gpurun --events 2 --seed 3 --hits 80 --tpcs 1 &&
    $python tests/golden/golden.py few "$made/gpurun.h5" "$work/gpurun.h5" "$(size 24 4 2)" || bail "no events"
"$bin/wiremill" model new emtrkmichel --seed 1 --wire 8 --bin 8 -o "$work/m.onnx" >&2 || bail "no model"
whole ()
{
    local signature=cuda/Stand-In
    [ "$1" != fp32 ] || signature=sparse/fma/fp32/v1 # the CPU's, as are its bits
    LD_LIBRARY_PATH=$work/driver keep "$bin/wiremill" run --quiet --model "$work/m.onnx" --spec "$work/spec.yaml" \
        --precision "$1" --batch-hits 8 --workers 1 --input "$work/gpurun.h5" --output "$work/$1" &&
        logs "$1" "takes the GPU: $signature" && "$bin/wiremill" verify "$work/$1"
}
for precision in fp32 split fast; do ok "auto takes the stand-in in $precision" whole $precision; done
done_testing
