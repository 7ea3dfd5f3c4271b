#!/bin/bash
# marks.t - the time line: pauses, kills, lost workers, held inputs and drains, in SQL, on the pages of report and serve, and in top.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] && has curl || { echo "1..0 # SKIP no build/venv or no curl (make test makes it)"; exit 0; }
unset WM_JOIN_FILE WM_BROKER
make_model "${small}1" || bail "no model"
out=$work/out http=127.0.0.1:$((port + 5))
echo text >"$work/bad.h5"
broker ()
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "ipc://$work/b" >>"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
worker () { "$bin/wiremill" work "$out" >>"$work/work" 2>&1 & }
of_status () { "$bin/wiremill" status --json "$out" | $python -c 'import json, sys; s = json.load (sys.stdin); assert eval (sys.argv[1]), s' "$1"; }
kinds () { "$bin/wiremill" sql "$out" --json "select group_concat (kind, ' ') k from (select kind from marks order by id)" | grep -q "\"k\": *\"$1\""; }

ok "a broker" broker
kinds_begin () { kinds broker; }
ok "... marks its begin at once" kinds_begin
worker
first=$!
worker
second=$!
ok "two workers" until_true 120 of_status "s['workers_by_state']['idle'] == 2"
killed () { "$bin/wiremill" pause "$out" --why 'tea & <b>' && kill -9 $broker && { wait $broker; true; } 2>/dev/null; }
ok "paused, and its broker killed at once" killed
ok "another broker" broker
"$bin/wiremill" resume "$out" >/dev/null
ok "they come again" until_true 120 of_status "s['workers_by_state']['idle'] == 2"
kill -9 $first
ok "a worker is lost" until_true 60 kinds "broker paused broker resumed lost"
ok "an input is held" exits 5 "$bin/wiremill" produce --quiet --broker "ipc://$work/b" --input "$work/bad.h5"
page () { curl -s -m 20 "http://$http/" >"$work/page"; }
# The letters of a graph, and of its table: both in their order, of the page that was fetched.
cat >"$work/letters.py" <<'PYTHON'
"""letters.py - PAGE PATTERN [ID]: the letters of the picture, of this id, match, and those of each table of marks are all"""
import re, sys
page = open(sys.argv[1], encoding="utf-8").read()
part = page[page.index('<figure id="%s"' % sys.argv[3]):] if len(sys.argv) > 3 else page
part = part[:part.index("</figure>")] if len(sys.argv) > 3 else part
picture = "".join(re.findall(r'<g class="mark">.*?>([A-Z])</text>', part.split("</figure>")[0]))
table = "".join(re.findall(r'<th scope="row">([A-Z])</th>', part[part.index('class="marks"><caption'):]))
assert re.fullmatch(sys.argv[2], picture) and re.fullmatch(sys.argv[2].replace("?", ""), table), (picture, table)
assert "<b>" not in part.replace("<b>Time", "") and "tea &amp; &lt;b&gt;" in part, part
PYTHON
"$bin/wiremill" serve --listen "$http" --interval 0.2 "$out" >"$work/serve" 2>&1 &
serve=$!
served () { page && $python "$work/letters.py" "$work/page" "$1" minutes; }
ok "serve draws and lists them while a broker serves" until_true 60 served BPBRLH
"$bin/wiremill" drain "$out" >/dev/null
ok "workers are sent away" until_true 60 of_status "not s['workers_total']"
kill $broker
wait $broker 2>/dev/null
wait $second 2>/dev/null
ok "the ledger has all in their order" kinds "broker paused broker resumed lost held drained ended"
why ()
{
    keep "$bin/wiremill" sql "$out" "select kind, times, why from marks" && says '^paused +1  by .*: tea & <b>$' && says '^resumed +1  by ' &&
        says '^broker +1  started$' && says '^broker +1  started again after a kill' && says '^lost +1  .*went without a word, idle$' &&
        says '^held +1  /.*/bad.h5: a text;' && says '^drained +1  all workers, by '
}
ok "... with who and why" why
ok "serve, of the ledger" until_true 60 served BPBRLHDE
# The same by status, in words and as JSON.
words ()
{
    keep "$bin/wiremill" status --marks "$out" && [ "$(wc -l <"$work/said")" = 8 ] &&
        says '^[A-Z][a-z]+ [0-9]+ [0-9:]{8}  a broker began to serve: started$' && says '  the campaign was paused: by .*: tea & <b>$' && says '  a worker was lost: .*went without a word, idle$'
}
ok "status --marks has them in words" words
as_json ()
{
    "$bin/wiremill" status --marks --json "$out" | $python -c 'import json, sys; d = json.load (sys.stdin); assert d["schema"] == "wiremill-marks-1"
print (" ".join (m["kind"] for m in d["marks"])); assert all (m["n"] == 1 and m["from_s"] <= m["to_s"] for m in d["marks"])' | grep -x 'broker paused broker resumed lost held drained ended'
}
ok "... and as JSON" as_json
two () { refused 2 'give one of --watch, --files and --marks' "$bin/wiremill" status --marks --files "$out"; }
ok "... and not with the inputs" two
kill $serve
wait $serve 2>/dev/null
report () { "$bin/wiremill" report --output "$work/r.html" "$out" >/dev/null && $python tests/e2e/page.py look "$work/r.html" >"$work/page.json"; }
reported () { report && $python "$work/letters.py" "$work/r.html" "B?PBRLHD?E?"; }
ok "report draws and lists them" reported
done_testing
