#!/bin/bash
# exact.t - stopped at random points and resumed, a campaign executes what was left, and no hit twice.
#
# One worker: two would execute copies of the slowest batches at the end.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
RANDOM=${SEED:-1}
stops=$(size 3 100 1000)
make_model "${small}1" && make_events some --events 1 --seed 9 --hits 15000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/some.h5" --batch-hits 64 --workers 1)
begin=${EPOCHREALTIME/[^0-9]/}
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"
ms=$(((${EPOCHREALTIME/[^0-9]/} - begin) / 1000)) # of a whole run, on this machine
executed ()
{
    cat "$1"$beside/log/worker-*.log | sed -n 's/.* batches, \([0-9]*\) hits (.*/\1/p' |
        awk '{ n += $1 } END { print n + 0 }'
}
all=$("$bin/wiremill" status --json "$work/whole" | tr -d ' \n' | sed 's/.*"hits":{"announced":\([0-9]*\),.*/\1/')
ok "undisturbed, every hit is executed once" test "$(executed "$work/whole")" = "$all"

# A campaign is stopped until the next start ends it; then another, until there were enough stops.
stopped=0 survived=0 n=0
while [ $stopped -lt "$stops" ] && [ $n -lt $((2 * stops + 10)) ]; do
    n=$((n + 1)) out=$work/out-$n code=75 here=0
    while [ $code = 75 ]; do
        "${run[@]}" --output "$out" >>"$work/run.words" 2>&1 &
        pid=$!
        at=$(((RANDOM * 32768 + RANDOM) % ms))
        sleep $((at / 1000)).$(printf %03d $((at % 1000)))
        kill -INT $pid 2>/dev/null
        wait $pid
        code=$?
        [ $code = 75 ] && here=$((here + 1))
    done
    stopped=$((stopped + here))
    once=$(executed "$out")
    if [ $code = 0 ] && [ "$once" = "$all" ] && same_scores some "$out" "$work/whole"; then
        survived=$((survived + here))
    else
        echo "# campaign $n: exit $code after $here stops, $once hits executed of $all"
    fi
    drop "$out"
done
proved P16 $stopped $survived
ok "stopped $stopped times: $all hits executed each time, in all" test "$stopped" -ge "$stops" -a $survived = $stopped
done_testing
