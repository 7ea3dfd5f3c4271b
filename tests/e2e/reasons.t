#!/bin/bash
# reasons.t - HDF5 files that cannot be read as they are: each is held with its true reason, and is scored when what the
# message tells to type was typed.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model"
in=$work/a-folder/with-a-long-name/of-$(printf '%0150d' 0)/in # commands are whole nevertheless
mkdir -p "$in" && $python tests/e2e/reasons.py make "$in" $size >"$work/wanted" || bail "no files"
n=$(find "$in" -name '*.h5' | wc -l)
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$in/*.h5" --output "$work/out" -w 1 --quiet)

ok "the others are scored" exits 3 keep "${run[@]}"
cp "$work/said" "$work/reasons"
while IFS=$'\t' read -r name pattern; do
    ok "$name: $pattern" grep -E "held: .*/$name: .*$pattern" "$work/reasons"
done <"$work/wanted"
ok "whoever wrote them is not called damaged" eval '! grep -i damaged "$work/reasons"'
cures () { $python tests/e2e/reasons.py cure "$in" "$work/reasons" | tee "$work/not"; [ "${PIPESTATUS[0]}" = 0 ]; }
ok "what each message tells to type" cures
[ ! -s "$work/not" ] || skip "$(paste -sd, "$work/not")"
ok "... and then the command that the run printed" keep "${run[@]}" --retry-held
scored () { [ "$(find "$work/out" -name '*.scores.h5' | wc -l)" = "$n" ] && $python tests/e2e/reasons.py same "$work/out"; }
ok "all have the same scores" scored
done_testing
