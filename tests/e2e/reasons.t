#!/bin/bash
# reasons.t - what cannot be read as it is, or is not what its user takes it for: each is held, or warned of, with its true
# reason, and is scored when what the message tells to type was typed.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled && make_events join --events 3 --seed 8 --hits 600 --tpcs 1 || bail "no model"
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

# Mistakes of a user, and what is printed: FOLDER/NAME/ has the files and `wanted`: a line for each campaign, its exit code and
# its options, then the lines that it prints, whole but for the time. {} is FOLDER/NAME.
$python tests/e2e/reasons.py mistakes "$work/mistakes" $size "$made/layout.h5" "$made/join.h5" || bail "no mistakes"
mistake () # name
{
    local folder=$work/mistakes/$1 code options line how
    exec 3<"$folder/wanted"
    read -r code options <&3
    options=${options//\{\}/$folder}
    eval "exits $code keep '$bin/wiremill' run -w 1 --quiet --output '$work/of-$1' $options" || return 1
    while IFS= read -r line <&3; do
        line=${line//\{\}/$folder}
        how=F
        [[ $line != "~"* ]] || how=E # a regular expression
        sed -E 's/^[0-9T:Z-]+ +producer: //' "$work/said" | grep -${how}xq -- "${line#"~"}" || { echo "not printed: $line"; return 1; }
    done
}
for name in events patches channels inputs run tag shell; do
    ok "mistakes: $name" mistake $name
done
mistake_gz () # the command that is printed names the unpacked file
{
    mistake packed && gunzip -k "$work/mistakes/packed/a.h5.gz" && grep -A 1 'then type:' "$work/said" | tail -n 1 >"$work/type" &&
        exits 0 keep bash "$work/type"
}
ok "mistakes: packed, and what is printed is typed" mistake_gz
done_testing
