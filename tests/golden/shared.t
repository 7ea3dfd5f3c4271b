#!/bin/bash
# shared.t - the real event and the harsh variants, compared with an independent NumPy reference.
cd "$(dirname "$0")/../.." || exit 1
bin=${WM_BUILD:-build/release}/bin python=build/venv/bin/python shared=../shared
[ -r $shared/data/golden/variants.npz ] || { echo "1..0 # SKIP no ../shared with golden data here"; exit 0; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
case ${WM_SIZE:-test} in soak) all=1 twin=1 ;; proof) all=1 twin=10 ;; *) all=50 twin=1000 ;; esac
event=pdhd_run27409_evt40896_apa1 twin_so=$(realpath "${WM_BUILD:-build/release}")/tests/wm_amx_twin.so

tests=0
check () # description, command...
{
    local what=$1
    shift
    tests=$((tests + 1))
    if "$@" >"$work/log" 2>&1; then
        echo "ok $tests - $what"
    elif grep -q 'not what this CPU can run' "$work/log"; then
        echo "ok $tests # SKIP NOT TESTED, this machine cannot run it: $what"
        return
    else
        echo "not ok $tests - $what"
    fi
    sed 's/^/# /' "$work/log"
}
limit () { "$python" tests/e2e/make.py promised "$1"; }
golden () { "$python" tests/golden/golden.py "$@"; }
scores ()
{
    "$bin/wiremill" run --model "$work/golden.onnx" --input $shared/data/protodune-hd/$event.h5 \
        --spec $shared/data/golden/spec.yaml --output "$work/out" --quiet &&
        golden scores "$work/out/$event.scores.h5" $shared/data/golden/$event.npz \
            "$(limit "$work/out/$event.scores.h5")"
}
fast ()
{
    "$bin/wiremill" run --precision fast --model "$work/golden.onnx" --input $shared/data/protodune-hd/$event.h5 \
        --spec $shared/data/golden/spec.yaml --output "$work/fast" --quiet &&
        golden scores "$work/fast/$event.scores.h5" $shared/data/golden/$event.npz \
            "$(limit "$work/fast/$event.scores.h5")"
}

(cd "$work" && "$OLDPWD/$python" "$OLDPWD/$shared/tools/make_golden.py" --model golden.onnx) >"$work/made" 2>&1 ||
    { sed 's/^/# /' "$work/made"; echo "Bail out! cannot make the golden model"; exit 1; }
check "every stored patch of the real event" golden patches "$bin/wiremill" $shared "$work"
check "every variant: patches and scores" golden variants "$bin/wiremill" $shared "$work/golden.onnx" "$work"
check "scores of all hits of the real event" scores
check "the same command again has nothing to do and succeeds" scores
check "scores of all hits of the real event in 16 bit" fast

# Every instruction set and precision that this machine can run, each held to its own promise: on every STEP-th hit.
kernel () # ISA/PRECISION
{
    [[ $1 != amx-twin/* ]] || local -x LD_PRELOAD=$twin_so # tests/standin
    WM_ISA=$1 "$bin/wiremill" run --precision "$precision" --model "$work/golden.onnx" --input "$work/few-$step.h5" \
        --spec $shared/data/golden/spec.yaml --output "$work/${1//\//-}" --quiet &&
        golden scores "$work/${1//\//-}/few-$step.scores.h5" $shared/data/golden/$event.npz "$promised" "$step"
}
while read -r name precision promised step; do
    [ -e "$work/few-$step.h5" ] || golden few $shared/data/protodune-hd/$event.h5 "$work/few-$step.h5" "$step" || exit 1
    check "$name is within $promised, one hit of $step" kernel "$name"
done <<END
amx/bf16          fast 3e-3 $all
amx/bf16x3        split 1e-5 $all
avx512-vnni/int16 fast 5e-4 $all
avx512/bf16       fast 3e-3 $all
avx512/fp32       fp32 2e-6 $all
avx-vnni/int16    fast 5e-4 $all
avx2/int16        fast 5e-4 $all
avx2/fp32         fp32 2e-6 $all
c/fp32            fp32 2e-6 $all
amx-twin/bf16     fast 3e-3 $twin
amx-twin/bf16x3   split 1e-5 $twin
END
echo "1..$tests"
