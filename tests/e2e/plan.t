#!/bin/bash
# plan.t - `wiremill plan`: from given numbers, from files of measurements, measured here; refusals; the published model (tests/bench/paper.py).
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
mkdir "$work/tmp" && export TMPDIR=$work/tmp
plan () { keep "$bin/wiremill" plan "$@"; }
# Runs plan --json and checks what Python expects of its answer d, of its rows t.
look () # expression, options...
{
    "$bin/wiremill" plan --json "${@:2}" >"$work/p.json" &&
        $python -c 'import json, sys; d = json.load (open (sys.argv[1])); t = d["times"]; g = d["given"]
assert d["schema"] == "wiremill-plan-1"; assert eval (sys.argv[2]), d' "$work/p.json" "$1"
}
narrow () { ! grep -nE '^.{81}' "$work/said"; }

# ---- given numbers: 1e7 hits, 1,000 batches of one second each ---------------------------------
given=(--events 1000 --hits-per-event 10000 --rate 10000)
ok "given numbers: hits, hours, wall time" \
        look 'd["needs"]["hits"] == 1e7 and abs (d["needs"]["core_hours"] - 1e3 / 3600) < 1e-9 and len (t) == 1 and t[0]["wall_s"] == 100 + 60 and t[0]["limit"] == "workers"' \
        "${given[@]}" --workers 10 --start-s 60
ok "... what is not known is null, and named in warnings" \
        look 'd["needs"]["gpu_hours"] is None and g["bytes_per_event"] is None and len (d["warnings"]) == 2 and t[0]["bytes_s"] is None' "${given[@]}"
unknown () { plan "${given[@]}" && says 'engines on GPUs +unknown: give --gpu-rate' && says 'producer is not counted' && says '100 % +- +1.00 +>' && narrow; }
ok "... and printed as unknown, in 80 columns" unknown
whole=("${given[@]}" --event-s 0.05 --files 100 --file-s 0.01 --event-bytes 2e5 --scores 4 --gpu-rate 1e6 --client-s 100 --start-s 2)
ok "a producer limits: more workers are not listed" look 't[-2]["limit"] == "producers" and [x["on"] for x in t] == ["cores"] * 4 + ["gpus"] and t[-2]["wall_s"] == 53.05' "${whole[@]}"
ok "GPUs: hours, producers and clients of one" \
        look 'abs (d["needs"]["gpu_hours"] - 10 / 3600) < 1e-9 and abs (d["needs"]["producers_a_gpu"] - 5) < 1e-9 and abs (d["needs"]["clients_a_gpu"] - 10001) < 1e-6' "${whole[@]}"
ok "a deadline: the least number of workers" look 'd["deadline"]["workers"] == 11 and d["deadline"]["seconds"] == 96' \
        "${whole[@]}" --deadline 1.6m
late () { plan "${whole[@]}" --deadline 50 && says 'takes [0-9.]+ s, limited by producers' && narrow; }
ok "... that nothing can meet" late
ok "... in hours" look 'd["deadline"]["seconds"] == 43200' "${whole[@]}" --deadline 12h
ok "... in days" look 'd["deadline"]["seconds"] == 1.5 * 86400 and d["deadline"]["workers"] == 1' "${whole[@]}" --deadline 1.5d
ok "... in GPUs, where only their rate is known" look 'd["deadline"]["on"] == "gpus" and d["deadline"]["workers"] == 5' \
        --events 1000 --hits-per-event 10000 --gpu-rate 20000 --deadline 100
broker () { plan "${given[@]}" --event-bytes 2e9 --workers 200 && says 'warning: 200 workers: [0-9]+ % of what one broker carries; divide' && narrow; }
ok "it warns before one broker carries too much" broker
peers () { plan "${given[@]}" --workers 600 && says 'a broker takes 1024 peers'; }
ok "... and before it has too many peers" peers
rows () { look '[x["workers"] for x in t] == [1, 4, 16, 64, 256] and not any ("peers" in w for w in d["warnings"])' --events 1e6 --hits-per-event 2000 --rate 20000; }
ok "... and lists no more workers than it can have" rows
listed () { look 't[-1]["broker"] > 0.5 and sum ("of what one broker carries" in w for w in d["warnings"]) == sum (x["broker"] >= 0.5 for x in t)' \
        "${given[@]}" --event-bytes 2e9; }
ok "... it warns of every row that it lists" listed
keys () { look 't[0]["broker"] > 0.4' "${given[@]}" --event-bytes 1e6 --workers 120 && look 't[0]["broker"] < 0.2' \
        "${given[@]}" --event-bytes 1e6 --workers 120 --insecure; }
ok "... without keys it carries more" keys
ok "a disk limits" look 't[-1]["limit"] == "disk"' "${whole[@]}" --disk-rate 0.5 --workers 100

# ---- files of measurements ---------------------------------------------------------------------
"$bin/wiremill" bench engine --quiet --model "$made/model-${small}1.wmm" --input "$made/two.h5" --hits 600 --judged 0 --seconds 0.1 \
        --precision fp32 --threads 1 --batch 300 --json "$work/b.json" >/dev/null 2>&1 || bail "no bench"
rate=$($python -c 'import json, sys; print (json.load (open (sys.argv[1]))["points"][0]["hits_s"])' "$work/b.json")
from_bench ()
{
    look "g['core_hits_s']['from'].startswith ('--bench') and (g['core_hits_s']['value'] == $rate or d['warnings']) and g['hits_per_event']['value'] > 1000 and g['producer_s_event']['value'] > 0 and g['bytes_per_event']['value'] > 1000" \
            --bench "$work/b.json" --events 1e6
}
ok "a file of wiremill bench" from_bench
ok "... options replace what it has" look 'g["core_hits_s"] == {"value": 5.0, "from": "--rate"}' \
        --bench "$work/b.json" --events 10 --rate 5
no_precision () { exits 5 plan --bench "$work/b.json" --events 10 --precision fast && says 'has no engine in fast'; }
ok "... without the precision asked for" no_precision
ok "no such file" exits 2 plan --bench "$work/none.json" --events 10
echo '{"a": 1}' >"$work/other.json"
other () { exits 5 plan --bench "$work/other.json" --events 10 && says 'neither of wiremill bench'; }
ok "another file" other

# ---- measured here -----------------------------------------------------------------------------
mkdir "$work/in"
for i in 1 2 3 4 5 6 7 8; do cp "$made/two.h5" "$work/in/$i.h5"; done
hits=$($python -c 'import h5py, sys; print (len (h5py.File (sys.argv[1])["hit_table/hit_id" if "hit_table/hit_id" in h5py.File (sys.argv[1]) else "hit_table/key"]))' "$made/two.h5")
measured=(--quiet --model "$made/model-${small}1.wmm" --seconds 0.1)
here ()
{
    look "g['files']['value'] == 1 and g['events']['value'] == 2 and abs (d['needs']['hits'] / $hits - 1) < 0.001 and g['start_s']['value'] > 0.05 and g['scores']['value'] == 4 and g['batch_hits']['value'] == 16384 and g['batches_per_event']['value'] == 3 and t[0]['on'] == 'here' and t[0]['wall_s'] > g['start_s']['value'] and d['needs']['memory_worker_mb'] > 10" \
            "${measured[@]}" --input "$made/two.h5"
}
ok "measured here: every hit counts, start and end are measured" here
many ()
{
    look 'g["files"]["value"] == 8 and g["events"] == {"value": 16.0, "from": "5 files inspected, others by size"}' \
            "${measured[@]}" "$work/in/*.h5"
}
long=$(size 0 1 1) # each of these measures for a quarter of a minute
[ "$long" = 0 ] || ok "of many files a few are read" many
like () { look 'g["files"]["value"] == 1000 and g["events"]["value"] == 2000' "${measured[@]}" --files 1000 "$made/two.h5"; }
[ "$long" = 0 ] || ok "... and --files stands for more like them" like
empty () { [ -z "$(ls "$TMPDIR")" ]; }
ok "nothing is left of it" empty
$python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" || bail "no network"
general () { look 'g["start_s"]["value"] > 0.05 and "openvino" in g["core_hits_s"]["from"]' --quiet --model "$work/cnn.onnx" --seconds 0.1 --input "$work/patches.npy"; }
[ "$long" = 0 ] || ok "another network, on ready patches" general
printf 'no events\n' >"$work/bad.h5"
ok "a bad input" exits 5 plan "${measured[@]}" --input "$work/bad.h5"
ok "no such input" exits 2 plan "${measured[@]}" --input "$work/none.h5"
ok "no such model" exits 2 plan --model "$work/none.onnx" --input "$made/two.h5"
nowhere () { TMPDIR=$work/none exits 1 plan "${measured[@]}" --input "$made/two.h5" && says 'No such file'; }
ok "no folder for what it makes" nowhere
ends () { ! kill -0 "$1"; }
interrupted () # as early as its folder is there
{
    "$bin/wiremill" plan --model "$made/model-${small}1.wmm" --input "$made/two.h5" --seconds 600 >"$work/said" 2>&1 &
    local pid=$!
    until_true 60 compgen -G "$TMPDIR/wiremill-plan-*/wiremill-bench-*" || return 1
    kill -INT $pid
    until_true 60 ends $pid && exits 75 wait $pid && until_true 60 empty
}
ok "Ctrl-C ends what runs, and leaves nothing" interrupted

# ---- the published model -----------------------------------------------------------------------
paper () { keep $python tests/bench/paper.py "$@"; }
of_paper () { paper --json "${@:2}" && $python -c 'import json, sys; d = json.load (open (sys.argv[1])); assert eval (sys.argv[2]), d' "$work/said" "$1"; }
# Rows made from its formula with 3 s on a GPU, of 4 GPUs.
$python - >"$work/rows.txt" <<'PY'
own, pre, late, gpu = 0.35 * 330, 7, 4.65, 3.0
ideal = own + gpu + late
for n in (4, 40, 100, 189, 301, 486):
    module = pre + gpu * (1 + max (0, n / 4 - ideal / gpu)) + late
    print (f"{n:.1f} {own + module:.6e} 1.0e+01 {module:.6e} 1.0e+00")
PY
fitted ()
{
    of_paper 'abs (d["t_gpu"] - 3) < 0.003 and max (abs (r["event_s"] / r["measured_event_s"] - 1) for r in d["rows"]) < 1e-3 and max (abs (r["module_s"] / r["measured_module_s"] - 1) for r in d["rows"]) < 5e-3' \
            --fit "$work/rows.txt" --rows "$work/rows.txt"
}
ok "rows made from the published model give its time on a GPU back" fitted
(head -3 "$work/rows.txt" && tail -1 "$work/rows.txt") >"$work/held-out.txt"
held_out () { grep -E '^(189|301)' "$work/rows.txt" >"$work/rest.txt" && of_paper 'all (abs (r["event_s"] / r["measured_event_s"] - 1) < 1e-3 for r in d["rows"])' \
        --fit "$work/held-out.txt" --rows "$work/rest.txt"; }
ok "... and meet rows that were held out" held_out
ok "the published 68 clients of a GPU" of_paper 'abs (d["clients_a_gpu"] - 68.88) < 0.01' --t-gpu 1.77
by_hand () { of_paper 'abs (d["rows"][0]["event_s"] - 257) < 1e-9 and abs (d["rows"][0]["module_s"] - 141.5) < 1e-9' --rows <(echo '400 250 3 140'); }
ok "the published model, by hand: 100 jobs of each GPU, of which 50.94 wait" by_hand
beside () { paper --rows "$work/rows.txt" --rate 17000 && says '^ +486 +371.5 +310.8 +-16.4 % .* 12.1$' && narrow; }
ok "beside each row: the model, the difference, and what wiremill needs" beside
few () { head -2 "$work/rows.txt" >"$work/few.txt"; exits 1 paper --fit "$work/few.txt" && says 'with 40 jobs at most none waits'; }
ok "rows that tell nothing of a GPU" few
bad_rows ()
{
    echo '4 130 3' >"$work/short.txt" && exits 1 paper --rows "$work/short.txt" && says 'short.txt:1: a row is four numbers' &&
        exits 1 paper --rows <(echo '4 -130 3 14') && says 'out of range' && exits 1 paper --rows <(echo '4 nan 3 14') &&
        says 'out of range' && exits 1 paper --rows <(echo '# nothing') && says 'has no rows'
}
ok "a row that is too short or out of range, by its line" bad_rows

# ---- refusals ----------------------------------------------------------------------------------
refuses () { exits 2 plan "${@:2}" && says "$1" && [ "$(wc -l <"$work/said")" -le 2 ]; }
ok "nothing" refuses 'give --input and --model'
ok "a file of measurements alone" refuses '--events N is missing: --bench does not have it' --bench "$work/b.json"
ok "a model alone" refuses '--input GLOB is missing' --model "$made/model-${small}1.wmm"
ok "inputs alone" refuses '--model FILE is missing' --input "$made/two.h5"
ok "no rate" refuses '--rate HITS/S is missing' --events 1 --hits-per-event 1
ok "no hits" refuses '--hits-per-event N is missing' --events 1 --rate 1
ok "no events" refuses '--events takes' --events 0 --hits-per-event 1 --rate 1
ok "absurd hits" refuses '1e\+20 hits are more than any detector has' --events 1e12 --hits-per-event 1e8 --rate 1
ok "a rate of nothing" refuses '--rate takes' "${given[@]}" --rate 0
ok "an infinite rate" refuses '--rate takes' "${given[@]}" --rate inf
ok "no workers" refuses '--workers takes' "${given[@]}" --workers 0
ok "a deadline of nothing" refuses "--deadline takes a time above 0 s, not '0'" "${given[@]}" --deadline 0
for time in 3y d -1h 1e300d; do
    ok "a deadline of $time" refuses "--deadline takes a time such as 90s, 30m, 12h, 3d, 2w or H:MM:SS, not '$time'" "${given[@]}" --deadline=$time
done
ok "inputs and a file" refuses 'not both' --bench "$work/b.json" --input "$made/two.h5" --model "$made/model-${small}1.wmm"
done_testing
