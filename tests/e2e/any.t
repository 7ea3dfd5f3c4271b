#!/bin/bash
# any.t - bad hits, events without hits, and a network outside the family on ready-made patches.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --quiet)

$python tests/e2e/make.py bad "$made/two.h5" "$work/bad.h5" || bail "no bad events"
bad () { exits 3 keep "${run[@]}" --input "$work/bad.h5" && says 'hits +4,880 scored, 49 held'; }
ok "a NaN pixel, a wire outside its plane and a time without end: exit code 3" bad
ok "their rows are held with their reasons, the others scored" $python tests/e2e/make.py held \
    "$work/out/bad.scores.h5" some
counted () { keep "$bin/wiremill" status "$work/out" && says '^hits: 4,880 scored, 49 held'; }
ok "status counts them" counted

$python tests/e2e/make.py fed "$made/two.h5" "$work/fed.h5" && cp "$made/two.h5" "$work/good.h5" || bail "no map"
fed ()
{
    exits 3 keep "${run[@]}" --input "$work/fed.h5" --input "$work/good.h5" &&
        says 'fed.h5: wire_table: rows 17 and 30 both are wire 17 of cryostat 0, tpc 0, plane 0: '
}
ok "a wire that two channels feed: its file is held by name" fed
ok "... and the others are written" $python tests/e2e/make.py held "$work/out/good.scores.h5" 0
printf 'lifetime: none\n' >"$work/none.yaml"
$python tests/e2e/make.py opensamples "$work/once.h5" 5 && $python tests/e2e/make.py opensamples "$work/twice.h5" 4 ||
    bail "no OpenSamples"
open ()
{
    exits 3 keep "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/open" --quiet \
            --spec "$work/none.yaml" --input "$work/once.h5" --input "$work/twice.h5" &&
        says 'twice.h5: event 1:0:2: wire_table: rows 4 and 5 both are wire 4'
}
ok "a wire twice in an event of OpenSamples: its file is held by name" open
ok "... and the others are written" $python tests/e2e/make.py held "$work/open/once.scores.h5" 0

$python tests/e2e/make.py empty "$made/two.h5" "$work/empty.h5" || bail "no events without hits"
ok "an event without hits" "${run[@]}" --input "$work/empty.h5"
ok "holds nothing up" $python tests/e2e/make.py held "$work/out/empty.scores.h5" 0

$python tests/e2e/make.py hitless "$made/two.h5" "$work/hitless.h5" || bail "no file without hits"
hitless ()
{
    keep "${run[@]}" --input "$work/hitless.h5" --output "$work/hitless" &&
        says 'hitless.h5: no hits: nothing is scored' && says '  nothing was scored$'
}
ok "a file without any hits is named" hitless

$python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" || bail "no network"
import ()
{
    keep "$bin/wiremill" import "$work/cnn.onnx" -o "$work/cnn.wmm" && says 'general engine.*(squeeze|Conv|LeakyRelu)'
}
ok "import prints why a network gets the general engine, by node" import
dense () { keep "$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn" --quiet --input "$work/patches.npy"; }
ok "it scores ready-made patches" dense
ok "as ONNX Runtime does" $python tests/e2e/make.py agrees "$work/cnn.onnx" "$work/patches.npy" \
    "$work/cnn/patches.scores.h5" 1e-5
$python tests/e2e/make.py turn "$work/patches.npy" "$work/turned.npy" "$work/views.h5" || bail "no patches"
turned ()
{
    exits 5 keep "$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/turned" --quiet \
            --input "$work/turned.npy" && says 'its shape is .[0-9]*, 32, 32, 3., the model takes .N, 3, 32, 32.: turn them'
}
ok "patches with the channels elsewhere are refused, though they have as many values" turned
by_hand () # the producer of another command is told by the broker
{
    "$bin/wiremill" broker --model "$work/cnn.onnx" --output "$work/hand" --listen 'tcp://127.0.0.1:*' 2>/dev/null &
    until_true 60 grep -q "\"pid\": *$!" "$work/hand$beside/endpoint.json" || return 1
    local endpoint code
    endpoint=$(sed -n 's/.*"endpoint": *"\([^"]*\)".*/\1/p' "$work/hand$beside/endpoint.json")
    exits 5 keep "$bin/wiremill" produce --broker "$endpoint" --input "$work/turned.npy"
    code=$?
    kill $! && wait $!
    [ $code = 0 ] && says 'its shape is .[0-9]*, 32, 32, 3., the model takes .N, 3, 32, 32.: turn them'
}
ok "... also by wiremill produce" by_hand
no_port ()
{
    [ "$(grep -c "^ *cd $PWD && .*wiremill" "$work/hand$beside/command")" = 3 ] &&
        grep -q "produce --campaign $work/hand$beside " "$work/hand$beside/command"
}
ok "a broker that chooses its port is found by its folder, says the campaign" no_port
views () { "$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn" --quiet --input "$work/views.h5"; }
ok "an HDF5 dataset of them" views
ok "... as ONNX Runtime does" $python tests/e2e/make.py agrees "$work/cnn.onnx" "$work/patches.npy" \
    "$work/cnn/views.scores.h5" 1e-5
$python tests/e2e/make.py pair "$work" || bail "no network of two inputs"
pair () # file
{
    "$bin/wiremill" run --model "$work/pair.onnx" --output "$work/pair-$1" --quiet --input "$work/$1" &&
        $python tests/e2e/make.py paired "$work" "$work/pair-$1/pair.scores.h5"
}
ok "two inputs side by side, two outputs, as ONNX Runtime does: .npy" pair pair.npy
ok "... and HDF5" pair pair.h5
zeros ()
{
    $python -c 'import numpy, sys; p = numpy.load (sys.argv[1]); p[3:5] = 0; numpy.save (sys.argv[2], p)' \
            "$work/patches.npy" "$work/zeros.npy" &&
        keep "$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn" --quiet --input "$work/zeros.npy" &&
        says 'zeros.npy: 2 hits have nothing but zeros in their patch; they are scored$'
}
ok "patches of nothing but zeros are scored, counted and named" zeros
planes ()
{
    keep "$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn2" --quiet --input "$made/two.h5"; local \
            c=$?; [ $c = 3 ] || [ $c = 5 ]
}
ok "and refuses planes that it cannot be given" planes
done_testing
