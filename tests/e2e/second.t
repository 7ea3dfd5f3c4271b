#!/bin/bash
# second.t - another detector's network of the family on the sparse engine.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no events"
$python tests/e2e/make.py second "$work/second.onnx" || bail "no network"

import () { keep "$bin/wiremill" import "$work/second.onnx" -o "$work/second.wmm" && says 'sparse engine.*2 convolutions'; }
ok "44 x 48 patches and two convolutions are of the family" import
second () # output, options...
{
    local to=$1
    shift
    "$bin/wiremill" run --model "$work/second.onnx" --spec dunefd-44x48 --input "$made/one.h5" --output "$work/$to" --quiet "$@"
}
ok "a campaign with it" second out --workers 2 --threads 1
"$bin/wiremill" cut --spec dunefd-44x48 --input "$made/one.h5" --patches "$work/one.npy" || bail "no patches"
ok "scores as ONNX Runtime does" $python tests/e2e/make.py agrees "$work/second.onnx" "$work/one.npy" \
    "$work/out/one.scores.h5" 1e-5
threads () { second three --workers 1 --threads 3 --pin && same_scores one "$work/out" "$work/three"; }
ok "and gives the same bytes from three pinned threads" threads
done_testing
