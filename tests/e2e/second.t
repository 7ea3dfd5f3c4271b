#!/bin/bash
# second.t - another detector's network of the family on the sparse engine.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no events"
$python tests/e2e/make.py second "$work/second.onnx" || bail "no network"

import ()
{
    keep "$bin/wiremill" import "$work/second.onnx" -o "$work/second.wmm" && says 'sparse engine.*2 convolutions'
}
ok "44 x 48 patches and two convolutions are of the family" import
second () # output, options...
{
    local to=$1
    shift
    "$bin/wiremill" run --model "$work/second.onnx" --spec dunefd-44x48 --input "$made/one.h5" --output "$work/$to" \
            --quiet "$@"
}
ok "a campaign with it" second out --workers 2 --threads 1
"$bin/wiremill" cut --spec dunefd-44x48 --input "$made/one.h5" --patches "$work/one.npy" || bail "no patches"
ok "scores as ONNX Runtime does" $python tests/e2e/make.py agrees "$work/second.onnx" "$work/one.npy" \
    "$work/out/one.scores.h5" 1e-5
columns () { keep "${@:2}" && says "^columns $1" && ! says '^columns.*track'; }
again=("$bin/wiremill" run --model "$work/second.onnx" --input "$made/one.h5")
ok "its columns have the names of its outputs, and a line explains why not a preset's" columns \
    'y_0 y_1 y_2 y_3: names of the model.s outputs \(the preset.s labels are for a softmax of three' \
    "${again[@]}" --spec dunefd-44x48 --output "$work/out"
printf 'patch: [44, 48]\nlabels: [p, mu, e, gamma]\n' >"$work/labels.yaml"
ok "... unless a specification names others" columns 'p mu e gamma: labels of .*/labels.yaml$' "${again[@]}" \
        --spec "$work/labels.yaml" --output "$work/named"
named ()
{
    $python -c 'import h5py, sys; print (len (h5py.File (sys.argv[1])["emtrkmichel/gamma"]) > 0)' \
            "$work/named/one.scores.h5" | grep True
}
ok "... which are those of the file" named
threads () { second three --workers 1 --threads 3 --pin && same_scores one "$work/out" "$work/three"; }
ok "and gives the same bytes from three pinned threads" threads

# Its 60 outputs are padded to 64 where they are read; that is one file for all workers of a machine but the first, which keeps its
# own. What the others keep for themselves is far below the 14 MB of that file, or of the model.
children () { local pid; for pid in "$@"; do cat /proc/"$pid"/task/"$pid"/children; done; }
own () # of each engine: kB
{
    local pid
    for pid in $(children $(children $work_pid)); do
        grep -q all-fp32-0 /proc/"$pid"/maps && awk '/^Private/ { n += $2 } END { print n }' /proc/"$pid"/smaps_rollup
    done
}
"$bin/wiremill" broker --model "$work/second.wmm" --spec dunefd-44x48 --output "$work/two" \
        --listen "ipc://$work/b" >"$work/broker" 2>&1 &
until_true 60 test -e "$work/two$beside/endpoint.json" || bail "no broker"
"$bin/wiremill" work --broker "ipc://$work/b" --workers 3 --threads 1 --cache "$work/cache" >"$work/log" 2>&1 &
work_pid=$!
up () { [ "$(grep -c 'self-test is passed' "$work/log")" = 3 ]; }
ok "three workers" until_true 60 up
shared () { own | tee "$work/own"; awk '{ n++; bad += $1 > 9000 } END { exit n != 2 || bad }' "$work/own"; }
# Sanitizers keep more.
[ -n "$SAN" ] || ok "... share one copy of the weights, padded" shared
done_testing
