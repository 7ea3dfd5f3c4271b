#!/bin/bash
# machines.t - one campaign on every engine of this machine that has strict fp32, by turns and together. Workers and engines are
# killed, and in `make proof` the broker, too. The output is that of one engine, byte for byte, signatures included.
#
# Engines: kernels of the CPU (--isa), OpenCL on pocl, CUDA on the stand-in for a GPU, NEON by an emulator (make arm64); those that
# are here.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
there=$PWD/build/arm64 root=$PWD/build/arm64-root python=build/venv/bin/python
export WM_CUDA_SO=$PWD/${WM_BUILD:-build/release}/tests/wm_cuda_standin.so POCL_CACHE_DIR=$work/pocl
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
mkdir "$POCL_CACHE_DIR"
echo 'patch: [8, 8]' >"$work/spec.yaml"
# The stand-in takes a fifth of a second a batch.
make_events gpurun --events 2 --seed 3 --hits 80 --tpcs 1 &&
    $python tests/golden/golden.py few "$made/gpurun.h5" "$work/machines.h5" "$(size 3 1 1)" || bail "no events"
"$bin/wiremill" model new emtrkmichel --seed 1 --wire 8 --bin 8 -o "$work/m.onnx" >&2 || bail "no model"

is_here () # engine
{
    case $1 in
    avx2) grep -qw avx2 /proc/cpuinfo ;;
    avx512) grep -qw avx512f /proc/cpuinfo ;;
    neon) [ -e "$root/.made" ] && [ -x "$there/bin/wiremill-worker" ] && has qemu-aarch64-static proot ;;
    opencl) [ -e /etc/OpenCL/vendors/pocl.icd ] ;;
    cuda) [ -e "$WM_CUDA_SO" ] ;;
    esac
}
worker () # engine: becomes its worker
{
    local program=("$bin/wiremill-worker") by=(--isa "$1")
    case $1 in
    neon) program=(proot -q "qemu-aarch64-static -L $root" "$there/bin/wiremill-worker") by=() ;;
    opencl | cuda) by=(--engine "$1") ;;
    esac
    exec "${program[@]}" --broker "$listen" --threads 1 --cache "$work/cache-$1" "${by[@]}"
}
engines=()
for engine in c avx2 avx512 neon opencl cuda; do
    if is_here $engine; then engines+=("$engine"); else echo "# no $engine here"; fi
done
campaign=(--model "$work/m.onnx" --spec "$work/spec.yaml" --batch-hits 2)
listen=ipc://$work/b
ok "a campaign of one engine" "$bin/wiremill" run --quiet "${campaign[@]}" --workers 1 --engine sparse --input "$work/machines.h5" \
    --output "$work/one"

broker () { "$bin/wiremill" broker "${campaign[@]}" --output "$work/all" --listen "$listen" >>"$work/broker" 2>&1 & broker=$!; }
is_up () { grep -q "\"pid\": *$broker\b" "$work/all$beside/endpoint.json"; }
sessions () { [ "$(cat "$work"/by-*.log | grep -c 'session with')" -ge ${#engines[@]} ]; }
wait_end () { wait "$1"; true; }
# Each alone, until it dies at its second result; then all together, whose engines die at their first batch.
together ()
{
    local engine pids=() code
    broker
    until_true 60 is_up || return 1
    "$bin/wiremill" produce --quiet --broker "$listen" --input "$work/machines.h5" >"$work/produce" 2>&1 &
    local producer=$!
    for engine in "${engines[@]}"; do
        WM_FAILPOINT=worker-result-sent:2:$work/$engine.died worker "$engine" >>"$work/died.log" 2>&1 &
        until_true 120 test -e "$work/$engine.died" && wait_end $! || return 1
    done
    "$bin/wiremill" pause "$work/all" || return 1
    for engine in "${engines[@]}"; do
        WM_FAILPOINT=engine-scored:1:$work/$engine.engine worker "$engine" >"$work/by-$engine.log" 2>&1 &
        pids+=($!)
    done
    until_true 300 sessions && "$bin/wiremill" resume "$work/all" || return 1
    if [ "$(size test proof soak)" != test ]; then
        until_true 120 ls "$work"/*.engine && kill -9 $broker && wait_end $broker
        broker
    fi
    wait $producer
    code=$?
    "$bin/wiremill" drain "$work/all" # proot keeps signals to itself
    wait "${pids[@]}"
    kill $broker
    wait $broker
    cat "$work/broker" "$work/produce" "$work"/*.log
    ls "$work"/*.engine && return $code
}
ok "one of ${engines[*]} by turns and together, which are killed" together
ok "the same bytes, of one signature" same_scores machines "$work/one" "$work/all"
done_testing
