#!/bin/bash
# stops.t - processes that are stopped for a while (STOPS times; the broker for the scaled 60 s once), and
# a wall clock that jumps by 10 days and back ten times a second: nothing expires, the output is that of
# an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
stops=${STOPS:-$(size 10 100 10000)} jumps=${JUMPS:-$(size 2 20 1000)} RANDOM=${SEED:-1}
echo "# STOPS=$stops JUMPS=$jumps SEED=${SEED:-1}"
crew_model --events 1 --hits 1200

stopped=0
# Stops one process after the other, each for a part of what a peer may be silent, while a campaign runs.
stopper () # pid...
{
    while sleep 0.0$((RANDOM % 9)); do
        victim=${*:$((1 + RANDOM % $#)):1}
        kill -STOP "$victim" 2>/dev/null || return
        sleep 0.$((1 + RANDOM % 6))
        kill -CONT "$victim" 2>/dev/null
        echo >>"$work/stops"
    done
}
campaign () # with a stopper, if its argument is not empty
{
    local failures=0 stopper=
    crew_new
    for role in broker worker-1 worker-2 producer; do crew_start $role; done
    [ -z "$1" ] || { stopper "${!who[@]}" & stopper=$!; }
    while crew_wait; do
        if [ "$role$code" = producer0 ]; then
            [ "$crew_input" != "${crew_inputs[1]}" ] || break
            crew_input=${crew_inputs[1]}
        else
            echo "$role ended with $code" "$(tail -n 2 "$work/words.$role")"
            [ $((failures += 1)) -lt 5 ] || break
        fi
        crew_start "$role"
    done
    [ "$role$code" = producer0 ] || echo 'no process ends any more'
    [ -z "$stopper" ] || { kill $stopper; wait $stopper; } 2>/dev/null
    crew_stop
    crew_same && crew_words
}
check () # what, argument of campaign
{
    campaign "$2" >"$work/said" 2>/dev/null && [ ! -s "$work/said" ] && return
    wrong=$((wrong + 1))
    crew_tell "$1: $(head -n 5 "$work/said" | tr '\n' ';')"
}
wrong=0
: >"$work/stops"
while [ "$stopped" -lt "$stops" ] && [ $wrong -lt 5 ]; do
    check stops stop
    stopped=$(wc -l <"$work/stops")
done
ok "$stopped stops: every campaign ends with the output of an undisturbed run, nobody gives up" test $wrong = 0
proved P8 "$stopped" $((wrong ? stopped - wrong : stopped))

wrong=0 jumped=0
for role in broker producer worker; do \
        environment[$role]="LD_PRELOAD=$proof/fail_shim.so WM_SHIM_CLOCK_S=$((RANDOM % 2 ? 864000 : -864000))"; done
while [ $jumped -lt "$jumps" ]; do
    check jumps ''
    jumped=$((jumped + 1))
done
environment=()
ok "a clock that jumps changes nothing" test $wrong = 0

# A broker that was stopped for a minute reads the messages that came before it reads its clock.
minute ()
{
    crew_new
    for role in broker worker-1 worker-2 producer; do crew_start $role; done
    until_true 60 grep -q session "$work/words.worker-1"
    broker=$(crew_pid broker)
    kill -STOP "$broker"
    sleep $((60 / WM_TIME_SCALE))
    kill -CONT "$broker"
    crew_written || return 1
    crew_stop
    crew_same && ! grep 'is lost with\|silent for' "$work/words.broker"
}
before=$failures
ok "a broker stopped for its minute expires nobody" minute
proved P12 $((jumped + 1)) $((jumped + 1 - wrong - (failures - before)))
done_testing
