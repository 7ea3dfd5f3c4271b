#!/bin/bash
# verify.t - hits of finished campaigns scored again by another engine: equal, changed, and not there.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
make_events three --events 1 --seed 6 --hits 2000 --tpcs 1 || bail "no events"
cp "$made/two.h5" "$made/three.h5" "$work/"
"$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --input "$work/*.h5" --quiet || bail "no campaign"

verify () { keep "$bin/wiremill" verify "$@"; }
again () { verify "$work/out" --sample 150 --seed 3 && ! says 'the same engine' && says '^150 of [0-9,]+ hits scored again by reference/double.* tolerance 1e-05'; }
ok "a sample by the reference" again
all () { verify "$work/out" --sample 1000000 --engine openvino && says '^([0-9,]+) of \1 hits .*openvino'; }
ok "every hit of both files by OpenVINO" all
json () { verify "$work/out" --sample 7 --json && $python -c 'import json, sys; d = json.load (open (sys.argv[1])); assert d["hits"] == 7 and d["differ"] == 0 and d["largest"] < 1e-5, d' "$work/said"; }
ok "as JSON" json
forty () { exits 1 verify "$work/out" --sample 40 --seed 9 --tolerance 1e-12 --json && says '"hits": 40'; }
same () { forty && cp "$work/said" "$work/first" && forty && cmp "$work/said" "$work/first"; }
ok "the same seed chooses the same hits" same

$python tests/e2e/make.py spoil "$work/out/two.scores.h5" 17 || bail "no score was changed"
changed () { exits 1 verify "$work/out" --sample 1000000 --engine sparse && says 'two.scores.h5: event .* row 17, .*again 0\.' && says '^1 hits differ'; }
ok "a score that changed on disk is found and named" changed
cp "$work/two.h5" "$work/three.h5"
ok "an input that is another now is refused by name" exits 5 verify "$work/out" --sample 1000000 --engine sparse
ok "... and said" says 'three.h5 has .* hits, its output .*: it has changed'

$python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" || bail "no network"
"$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn" --quiet --input "$work/patches.npy" || bail "no campaign of patches"
dense () { verify "$work/cnn" --sample 100 && says '^100 of 700 hits scored again by openvino.* tolerance 0.0001' && says '^they were scored by the same engine before: .* finds damage'; }
ok "ready-made patches of any network" dense

judged () { "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/judged" --input "$work/patch.npy" --engine reference --quiet >/dev/null && verify "$work/judged" --json && $python -c 'import json, sys; d = json.load (open (sys.argv[1])); assert d["same_engine"] and d["largest"] == 0, d' "$work/said"; }
$python -c 'import numpy, sys; numpy.save (sys.argv[1], numpy.random.default_rng (1).normal (0, 1, (3, 48, 48)).astype ("f4"))' "$work/patch.npy"
ok "scored by the reference, and again by it: said" judged
nobody () { exits 5 verify "$work/none" && says 'holds no campaign'; }
ok "no campaign there" nobody
engine () { exits 5 verify "$work/cnn" --engine reference && says 'reference engine cannot run this model'; }
ok "an engine that cannot run the model" engine
sample () { exits 5 keep "$bin/wiremill-worker" --verify --cache "$work" <"$made/model-1.wmm" && says 'is none'; }
ok "a sample that is none" sample
ok "a sample of nothing" exits 2 keep "$bin/wiremill-producer" sample --pins x
outputs () { exits 5 keep "$bin/wiremill-broker" --outputs --campaign "$work/none" && says 'no campaign'; }
ok "the outputs of no campaign" outputs
ok "a seed that is none" exits 2 verify "$work/out" --seed x
"$bin/wiremill" broker --model "$work/cnn.onnx" --output "$work/cnn" --listen "ipc://$work/b" 2>"$work/broker.log" &
broker=$!
until_true 60 test -e "$work/cnn/.wiremill/endpoint.json" || bail "no broker"
busy () { exits 75 verify "$work/cnn" && says "process $broker is the broker"; }
ok "a campaign that a broker serves: later" busy
kill -TERM $broker
done_testing
