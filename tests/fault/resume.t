#!/bin/bash
# resume.t - drained at a random point and started again, DRAINS times: what is executed is what was left;
# and RACES brokers for one campaign: one has it, the others name it and exit with 75.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
n=${DRAINS:-$(size 3 100 5000)} races=${RACES:-$(size 10 200 5000)} RANDOM=${SEED:-1}
echo "# DRAINS=$n RACES=$races SEED=${SEED:-1}"
crew_inputs=(longer-1 longer-2)
crew_model --events 1 --hits 3000

executed () { sed -n 's/.* \([0-9]*\) batches, [0-9]* hits.*/\1/p' "$work"/words.worker-* | paste -sd+ | bc; }
# A campaign that is drained at the times given (seconds), then ends.
campaign ()
{
    local moment
    crew_new
    for moment in "$@" end; do
        for role in broker worker-1 producer; do crew_start $role; done
        if [ "$moment" != end ]; then
            sleep "$moment"
            kill -TERM "$(crew_pid worker-1)" "$(crew_pid producer)" 2>/dev/null
            until_true 60 eval "! kill -0 $(crew_pid worker-1)"
            crew_stop
            continue
        fi
        crew_written || return
        kill -TERM "$(crew_pid worker-1)"
        until_true 60 eval "! kill -0 $(crew_pid worker-1)"
        crew_stop
    done
    crew_same || echo "other scores"
}
campaign >/dev/null 2>&1
whole=$(executed)
wrong=0
for ((i = 0; i < n; i++)); do
    campaign 0.$((1 + RANDOM % 7)) >"$work/said" 2>/dev/null
    [ "$(executed)" = "$whole" ] && [ ! -s "$work/said" ] && continue
    wrong=$((wrong + 1))
    crew_tell "drain $i: $(executed) of $whole batches executed; $(head -n 3 "$work/said" | tr '\n' ';')"
done
ok "executed is what was left: $whole batches in all, however often it was drained" test $wrong = 0
proved P16 "$n" $((n - wrong))

wrong=0 raced=0
crew_new
while [ $raced -lt "$races" ]; do
    : >"$work/words.broker"
    for i in 1 2 3 4 5; do crew_start broker; done
    losers=0
    while [ $losers -lt 4 ] && crew_wait; do losers=$((losers + (code == 75))); [ "$code" = 75 ] ||
        echo "# a broker ended with $code"; done
    [ $losers = 4 ] && [ ${#who[@]} = 1 ] && kill -0 "${!who[@]}" &&
        [ "$(grep -c "process ${!who[*]} is the broker of .*: end it, or ask it" "$work/words.broker")" = 4 ] ||
        { wrong=$((wrong + 5)); crew_tell 'race'; }
    crew_stop KILL
    raced=$((raced + 5))
done
ok "of brokers that start at once one has the campaign, and the others name it" test $wrong = 0
proved P17 $raced $((raced - wrong))
done_testing
