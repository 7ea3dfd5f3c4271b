#!/bin/bash
# physics.t - what wiremill report shows of scores: truth, files, drift, maps; computed again from the files.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
for k in 1 2 3; do
    "$bin/wiremill" synth --events 1 --seed $k --run $k --hits 2000 --tpcs $((k == 2 ? 2 : 1)) --output "$work/e$k.h5" 2>/dev/null || bail "no events"
done
echo text >"$work/e4.h5"
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f:
    f["hit_table/wire"][4:7] = 99999' "$work/e3.h5" || bail "no h5py"
"$bin/wiremill" run --quiet --model synthetic --input "$work/e*.h5" --output "$work/out" >/dev/null 2>&1
[ -e "$work/out/e3.scores.h5" ] || bail "no scores"
report () { keep "$bin/wiremill" report "$work/out" --output "$work/r.html" --pictures 0 "$@" && $python tests/e2e/page.py look "$work/r.html" >"$work/page.json"; }
again () { $python tests/e2e/physics.py "$1" "$work/page.json" "${@:2}"; }
ok "a page" report
"$bin/wiremill" truth --json "$work"/e[123].h5 "$work"/out/*.scores.h5 >"$work/truth.json"
ok "truth: NumPy and wiremill truth have the same numbers, the curves are theirs" again truth "$work/truth.json" "$work" e1 e2 e3
parts () # plane or tpc
{
    "$bin/wiremill" truth --json --by "$1" "$work"/e[123].h5 "$work"/out/*.scores.h5 >"$work/truth.json" && again parts "$work/truth.json" "$work" e1 e2 e3 &&
        keep "$bin/wiremill" truth --by "$1" "$work"/e[123].h5 "$work"/out/*.scores.h5 && ! grep -E '^.{101}' "$work/said"
}
ok "... by plane" parts plane
ok "... by TPC" parts tpc
ok "maps of mean scores by wire and tick, cell by cell" again maps 1000000 "$work" e1 e2 e3
files ()
{
    keep "$bin/wiremill" show "$work/out/e2.scores.h5" --output "$work/out/e2.html" && report && "$bin/wiremill" status --files --json "$work/out" >"$work/files.json" &&
        again files "$work/files.json" "$work/e2.h5" && grep -qF '<a href="out/e2.html">event</a>' "$work/r.html"
}
ok "a square and a row for each input, as status --files lists them; a link to the page of an event" files
origin ()
{
    "$bin/wiremill" status --json "$work/out" >"$work/status.json" && "$bin/wiremill" sql "$work/out" --json \
        "select max (begin_s + span_s) as at from minute where hits > 0 or busy_ms > 0" >"$work/ended.json" &&
        "$bin/wiremill" sql "$work/out" "select * from workers" --json >"$work/workers.json" &&
        again origin "$work/out$beside" "$work/status.json" "$work/ended.json" "$work/workers.json"
}
ok "when it began and ended, how long it took, on which hosts, whose it is" origin
few ()
{
    { echo '<!doctype html><html>' && "$bin/wiremill-producer" report --pictures 0 --hits 4000 "$work"/out/*.scores.h5 && echo '</html>'; } >"$work/s.html" &&
        grep -q 'with truth did not fit into 4000 hits' "$work/s.html"
}
ok "outputs that are too many together are left out, which is explained" few
part () # outputs: what the producer writes of them, as a page
{
    { echo '<!doctype html><html>' && "$bin/wiremill-producer" report --pictures 0 "$@" && echo '</html>'; } >"$work/s.html" &&
        $python tests/e2e/page.py look "$work/s.html" >"$work/page.json"
}
some () { part --hits 4500 "$work"/out/e[123].scores.h5 && again maps 1500 "$work" e1 e2 e3; }
ok "maps of a sample have its hits" some
nowhere ()
{
    mv "$work/e2.h5" "$work/aside" && part "$work"/out/e[123].scores.h5 && grep -q 'Without places: 1; the first: .*e2.scores.h5: its input cannot be read here' "$work/s.html" &&
        again maps 1000000 "$work" e1 e3 && part "$work/out/e2.scores.h5" && grep -q 'No maps by wire and tick: .*its input cannot be read here' "$work/s.html" &&
        cp "$work/e1.h5" "$work/e2.h5" && part "$work/out/e2.scores.h5" && grep -q 'No maps by wire and tick: ' "$work/s.html" && mv "$work/aside" "$work/e2.h5"
}
ok "... leave out an output whose input is gone, or is another" nowhere
drift ()
{
    $python tests/e2e/physics.py copies "$work/out/e1.scores.h5" "$work" && part "$work"/d?.scores.h5 && again drift "$work"
}
ok "mean scores of outputs, and the one that lies apart is named" drift
no_drift () { part "$work"/d[0-3].scores.h5 && ! grep -q 'Drift' "$work/s.html" && part "$work"/d[0-4].scores.h5 && grep -q 'No output lies apart' "$work/s.html"; }
ok "four outputs have no spread; of five alike none lies apart" no_drift
changed ()
{
    exits 1 keep "$bin/wiremill" compare "$work/d0.scores.h5" "$work/d5.scores.h5" --page "$work/c.html" &&
        $python tests/e2e/page.py look "$work/c.html" >"$work/page.json" && again changed "$work/e1.h5" "$work/d0.scores.h5" "$work/d5.scores.h5"
}
ok "compare: the hits that are called otherwise; efficiency, purity and ROC of both" changed
strangers () # outputs of two inputs: one truth would judge the hits of both
{
    mkdir "$work/far" && cp -p "$work/e1.h5" "$work/far" && cp "$work/d5.scores.h5" "$work/far" &&
        $python -c 'import h5py, sys; h5py.File (sys.argv[1], "a").attrs["input"] = sys.argv[2]' "$work/far/d5.scores.h5" "$work/far/e1.h5" &&
        grep -q '<h2>Truth</h2>' "$work/c.html" && exits 1 "$bin/wiremill" compare "$work/d0.scores.h5" "$work/far/d5.scores.h5" --page "$work/far.html" &&
        ! grep '<h2>Truth</h2>' "$work/far.html"
}
ok "... but not with the truth of one if their inputs are two" strangers
# Two campaigns: b/ has the first output under the second one's name, with other scores; an output of its own; the third as it is.
campaigns ()
{
    mkdir "$work/b" && cp "$work/d5.scores.h5" "$work/b/e2.scores.h5" && cp "$work/out/e3.scores.h5" "$work/b" && cp "$work/out/e2.scores.h5" "$work/b/later.scores.h5" &&
        cp "$work/out/e2.scores.h5" "$work/b/more.scores.h5" && keep "$bin/wiremill" show "$work/b/e2.scores.h5" --output "$work/b/e2.html" &&
        exits 1 keep "$bin/wiremill" compare "$work/out" "$work/b" --page "$work/c.html" --note 'a <note>' &&
        $python tests/e2e/page.py look "$work/c.html" >"$work/page.json" && again campaigns "$work/out" "$work/b" e1=e2 e2=later e3=e3
}
ok "compare of two campaigns: a row for each output, hits called otherwise, links to them on the pages of events, truth" campaigns
command -v chromium >/dev/null || { skip "chromium is not installed (make deps-browser)"; done_testing; }
report || bail "no page"
browse () { $python tests/e2e/browser.py "file://$work/r.html"; }
looks ()
{
    browse <<'STEPS'
size 1440 900
true getComputedStyle (document.body).backgroundColor == "rgb(255, 255, 255)"
size 360 740
fit
size 1440 900 dark
true getComputedStyle (document.body).backgroundColor == "rgb(20, 23, 26)"
true [...document.querySelectorAll ("svg:not(:has(image)) text:not([fill])")].every (t => getComputedStyle (t).fill == "rgb(220, 220, 220)")
true [...document.querySelectorAll (".mark text")].every (t => getComputedStyle (t).fill == "rgb(201, 166, 240)")
true getComputedStyle (document.querySelector (".grid .held")).backgroundColor == "rgb(168, 20, 32)"
size 360 740 dark
fit
quiet
STEPS
}
ok "the page fits a telephone, and is dark on request, texts of pictures too" looks
done_testing
