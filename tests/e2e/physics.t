#!/bin/bash
# physics.t - what wiremill report shows of scores: truth, files, drift, maps; computed again from the files.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
for k in 1 2 3; do
    "$bin/wiremill" synth --events 1 --seed $k --run $k --hits 2000 --tpcs 1 --output "$work/e$k.h5" 2>/dev/null || bail "no events"
done
"$bin/wiremill" run --quiet --model synthetic --input "$work/e*.h5" --output "$work/out" >/dev/null 2>&1 || bail "no scores"
report () { keep "$bin/wiremill" report "$work/out" --output "$work/r.html" --pictures 0 "$@" && $python tests/e2e/page.py look "$work/r.html" >"$work/page.json"; }
again () { $python tests/e2e/physics.py "$1" "$work/page.json" "${@:2}"; }
ok "a page" report
"$bin/wiremill" truth --json "$work"/e?.h5 "$work"/out/*.scores.h5 >"$work/truth.json"
ok "truth: NumPy and wiremill truth have the same numbers, the curves are theirs" again truth "$work/truth.json" "$work" e1 e2 e3
few ()
{
    { echo '<!doctype html><html>' && "$bin/wiremill-producer" report --pictures 0 --hits 4000 "$work"/out/*.scores.h5 && echo '</html>'; } >"$work/s.html" &&
        grep -q 'with truth did not fit into 4000 hits' "$work/s.html"
}
ok "outputs that are too many together are left out, which is explained" few
done_testing
