#!/bin/bash
# surfaces.t - every number that run, status, top, report, serve, metrics and Python print of a campaign is the same, and is that of
# its outputs and its ledger: campaigns that are held, paused, clean, killed, and under way.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model or events"
unset WM_JOIN_FILE WM_BROKER
of=(--model "$made/model-${small}1.wmm" --spec "$work/labels.yaml")
export SURFACES_PORT=$((port + 7)) WIREMILL_LIBRARY=$PWD/${WM_BUILD:-build/release}/lib/libwiremill.so.1
same () { PATH=$bin:$PATH PYTHONPATH=ops/python timeout 300 $python tests/e2e/surfaces.py "$bin" "$@"; } # output, what run printed
status () { "$bin/wiremill" status --json "$out"; }
done_hits () { status | $python -c 'import json, sys; print (json.load (sys.stdin)["hits"]["done"])'; }
is () { status | $python -c 'import json, sys; s = json.load (sys.stdin); sys.exit (not eval (sys.argv[1]))' "$1"; } # expression of s

# ---- held: a file that is damaged, and hits that have no place ---------------------------------------------------
for name in a b; do cp "$made/layout.h5" "$work/$name.h5"; done
head -c 5000 "$made/layout.h5" >"$work/c.h5"
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f:
    f["hit_table/wire"][4:9] = 99999' "$work/b.h5" || bail "no h5py"
"$bin/wiremill" run --quiet "${of[@]}" --input "$work/[abc].h5" --output "$work/held" >"$work/held.txt" 2>&1
ok "a campaign with a file and hits that are held" same "$work/held" "$work/held.txt"

# ---- paused, and resumed; a slow engine, so that it is under way on any machine ----------------------------------
slow_engine
export WM_KILLER_SLOW_MS=100
endpoint=ipc://$work/b out=$work/out
serve () # options...
{
    "$bin/wiremill" broker "${of[@]}" --batch-hits 40 --output "$out" --listen "$endpoint" "$@" >>"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
score () { "$bin/wiremill" work "$out" --engine openvino >>"$work/work" 2>&1 & worker=$!; }
produce () { "$bin/wiremill" produce --broker "$endpoint" --input "$work/[de].h5" >"$work/produce.txt" 2>&1 & producer=$!; }
still () { is 's["batches"]["running"] == 0 and s["hits"]["done"] > 0'; }
cp "$made/layout.h5" "$work/d.h5" && cp "$work/b.h5" "$work/e.h5" # so that something is held while a broker serves
serve || bail "no broker"
produce; score
until_true 120 is 's["hits"]["done"] > 0' || bail "nothing is scored"
"$bin/wiremill" pause "$out" >/dev/null
until_true 120 still || bail "it does not pause"
ok "one that is paused: no time left is shown" same "$out"
# Of an open input the reasons are known; how many hits have each, once its output is written.
open () { keep "$bin/wiremill" "$@" "$out" && says "^held: 5 hits of $work/e.h5: bad wire; others, and how many of each, are known once its output is written$"; }
known () { open held && open why; }
ok "... held and why have the reasons of hits of an open input" known
"$bin/wiremill" resume "$out" >/dev/null
wait $producer
ok "... resumed, and finished, while its broker serves" same "$out"
kill $worker $broker
wait $worker $broker
ok "... and without a broker" same "$out"

if [ "$(size 0 1 1)" = 0 ]; then done_testing; fi

# ---- clean ------------------------------------------------------------------------------------------------------
"$bin/wiremill" run --quiet "${of[@]}" --input "$work/[ad].h5" --output "$work/clean" >"$work/clean.txt" 2>&1
ok "a clean one" same "$work/clean" "$work/clean.txt"

# ---- stopped by Ctrl-C: the line for scripts counts what the workers finished -------------------------------------
"$bin/wiremill" run --quiet "${of[@]}" --engine openvino --batch-hits 40 --input "$work/[de].h5" --output "$work/stop" >"$work/stop.txt" 2>&1 &
running=$!
out=$work/stop
until_true 120 is 's["hits"]["done"] > 0' || bail "nothing is scored"
kill -INT $running
wait $running
ok "one that is stopped" same "$work/stop" "$work/stop.txt"

# ---- killed: a worker, then the broker, twice ---------------------------------------------------------------------
out=$work/killed
: >"$work/broker"
serve || bail "no broker"
produce; score
for life in 1 2; do
    before=$(done_hits)
    until_true 120 is "s['hits']['done'] > $before" || bail "nothing is scored"
    kill -9 $worker; wait $worker 2>/dev/null
    score
    until_true 120 is "s['hits']['done'] > $before and s['workers_total'] > 0" || bail "nothing is scored"
    kill -9 $broker; wait $broker 2>/dev/null
    ok "one whose worker and broker were killed, $life" same "$out"
    serve || bail "no broker"
done

# ---- under way: nothing moves while no worker is there --------------------------------------------------------------
before=$(done_hits)
until_true 120 is "s['hits']['done'] > $before" || bail "nothing is scored"
kill -9 $worker; wait $worker 2>/dev/null
until_true 120 is 's["workers_total"] == 0 and s["batches"]["running"] == 0'
ok "one that is under way" same "$out"
score
wait $producer
ok "... and finished, after all of it" same "$out"
kill $worker $broker
wait $worker $broker
ok "... and without a broker" same "$out"
lost () { "$bin/wiremill" sql "$out" "select * from workers"; [ "$("$bin/wiremill" sql "$out" "select worker from workers where dismissed_because like 'lost:%'" | wc -l)" -gt 1 ]; }
ok "... a worker that was killed did not leave" lost
done_testing
