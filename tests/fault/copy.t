#!/bin/bash
# copy.t - a campaign's folder copied while its broker runs (COPIES at random moments; as it comes, the ledger
# first, or the journal first, some time apart): `wiremill run` refuses the copy by name, `wiremill rebuild`
# makes it whole or reports why it cannot, and then the same command ends it with the output of an undisturbed
# run; and so does the original.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
copies=${COPIES:-$(size 2 50 1000)} RANDOM=${SEED:-1}
echo "# COPIES=$copies SEED=${SEED:-1}"
crew_model --events 1 --hits 1200
out=$work/out copy=$work/copy
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --workers 2 --threads 1 --batch-hits 64 --input "$made/crew-[12].h5")

# Any moment: before it is begun, while results come, when one output is there.
moment ()
{
    local file=$out
    [ $((RANDOM % 3)) = 0 ] || file="$out$beside/journal/*.result"
    [ $((RANDOM % 3)) != 0 ] || file=$out/crew-1.scores.h5
    until compgen -G "$file" >/dev/null || ! kill -0 $original 2>/dev/null; do sleep 0.01; done
    sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
}
pause () { sleep "0.0$((RANDOM % 10))"; }
take_copy () # files vanish while they are copied, which is reported and ignored
{
    local first=(ledger.db ledger.db-wal)
    drop "$copy"
    case $((RANDOM % 3)) in
    0) cp -r "$out" "$copy" && cp -r "$out$beside" "$copy$beside" ;;
    1) first=(journal) ;&
    2) mkdir -p "$copy" "$copy$beside"
       (cd "$out$beside" && cp -r "${first[@]}" "$copy$beside")
       pause
       cp -rn "$out$beside/." "$copy$beside"
       cp -rn "$out/." "$copy" ;;
    esac 2>/dev/null
    return 0
}
# The result of the copy: 0 right, 2 refused with a message, 1 neither.
judge ()
{
    local code was_running
    grep -q '^running' "$copy$beside/lock" 2>/dev/null
    was_running=$?
    "${run[@]}" --output "$copy" >"$work/run.words" 2>&1
    code=$?
    if [ $was_running != 0 ]; then # copied before it was begun, or after its end
        [ $code = 0 ] && same_copy && return 0
        grep -q "pinned to output .*wiremill rebuild" "$work/run.words" && code=5
    elif ! grep -q 'is a copy of a campaign that was running.*wiremill rebuild' "$work/run.words"; then
        code=1
    fi
    [ $code = 5 ] || { echo "run on a copy: exit $code: $(tail -n 3 "$work/run.words")"; return 1; }
    "$bin/wiremill" rebuild --output "$copy" "$copy" >"$work/rebuild.words" 2>&1
    code=$?
    if [ $code != 0 ]; then
        grep -q '^wiremill.*: there is no campaign in\|is lost, and there is no ledger' "$work/rebuild.words" &&
            return 2
        echo "rebuild: exit $code: $(tail -n 3 "$work/rebuild.words")"
        return 1
    fi
    "${run[@]}" --output "$copy" >"$work/run.words" 2>&1
    code=$?
    [ $code = 0 ] && same_copy && return 0
    echo "run after rebuild: exit $code: $(tail -n 5 "$work/run.words")"
    return 1
}
same_copy () { for i in 1 2; do same_scores crew-$i "$copy" "$work/whole" || return 1; done; }

right=0 refused=0 n=0 wrong=0
while [ $n -lt "$copies" ] && [ $wrong -lt 5 ]; do
    drop "$out"
    "${run[@]}" --output "$out" >"$work/words.original" 2>&1 &
    original=$!
    moment
    take_copy
    n=$((n + 1))
    if ! wait $original || ! crew_same >"$work/said" 2>&1; then
        wrong=$((wrong + 1))
        crew_tell "copy $n: the original has another output, or none"
    fi
    judge >"$work/said" 2>&1
    case $? in
    0) right=$((right + 1)) ;;
    2) refused=$((refused + 1)) && echo "# copy $n: $(tail -n 1 "$work/rebuild.words")" ;;
    *) wrong=$((wrong + 1)) && echo "# copy $n: $(cat "$work/said")" ;;
    esac
done
echo "# $n copies: $right made whole, $refused refused by name"
ok "every copy ends with the output of an undisturbed run, or is refused by name; and every original does" test $wrong \
        = 0
ok "at least half are made whole" test $((2 * right)) -ge $n
proved P17 $n $((n - wrong))
done_testing
