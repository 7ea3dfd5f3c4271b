#!/bin/bash
# bench.t - `wiremill bench`: a small sweep of each bench, its table of 80 columns, its JSON, and what it refuses.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
mkdir "$work/tmp" && export TMPDIR=$work/tmp
bench () { keep "$bin/wiremill" bench "$@"; }
inputs=(--model "$made/model-1.wmm" --input "$made/two.h5")
given=("${inputs[@]}" --hits 600 --judged 60 --seconds 0.2)
empty () { [ -z "$(ls "$TMPDIR")" ]; }

# Points of a JSON file, as p; the whole as d.
look ()
{
    $python -c 'import json, sys; d = json.load (open (sys.argv[1])); p = d["points"]; assert eval (sys.argv[2]), d' \
            "$@"
}

few=("${inputs[@]}" --hits 100 --judged 60 --seconds 0.1) # the reference takes 10 ms a hit
engines () { "$bin/wiremill" bench "${few[@]}" --engine sparse,reference --batch 16,50 --threads 1,2 \
    --precision fp32 \
    --json "$work/e.json" >"$work/e.table" 2>"$work/e.words"; }
ok "engines: two engines, two batch sizes, one and two threads" engines
agree () # every point in the table and in JSON, with the same numbers; no line of a point is longer than 80 columns
{
    $python - "$@" <<'PY'
import json, sys
bench, table, whole = sys.argv[1], open (sys.argv[2]).read (), json.load (open (sys.argv[3]))
points = whole["points"]
assert whole["schema"] == "wiremill-bench-1" and whole["machine"]["cpu"] in table and whole["machine"]["isa"] in table, whole["machine"]
assert set (points[0]) <= set (whole["meaning"]), points[0]
lines = [l.split () for l in table.splitlines () if "/v1" in l and len (l) <= 80]
assert len (points) == len (lines), (len (points), table)
for point, line in zip (points, lines):
    assert any (abs (float (word.replace (",", "")) - point["hits_s"]) <= 0.51 for word in line if word[0].isdigit () and "/" not in word), (point, line)
    assert f'{point["p99_ms"]:.1f}' in line and f'{point["batch"]:,}' in line, (point, line)
    assert point["bench"] == bench and point["p50_ms"] <= point["p90_ms"] <= point["p99_ms"], point
PY
}
ok "... table and JSON agree" agree engine "$work/e.table" "$work/e.json"
ok "... every combination once" look "$work/e.json" 'sorted ((x["engine"], x["threads"], x["batch"]) for x in p) == sorted ((e, t, b) for e in ("sparse", "reference") for t in (1, 2) for b in (16, 50))'
ok "... the reference executes the dense form, the sparse engine less, within 1e-5 of it" look "$work/e.json" \
    'all ((x["executed_madds"] == x["dense_madds"] and x["error"] == 0) if x["engine"] == "reference" else (0 < 3 * x["executed_madds"] < x["dense_madds"] and 0 < x["error"] < 1e-5) for x in p)'
ok "... GFLOP/s follow from what was executed" look "$work/e.json" \
    'all (abs (x["gflops"] / (2e-9 * x["executed_madds"] * x["best_hits_s"]) - 1) < 1e-6 and abs (x["peak_share"] * x["peak_gflops"] / x["gflops"] - 1) < 1e-6 for x in p)'
ok "... batches are cut as asked" look "$work/e.json" \
        'all (x["input_hits"] >= 100 and x["hits_s"] <= 1.05 * x["batches_s"] * x["batch"] for x in p)'
judges () # above the table: hits of each point; below it: what this CPU cannot run
{
    look "$work/e.json" 'all (60 <= x["judged"] < 80 for x in p)' &&
        grep -q '^  error: largest of 6[0-9] hits, from double$' "$work/e.table" &&
        $python -c 'import json, sys; n = json.load (open (sys.argv[1]))["machine"]["not_tested"]; t = open (sys.argv[2]).read (); assert not n or t.endswith (f"cannot run them: {n}\n"), (n, t)' "$work/e.json" "$work/e.table"
}
ok "... the numbers of compared hits, and what could not be tried, are printed" judges
ok "... and its progress is on stderr" grep -q '8\. engine, reference fp32, 1 worker x 2 threads, batches of 50: ' \
        "$work/e.words"

pipelines ()
{
    "$bin/wiremill" bench pipeline "${inputs[@]}" --batch 100,4096 \
            --json "$work/p.json" >"$work/p.table" 2>"$work/p.words"
}
ok "pipeline: real processes" pipelines
ok "... table and JSON agree" agree pipeline "$work/p.table" "$work/p.json"
# Each mean is of the same batches: what it took in all lies between the fastest and the slowest batch.
ok "... the parts of a batch's time are all there, and every hit" look "$work/p.json" \
    'all (min (x[k] for k in ("stage_ms", "compute_ms", "commit_ms", "queue_ms")) > 0 and sum (x[k] for k in ("stage_ms", "compute_ms", "commit_ms", "queue_ms")) < 1.5 * x["p99_ms"] and
    min (x["lead_s"], x["tail_s"]) > 0 and 0 <= x["idle_share"] < 1 and x["lead_s"] + x["tail_s"] < x["seconds"] + 1 for x in p) and p[0]["hits"] == p[1]["hits"] > 4000'
bad_hits () { $python tests/e2e/make.py bad "$made/two.h5" "$work/bad_hits.h5" &&
    bench pipeline --model "$made/model-1.wmm" --input "$work/bad_hits.h5" \
    --json "$work/h.json" && says 'held: [0-9]* hits' &&
    look "$work/h.json" 'len (p) == 1 and 4000 < p[0]["hits"] and p[0]["hits_s"] > 0'; }
ok "... bad hits are reported, the others measured" bad_hits
ok "... and who had how much memory" look "$work/p.json" 'all (x["memory_engine_mb"] > 40 and x["memory_worker_mb"] > 1 and x["memory_broker_mb"] > 1
    and x["memory_engine_mb"] + x["memory_worker_mb"] < 170 for x in p) # 150 and the working set of one plane'
ok "... and who used the CPU" look "$work/p.json" 'all (x["cpu_engine_s"] > x["cpu_producer_s"] > 0 and x["cpu_broker_s"] > 0 and x["cpu_worker_s"] > 0 for x in p)'

# tests/bench/broker_bench.c, which `make bench` runs.
broker_bench=${bin%/bin}/bench/broker_bench
curve ()
{
    keep "$broker_bench" "$work/$1" --json --batches 256 --task 1000 --hits 4 "${@:2}" &&
        $python -c 'import json, sys; p = json.loads (open (sys.argv[1]).read ()); assert p["hits"] == 1024 and p["cpu_clients_s"] > 0 and ("handshakes_s" in p) == (sys.argv[2] == "keys"), p' \
            "$work/said" "$1"
}
ok "a broker with workers that do no work, over TCP" curve tcp --tcp
ok "... and with keys, beside handshakes by an unknown key" curve keys --keys --storm 200
ok "... which need keys" refused 2 "storm needs --keys" "$broker_bench" "$work/storm" --storm 1
units () { grep -q '^  p99: ms of a batch; hits/s: mean; peak' "$work/e.table" &&
    grep -q '^  p99: ms of a batch; .* first, last: s without scores$' "$work/p.table"; }
narrow () { ! grep -hvE '^  (not tested|-:)' "$work/e.table" "$work/p.table" | grep -E '.{81}'; }
ok "no line is longer than 80 columns, but those of what was not tested" narrow
ok "below each table are the units of columns whose titles have none" units

stdout_json ()
{
    "$bin/wiremill" bench "${given[@]}" -q --batch 300 --threads 1 --precision fp32 --json - >"$work/o.json" &&
        look "$work/o.json" 'len (p) == 1'
}
ok "JSON on stdout, in the table's place" stdout_json
openvino ()
{
    bench --model "$made/model-1.onnx" --input "$made/two.h5" --hits 100 --engine openvino --precision fp32 \
            --threads 1 --batch 100 --seconds 0.2 && says 'openvino-'
}
ok "OpenVINO, of an ONNX file" openvino
made_up ()
{
    bench --events 1 --hits 100 --precision fp32 --threads 1 --batch 100 --seconds 0.2 && says 'making 1 synthetic' &&
        says 'sparse/'
}
ok "a model and events of its own" made_up
$python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" || bail "no network"
general () { bench all --model "$work/cnn.onnx" --input "$work/patches.npy" --precision fp32 --threads 1 --workers 1 \
        --batch 100 --seconds 0.2 --json "$work/g.json" &&
    look "$work/g.json" '(len (p) == 2 and "openvino" in p[0]["signature"] and p[1]["hits"] == 700 and p[0]["executed_madds"] == p[0]["dense_madds"] == 16 * 16 * 8 * 27 + 6 * 6 * 5 * 72
        and 0 < p[0]["cpu_peak_share"] and abs (p[0]["gflops"] / (2e-9 * p[0]["executed_madds"] * p[0]["best_hits_s"]) - 1) < 1e-6 and "uncounted" not in p[0])' && ! says 'not known'; }
ok "any network, on patches: its multiply-adds are known" general
$python - "$work/squares.onnx" <<'PY' || bail "no network"
import sys, onnx
from onnx import TensorProto, helper
ports = [helper.make_tensor_value_info (n, TensorProto.FLOAT, ["n", 3, 32, 32]) for n in "x"] + [helper.make_tensor_value_info ("y", TensorProto.FLOAT, ["n", 3])]
graph = helper.make_graph ([helper.make_node ("Einsum", ["x", "x"], ["y"], equation="ncij,ncij->nc", name="squares")], "g", ports[:1], ports[1:])
onnx.save (helper.make_model (graph, opset_imports=[helper.make_opsetid ("", 13)], ir_version=8), sys.argv[1])
PY
uncounted () { bench --model "$work/squares.onnx" --input "$work/patches.npy" --precision fp32 --threads 1 --batch 100 \
        --seconds 0.2 --json "$work/u.json" &&
    look "$work/u.json" '"gflops" not in p[0] and "squares" in p[0]["uncounted"]' &&
    says 'openvino-.* -$' &&
    says "-: not known: multiply-adds not counted: those of node 'squares' .Einsum.$"; }
ok "... or why they are not" uncounted

absent () { exits 6 bench "${given[@]}" --engine cuda,sparse --threads 1 --batch 300,301 --precision fp32 \
        --json "$work/a.json" && says 'cuda .*this engine cannot run here' &&
    look "$work/a.json" 'len (p) == 3 and "failed" in p[0] and p[1]["hits_s"] > 0 and p[2]["hits_s"] > 0'; }
WM_CUDA_SO=$work/none.so ok "an engine that is not here is reported once and left out; the others are measured, exit 6" absent
printf 'no events\n' >"$work/bad.h5"
once ()
{
    exits 5 bench "$@" --input "$work/bad.h5" --batch 1,2,3 --threads 1 &&
        [ "$(grep -c '^ *[0-9]*\. ' "$work/said")" = 1 ]
}
ok "a bad input: no other point is tried" once --precision fp32,fast
ok "... of the pipeline too" once pipeline
ok "no such input" exits 2 bench --input "$work/none.h5"
ok "no such model" exits 2 bench --model "$work/none.onnx" --input "$made/two.h5"
ok "a bad model" exits 5 bench --model "$work/bad.h5" --input "$made/two.h5" --batch 1 --threads 1 --precision fp32
refused () { exits 2 bench "${@:2}" && says "$1"; }
ok "no such bench" refused "there are engine, pipeline and all, not 'speed'" speed
ok "no such engine" refused '.--engine. *|--engine takes a list of auto' --engine sparse,magic
ok "no such precision" refused "--precision takes a list of fp32\|split\|fast, with commas between, not 'fp64'" \
        --precision fp64
ok "a batch of no hits" refused '--batch takes a list of whole numbers from 1 to ' --batch 16,0
ok "no number" refused '--threads takes' --threads 1,,2
ok "too many numbers" refused 'at most 32 values' --batch "$(seq -s, 1 40)"
for only in "pipeline --hits 1: --hits is for engine only" "pipeline --seconds 1: --seconds is for engine only"; do
    # shellcheck disable=SC2086 # it is split
    ok "what would be ignored: ${only#*: }" refused "${only#*: }" ${only%%: *}
done
ok "no time" exits 2 bench --seconds 0
unwritable ()
{
    exits 2 bench --"$1" "$work/none/x" && says "--$1 $work/none/x: cannot be written in $work/none: No such file" && ! says 'making' >/dev/null
}
ok "a JSON file that cannot be written is reported before anything is measured" unwritable json
full ()
{
    exits 75 bench "${given[@]}" --batch 300 --threads 1 --precision fp32 --json /dev/full &&
        says '--json: cannot write: No space left on device; free some space there' && says 'sparse/.*300'
}
ok "a file on a full disk is reported; the table is printed" full
nowhere () { exits 2 bench --folder "$work/none" && says '[-]-folder .*/none does not exist'; }
ok "a folder that is not there" nowhere
ok "the parts: a malformed stream" exits 5 keep "$bin/wiremill-worker" --bench --cache "$work" <"$work/bad.h5"
ok "... batches of nothing" exits 2 keep "$bin/wiremill-producer" batches --pins x
announced ()
{
    "$broker_bench" "$work/ba" --json --announced 600 --hits 1000 >"$work/ba.json" &&
        $python -c 'import json, sys; p = json.load (open (sys.argv[1])); assert p["announced"] == 600 and p["hits"] == 6e5 and p["serves_s"] > 0
for when in ("announced", "started"): assert 0 < p[when + "_status_ms"] <= p[when + "_status_most_ms"] and p[when + "_memory_mb"] > 2, p' "$work/ba.json"
}
ok "... a large campaign is announced, its broker killed and started again" announced
with_keys ()
{
    "$broker_bench" "$work/bk" --json --keys --batches 64 --task 1000 --hits 1 >"$work/bk.json" &&
        $python -c 'import json, sys; assert json.load (open (sys.argv[1]))["hits"] == 64' "$work/bk.json" &&
        [ -s "$work/bk/join-worker" ]
}
ok "... a broker that asks for keys" with_keys
ok "... a broker bench out of range" exits 2 keep "$broker_bench" "$work/bb" --batches 1

gone () { empty && ! pgrep -f "$TMPDIR"; } # no file is left, and no process that uses the folder
# Ctrl-C after the first of many points: what was measured is printed, and nothing is left.
interrupted () # bench, signal, options...
{
    rm -f "$work/c.words"
    "$bin/wiremill" bench "$1" "${@:3}" --workers 1 --batch "$(seq -s, 300 320)" \
            --json "$work/c.json" >"$work/said" 2>"$work/c.words" &
    local pid=$!
    until_true 60 grep -q '^  1\. ' "$work/c.words" || return 1
    [ "$1" != pipeline ] || until_true 60 compgen -G "$TMPDIR/*/trace-1/wiremill-engine-*" || return 1
    kill -"$2" $pid
    wait $pid
    [ $? = 75 ] && says ' 300 ' && look "$work/c.json" '0 < len (p) < 21' && grep '^stopped' "$work/c.words" &&
        until_true 60 gone && ! grep 'goes on' "$work/c.words"
}
ok "Ctrl-C in the engine bench prints what there is" interrupted engine INT "${given[@]}"
ok "... in the pipeline bench, and no command of a campaign that is gone" interrupted pipeline INT "${inputs[@]}"
unread ()
{
    "$bin/wiremill" bench "${given[@]}" --batch 300,301,302 2>&1 >"$work/said" | head -1 && until_true 60 gone
}
ok "a reader that ends early: nothing is left" unread
quiet () { keep "$bin/wiremill" bench engine --quiet --events 1 --hits 100 --precision fp32 --threads 1 --batch 100 --seconds 0.1 && ! says 'synth: event|making 1'; }
ok "--quiet holds for the events that it makes, too" quiet
done_testing
