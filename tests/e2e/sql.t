#!/bin/bash
# sql.t - the ledger in SQL: its views are a stable interface, of a campaign that is served and of one that is not, by `wiremill
# sql` and by SQLite itself.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
endpoint=ipc://$work/b out=$work/out
printf 'no HDF5' >"$work/bad.h5"
exits 3 "$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$out" "$made/two.h5" "$work/bad.h5" >"$work/run" 2>&1 ||
    bail "no campaign: $(tail -3 "$work/run")"
sql () { "$bin/wiremill" sql "$out" "$@"; }

# name: columns. Add to them; rename and remove none: people's scripts ask for them.
stable="progress made inputs written held open events hits hits_held hits_waiting last_minute
inputs id path output state kicks bytes events hits hits_held batches_held output_bytes written_at why
held input path event batch hits status why
workers id worker device engine from to ended batches hits hits_per_s busy cpu_s dismissed_because
rates begin seconds workers hits hits_per_s batches events bytes_from_producers bytes_to_workers bytes_from_workers journal_bytes \
workers_busy stage_ms queue_ms compute_ms commit_ms
faults begin seconds held fail lost preempt duplicate late alarm again
marks id from to kind times why"
# What SQLite itself, in another program, reads in a ledger: rows of JSON.
sqlite () # ledger, query
{
    python3 -c '
import json, sqlite3, sys
ledger = sqlite3.connect(sys.argv[1])
ledger.row_factory = sqlite3.Row
print(json.dumps([dict(row) for row in ledger.execute(sys.argv[2])]))' "$@"
}
has_columns () # ledger
{
    python3 -c '
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1])
for view, *columns in map(str.split, sys.argv[2].splitlines()):
    names = [column[0] for column in ledger.execute(f"SELECT * FROM {view}").description]
    assert set(columns) <= set(names), (view, set(columns) - set(names))' "$1" "$stable"
}
ok "SQLite reads all columns of all views" has_columns "$out$beside/ledger.db"
same () # query: both print the same rows
{
    sqlite "$out$beside/ledger.db" "$1" >"$work/a" && sql "$1" --json >"$work/b" &&
        python3 -c 'import json, sys; a, b = (json.load(open(x)) for x in sys.argv[1:]); assert a == b and a, (a, b)' "$work/a" "$work/b"
}
all_same () { local view; for view in progress inputs held workers rates; do same "select * from $view" || return; done; }
ok "... and sql --json prints what it reads" all_same

is () # JSON of a query, Python: true of its rows r and the status s
{
    "$bin/wiremill" status "$out" --json >"$work/status" && sql "$1" --json >"$work/said" &&
        python3 -c 'import json, sys; r, s = (json.load(open(x)) for x in sys.argv[1:3]); assert eval(sys.argv[3]), (r, s)' \
            "$work/said" "$work/status" "$2"
}
progress="r[0]['inputs'] == s['inputs']['total'] and r[0]['written'] == s['inputs']['written'] and r[0]['held'] == s['inputs']['held']"
ok "progress is the status'" is "select * from progress" "$progress and r[0]['hits'] == s['hits']['done'] > 0"
ok "inputs: one written, one held and why" \
    is "select * from inputs order by id" "sorted(x['state'] for x in r) == ['held', 'written'] and any('bad.h5' in x['path'] and x['why'] for x in r)"
ok "held names it" is "select * from held" "len(r) == 1 and r[0]['path'].endswith('bad.h5') and r[0]['status'] == 'held' and r[0]['why']"
ok "rates and workers have all hits" is "select (select sum(hits) from rates) a, (select sum(hits) from workers) b" \
    "r[0]['a'] == r[0]['b'] == s['hits']['done']"

listed () { keep sql && says '^view +columns$' && says '^held +input, path' && [ "$(wc -L <"$work/said")" -le 80 ]; }
ok "without a query it lists the views, in 80 columns" listed
columns () { keep sql "select 1 as a, 'xy' as long_name union all select 22, null" && says '^ a  long_name$' && says '^ 1  xy$' && says '^22  $'; }
ok "numbers are to the right, texts to the left" columns
ok "a query with a syntax error" refused 2 'near "selct": syntax error; .wiremill sql DIR. without a query lists' "$bin/wiremill" sql "$out" "selct 1 from x"
ok "... of an unknown column" refused 2 'no such column: nosuch' "$bin/wiremill" sql "$out" "select nosuch from inputs"
for change in "delete from input" "insert into counter values ('x', 1, 1)" "create table x (y)" "attach '$work/x.db' as x" "pragma user_version = 9" \
    "delete from input returning id" "pragma journal_mode = delete"; do
    ok "... that is no SELECT: $change" refused 2 'the query (is no SELECT|may only read)' "$bin/wiremill" sql "$out" "$change"
done
ok "... with two columns of one name, as JSON" refused 2 "two columns have one name" "$bin/wiremill" sql "$out" "select 1 as a, 2 as a" --json
ok "... of two statements" refused 2 'more than one statement' "$bin/wiremill" sql "$out" "select 1; select 2"
ok "a folder that does not exist" refused 2 'nosuch does not exist' "$bin/wiremill" sql "$work/nosuch" "select 1"
ok "... nothing has changed" all_same

"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
broker=$!
ok "a broker serves it" until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
ok "progress of a campaign that is served" is "select * from progress" "$progress"
ok "SQLite reads its copy, too" has_columns "$out$beside/ledger-copy.db"
together ()
{
    local n pids=()
    for n in 1 2 3 4 5 6 7 8; do sql "select count(*) as n from inputs" --json >"$work/n$n" & pids+=($!); done
    for n in 1 2 3 4 5 6 7 8; do wait "${pids[n - 1]}" && grep -q '"n":2' "$work/n$n" || return; done
}
ok "eight at a time" together
kill $broker
ends () { wait $broker && [ ! -e "$out$beside/ledger-copy.db" ]; }
ok "it ends, and leaves no copy" ends
ok "... and all is as it was" all_same

# Of a file that is written, one hit held.
one_held () # no batch of it is
{
    cp "$made/two.h5" "$work/one.h5" && build/venv/bin/python -c 'import sys, h5py
h5py.File(sys.argv[1], "r+")["hit_table/wire"][0] = 1000000' "$work/one.h5" &&
        exits 3 "$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --output "$work/one" "$work/one.h5" &&
        keep "$bin/wiremill" sql "$work/one" "select hits, why from held" && says '^ *1 +some of its hits are held: its output has'
}
[ ! -x build/venv/bin/python ] || ok "held has the hits of a file that is written" one_held
done_testing
