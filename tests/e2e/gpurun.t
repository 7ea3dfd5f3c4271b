#!/bin/bash
# gpurun.t - campaigns on the CUDA engine, all of it, with a stand-in in the GPU's place.
#
# Worker, engine process and engine are the product's; kernels run on the host, thread by thread.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_CUDA_SO=$PWD/${WM_BUILD:-build/release}/tests/wm_cuda_standin.so
echo 'patch: [8, 8]' >"$work/spec.yaml"
# The stand-in takes a quarter of a second a hit: `make test` scores each twelfth.
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_events gpurun --events 2 --seed 3 --hits 80 --tpcs 1 &&
    $python tests/golden/golden.py few "$made/gpurun.h5" "$work/gpurun.h5" "$(size 12 1 1)" || bail "no events"
"$bin/wiremill" model new emtrkmichel --seed 1 --wire 8 --bin 8 -o "$work/m.onnx" >&2 || bail "no model"
campaign () # folder, options...
{
    local out=$work/$1
    shift
    keep "$bin/wiremill" run --quiet --model "$work/m.onnx" --spec "$work/spec.yaml" --precision fast --engine "${engine:-cuda}" \
        --batch-hits $(size 2 8 8) --workers 1 --input "$work/gpurun.h5" --output "$out" "$@"
}
logs () { cat "$work/$1"$beside/log/worker-*.log >"$work/said" && says "$2"; }

ok "a campaign on the stand-in" campaign plain
ok "its engine has proved itself" logs plain 'engine cuda/Stand-In.*/v5w?/.*the self-test is passed'
by_cudnn () { local engine=cudnn; campaign cudnn; }
together ()
{
    logs plain 'in the engine, [0-9]+ engine calls' &&
        perl -0777 -ne 'exit !(/: (\d+) batches.* (\d+) engine calls/ && $2 * 2 <= $1)' "$work/said"
}
ok "its batches went together" together
ok "the reference agrees" "$bin/wiremill" verify "$work/plain"
ok "a campaign by cuDNN's steps" by_cudnn
ok "its engine has proved itself, too" logs cudnn 'engine cuda/Stand-In.*/any.*the self-test is passed'
ok "the reference agrees with it" "$bin/wiremill" verify "$work/cudnn"

# The order to fail comes once the engine has measured and proved itself, before it has batches. Whether the launch is of one
# batch or of several depends on how they arrive: of one in five orders it is of several.
proved_itself () { grep -q 'self-test is passed' "$work/$1$beside"/log/worker-*; }
fails_at () # launch
{
    WM_STANDIN_FAIL=$work/fail campaign "dies-$1" &
    local run=$!
    until_true 60 "$bin/wiremill" pause "$work/dies-$1" || return 1
    until_true 600 proved_itself "dies-$1" && echo "$1" >"$work/fail.new" && mv "$work/fail.new" "$work/fail"
    "$bin/wiremill" resume "$work/dies-$1" >/dev/null
    wait $run && [ ! -e "$work/fail" ] && same_scores gpurun "$work/plain" "$work/dies-$1"
}
dies ()
{
    local at
    for at in 4 3 5 2 6; do
        fails_at $at || return 1
        logs dies-$at 'together: the GPU failed, graph_run: cudaErrorLaunchFailure.*each goes alone' || continue
        says 'none of these batches kills'
        return
    done
    echo "no launch that failed was of several batches"
    return 1
}
ok "a GPU that fails once in batches together: each goes alone, and the bytes are the same" dies
done_testing
