#!/bin/bash
# shared.t - the real event and the harsh variants, compared with an independent NumPy reference.
cd "$(dirname "$0")/../.." || exit 1
bin=${WM_BUILD:-build/release}/bin python=build/venv/bin/python shared=../shared
[ -r $shared/data/golden/variants.npz ] || { echo "1..0 # SKIP no ../shared with golden data here"; exit 0; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
event=pdhd_run27409_evt40896_apa1
echo 1..5

check () # number, description, command...
{
    local number=$1 what=$2
    shift 2
    if "$@" >"$work/log" 2>&1; then echo "ok $number - $what"; else echo "not ok $number - $what"; fi
    sed 's/^/# /' "$work/log"
}
# What the engine that scored promises; of plain fp32 we ask 2e-6.
limit ()
{
    case $("$python" -c 'import h5py, sys; print (h5py.File (sys.argv[1])["engine/signature"][0])' "$1") in
        */int16/*) echo 5e-4 ;; */bf16/*) echo 3e-3 ;; */bf16x3/*) echo 1e-5 ;; *) echo 2e-6 ;;
    esac
}
golden () { "$python" tests/golden/golden.py "$@"; }
scores ()
{
    "$bin/wiremill" run --model "$work/golden.onnx" --input $shared/data/protodune-hd/$event.h5 \
        --spec $shared/data/golden/spec.yaml --output "$work/out" --quiet &&
        golden scores "$work/out/$event.scores.h5" $shared/data/golden/$event.npz "$(limit "$work/out/$event.scores.h5")"
}
fast ()
{
    "$bin/wiremill" run --precision fast --model "$work/golden.onnx" --input $shared/data/protodune-hd/$event.h5 \
        --spec $shared/data/golden/spec.yaml --output "$work/fast" --quiet &&
        golden scores "$work/fast/$event.scores.h5" $shared/data/golden/$event.npz "$(limit "$work/fast/$event.scores.h5")"
}

(cd "$work" && "$OLDPWD/$python" "$OLDPWD/$shared/tools/make_golden.py" --model golden.onnx) >"$work/made" 2>&1 ||
    { sed 's/^/# /' "$work/made"; echo "Bail out! cannot make the golden model"; exit 1; }
check 1 "every stored patch of the real event" golden patches "$bin/wiremill" $shared "$work"
check 2 "every variant: patches and scores" golden variants "$bin/wiremill" $shared "$work/golden.onnx" "$work"
check 3 "scores of all hits of the real event" scores
check 4 "the same command again has nothing to do and succeeds" scores
check 5 "scores of all hits of the real event in 16 bit" fast
