#!/bin/bash
# report.t - wiremill report: one page of a campaign that is finished, holds hits, waits, is empty, serves clients.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model or events"
unset WM_JOIN_FILE WM_BROKER
hostile='x & <b>y'
cp "$made/layout.h5" "$work/a.h5"
cp "$made/layout.h5" "$work/$hostile.h5"
echo text >"$work/c.h5"
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f:
    f["hit_table/wire"][4:7] = 99999
    print (len (f["hit_table/wire"]))' "$work/$hostile.h5" >"$work/n" || bail "no h5py"
n=$(<"$work/n")
of=(--model "$made/model-${small}1.wmm" --spec "$work/labels.yaml")
report () { keep "$bin/wiremill" report --output "$work/r.html" "$@"; }
look () { $python tests/e2e/page.py look "$work/r.html" >"$work/page.json"; }
holds () { $python tests/e2e/page.py holds "$work/page.json" "$@"; } # expressions of what the page holds

"$bin/wiremill" run --quiet "${of[@]}" --input "$work/[ax]*.h5" --input "$work/c.h5" --output "$work/out" >/dev/null 2>&1
made () { report "$work/out" --note 'For <i>them</i>' && look; }
ok "a page: well-formed, without scripts and references, each picture with a text, each table with headers" made
seen () { for width in 1440 360; do for how in light dark; do printf '%s\n' "size $width 900 $how" fit audit; done; done | $python tests/e2e/browser.py "file://$work/r.html"; }
in_chromium "... in Chromium: what readers of screens need, and contrast" seen
scored=$(printf '%s' "$((2 * n - 3))" | sed ':a;s/\B[0-9]\{3\}\>/,&/;ta')
what ()
{
    holds "'Finished. 2 of 3 inputs are written. Inputs, events or batches that are held or changed: 1. Held: 3 hits.' in d['text']" \
        "r['Inputs'] == ['3: 2 written, 0 open, 1 held, 0 changed']" "r['Hits'] == ['$scored scored, 3 held']" \
        "len (r['Model (SHA-256)'][0]) == 64" "r['Code'][0].startswith ('wiremill ')" "'Written by wiremill report' in d['text']" \
        "any ('/fp32/' in row[0] and row[1] == '$scored' for row in d['rows'])" "'For <i>them</i>' in d['text']"
}
ok "... what was scored, by what" what
held ()
{
    holds "r['$work/c.h5'][2] == 'input' and r['$work/c.h5'][4].startswith ('a text;')" "r['bad wire'] == ['3']" \
        "r['$work/$hostile.h5'] == ['3', '{:,}'.format ($n), '3 bad wire']" "'<b>' not in d['source'] and '<i>' not in d['source']"
}
ok "... what is held, and why; names with markup are text" held
times ()
{
    holds "'$scored hits from 20' in d['text']" "'Workers by time' in d['titles']" "r['compute'][1] == r['commit'][1] != '0'" \
        "'CPU time of workers and their engines' in r" "r['To workers'][0] != '0 B'" \
        "'Retries and faults No faults.' in d['text'] and not [row for row in d['rows'] if row[0].startswith ('GPU')]"
}
ok "... throughput, workers and latencies of the history" times
# The table of hits by plane and label, of all hits or of so many of each output, in eight pieces that are evenly spaced.
cat >"$work/scores.py" <<'PYTHON'
"""scores.py - PAGE.json HITS SCORES...: counts hits of outputs as the page has them"""
import json, sys
import h5py, numpy as np
rows = {row[0]: row[1:] for row in json.load(open(sys.argv[1]))["rows"]}
n = np.zeros((3, 5), int)
for path in sys.argv[3:]:
    t = h5py.File(path)["emtrkmichel"]
    s = np.stack([t[l][:] for l in ("track", "em", "none", "michel")])
    label = np.where(t["status"][:] == 0, np.where(s[3] >= .5, 3, np.nan_to_num(s[:3]).argmax(0)), 4)
    take, each = min(len(label), int(sys.argv[2])), len(label) // 8
    pieces = [slice(p * each, p * each + take * (p + 1) // 8 - take * p // 8) for p in range(8)]
    for piece in pieces if take < len(label) else [slice(None)]:
        np.add.at(n, (t["plane"][:][piece], label[piece]), 1)
for p in range(3):
    assert rows["plane %d" % p] == ["{:,}".format(v) for v in n[p]], (p, rows["plane %d" % p], n[p])
PYTHON
scores () { $python "$work/scores.py" "$work/page.json" 1000000 "$work"/out/*.scores.h5; }
ok "... scores by label and plane, as h5py reads them" scores
pieces ()
{
    { echo '<!doctype html><html>' && "$bin/wiremill-producer" report --pictures 0 --hits 1001 "$work"/out/*.scores.h5 && echo '</html>'; } >"$work/s.html" &&
        $python tests/e2e/page.py look "$work/s.html" >"$work/s.json" && $python "$work/scores.py" "$work/s.json" 500 "$work"/out/*.scores.h5
}
ok "of large outputs pieces are read" pieces
pictures ()
{
    holds "[t for t in d['titles'] if t.startswith ('Scores of')] == ['Scores of ' + l for l in ('track', 'em', 'none', 'michel')]" \
        "len ([t for t in d['titles'] if t.startswith ('Event 1:1:1, ')]) == 2" "'patch: [' in d['text'] and 'of 2 of 2 outputs' in d['text']" \
        "'$hostile.scores.h5: Event 1:1:1, TPC 0' in d['text']"
}
ok "... pictures of events, the specification" pictures
command ()
{
    holds "r['Its outputs'] == ['$work/out']" "len (r['Campaign'][0]) == 32" \
        "\"labels.yaml --input '$work/[ax]*.h5' --input $work/c.h5 --output $work/out\" in d['text']"
}
ok "... provenance, and the command" command
# Everything but the time is the same; pictures end with it until the campaign's last minute is over.
page () { report "$work/out" --note 'For <i>them</i>' >/dev/null && sed 's/As of [^<]*//' "$work/r.html"; }
again () { page >"$work/first" && page | cmp - "$work/first"; }
ok "the same campaign gives the same page, which is replaced" until_true 120 again
sample ()
{
    report "$work/out" --outputs 1 --pictures 0 && look &&
        holds "'of 1 of 2 outputs' in d['text']" "not [t for t in d['titles'] if t.startswith ('Event')]" "r['bad wire'] == ['3']" &&
        report "$work/out" --outputs 0 && look && holds "'No outputs were read (--outputs 0).' in d['text']"
}
ok "a sample of outputs" sample
# Bytes that change without a change of size and time are not noticed before the output is read.
gone ()
{
    local file=$work/out/$hostile.scores.h5
    rm "$work/a.h5" && touch -r "$file" "$work/time" && printf x | dd of="$file" conv=notrunc 2>/dev/null && touch -r "$work/time" "$file"
    report "$work/out" && look &&
        holds "'Not read: 1 of 2 outputs; the first: $file: ' in d['text']" \
            "'its input $work/a.h5 cannot be read here: No such file' in d['text']" \
            "'No picture of $file: it states no input, cannot be read' in d['text']" "r['$work/$hostile.h5'][2] == 'not read'"
}
ok "an input that is gone, an output that is damaged: explained, and the rest is there" gone
moved ()
{
    mv "$work/out" "$work/aside" && report --campaign "$work/out$beside" && look && mv "$work/aside" "$work/out" &&
        holds "'The outputs cannot be read here: $work/out: No such file' in d['text']" "r['Hits'] == ['$scored scored, 3 held']"
}
ok "outputs that are gone" moved

# Before anything is scored, while a broker waits, by its address, after it has ended.
"$bin/wiremill" broker "${of[@]}" --output "$work/waits" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
broker=$!
up () { until_true 60 grep -q "\"pid\": *$broker" "$work/waits$beside/endpoint.json"; }
ok "a broker" up
empty ()
{
    report "$work/waits" && look && holds "'No input has been announced yet.' in d['text']" "'while a broker serves' in d['text']" \
        "'No output is written yet.' in d['text']" "'Nothing is held.' in d['text']" "'patch: [' in d['text']"
}
ok "a campaign without inputs" empty
"$bin/wiremill" pause "$work/waits" --why '<u>lunch</u>' >/dev/null
timeout 300 "$bin/wiremill" produce --quiet --broker "ipc://$work/b" --input "$made/layout.h5" >/dev/null 2>&1 &
producer=$!
has_input () { "$bin/wiremill" status --json "$work/waits" | grep -q '"total": 1'; }
paused ()
{
    until_true 60 has_input && report --broker "ipc://$work/b" && look &&
        holds "': <u>lunch</u>.' in d['text']" "'0 of 1 inputs are written' in d['text']" "'<u>' not in d['source']" \
            "r['Inputs'] == ['1: 0 written, 1 open, 0 held, 0 changed']" "'is not known here' in d['text']"
}
ok "paused, by the broker's address" paused
kill $producer $broker
wait $producer $broker 2>/dev/null
stopped () { report "$work/waits" && look && holds "'Stopped. 0 of 1' in d['text'] and 'No broker runs; what is done is kept.' in d['text']"; }
ok "stopped" stopped
"$bin/wiremill" broker "${of[@]}" --clients --campaign "$work/clients.wiremill" --listen "ipc://$work/c" >"$work/broker" 2>&1 &
broker=$!
clients ()
{
    until_true 60 grep -q "\"pid\": *$broker" "$work/clients.wiremill/endpoint.json" && report "$work/clients.wiremill" && look &&
        holds "'It serves programs that wait for scores, 0 of them now' in d['text']" "'Inputs' not in r and 'Scores' not in d['text']"
}
ok "a broker for clients" clients
kill $broker
wait $broker 2>/dev/null

# Nothing else is replaced, and nothing is left behind.
ok "no page where there is no campaign" refused 2 'none does not exist' "$bin/wiremill" report "$work/none" -o "$work/none.html"
ok "an output is not replaced" refused 2 'a.scores.h5 is no page of wiremill report; give another name, or --force' \
    "$bin/wiremill" report "$work/out" -o "$work/out/a.scores.h5"
ok "a folder that is not there" refused 2 'cannot be written in .*nowhere: No such' "$bin/wiremill" report "$work/out" -o "$work/nowhere/r.html"
ok "no name for the page" refused 2 'output' "$bin/wiremill" report "$work/out"
nothing () { [ ! -e "$work/none.html" ] && [ -z "$(find "$work" -name '*.html.*')" ]; }
ok "... and nothing is left" nothing
done_testing
