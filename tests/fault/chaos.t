#!/bin/bash
# chaos.t - a TCP link that delays, cuts into bytes, resets, goes dark, throttles, flips bits, loses frames and lengthens
# them, between a broker and its peers, PERIODS (30) times, the last two also by themselves; the output of an undisturbed
# run. Then brokers killed, same port.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
periods=${PERIODS:-$(size 30 300 100000)} RANDOM=${SEED:-1}
echo "# PERIODS=$periods SEED=${SEED:-1}"
crew_model --events 1 --hits 1200
listen=tcp://127.0.0.1:$port connect=tcp://127.0.0.1:$((port + 10))
# One campaign after the other until the weather is over; what gives up (another link's fault) comes again.
campaign ()
{
    local failures=0
    crew_new
    crew_start broker
    crew_start worker-1
    crew_start worker-2
    crew_start producer
    while crew_wait; do
        if [ "$role$code" = producer0 ]; then
            [ "$crew_input" != "${crew_inputs[1]}" ] || break
            crew_input=${crew_inputs[1]}
        else
            echo "$role ended with $code" "$(tail -n 3 "$work/words.$role")"
            [ $((failures += 1)) -lt 9 ] || break
        fi
        crew_start "$role"
    done
    [ "$role$code" = producer0 ] || echo 'nobody ends any more'
    crew_stop
    crew_same && crew_words
}
bad () { grep -vc calm "$work/weather"; }
under () # bad periods, kind of weather (empty: any): campaigns until they are over
{
    local proxy n wrong=0 campaigns=0
    # shellcheck disable=SC2086 # no argument is no assignment
    env ${2:+WM_WEATHER=$2} "$proof/chaos_proxy" $((port + 10)) $port "${SEED:-1}" 300 "$1" >"$work/weather" &
    proxy=$!
    while :; do
        campaigns=$((campaigns + 1))
        campaign >"$work/said" 2>/dev/null && [ ! -s "$work/said" ] || {
            wrong=$((wrong + 1))
            crew_tell "campaign $campaigns: $(head -n 5 "$work/said" | tr '\n' ';')"
        }
        [ "$(bad)" -lt "$1" ] && [ $wrong -lt 10 ] || break
    done
    kill $proxy
    { wait $proxy; } 2>/dev/null
    n=$(bad)
    echo "# $n bad periods in $campaigns campaigns: $(sort "$work/weather" | uniq -c | xargs)"
    ok "every campaign ends with the output of an undisturbed run, no process gives up" test $wrong = 0
    proved P7 "$n" $((wrong ? n - wrong : n))
}
under "$periods"
# libzmq drops what flips make a command, unseen; and a reader waits for what the flip of a length adds to a frame.
for kind in 7 8; do under $(((periods + 4) / 5)) $kind; done

# The broker of a TCP campaign is killed, RESTARTS times, and comes back at the same port: so do its worker and its
# producer by themselves.
restarts=${RESTARTS:-$(size 2 30 1000)} connect=$listen back=0
restarted ()
{
    local worker first
    crew_new
    for role in broker worker-1 producer; do crew_start $role; done
    worker=$(crew_pid worker-1) first=$(crew_pid broker)
    until_true 60 eval '"$bin/wiremill" status --broker "$listen" --json | grep -q "\"returned\": *[1-9]"' || return 1
    kill -9 "$first"
    while crew_wait && [ "$role" != broker ]; do [ "$role$code" = producer0 ] || return 1; done
    crew_start broker
    [ -z "$(crew_pid producer)" ] && crew_input=${crew_inputs[1]} && crew_start producer
    crew_written && [ "$(crew_pid worker-1)" = "$worker" ] && crew_same && crew_words
}
for ((i = 0; i < restarts; i++)); do
    restarted >"$work/said" 2>/dev/null && back=$((back + 1)) ||
        crew_tell "restart $i: $(tail -n 5 "$work/said" | tr '\n' ';')"
    crew_stop
done
ok "a broker killed and started again on its port has its worker and producer back" test $back = "$restarts"
proved P1 "$restarts" $back
done_testing
