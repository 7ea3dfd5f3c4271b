#!/bin/bash
# points.t - every failpoint of broker, producer and workers kills its process, again and again: all at
# once, each started again with the next point armed; the output of an undisturbed run. (command.t has
# those of `wiremill run` and of engines.)
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
RANDOM=${SEED:-1}
tries=${TRIES:-$(size 2 25 250)} # of each point
echo "# TRIES=$tries SEED=${SEED:-1} POINTS=${POINTS:-all}"
crew_model --events 1 --hits 1200

# What no campaign here passes: migration has its own test, outputs on a server have store.t, commands notify.t, other
# settings again.t.
skip='broker-(campaign-(before|again)|ledger-migrated?|notify-(start|ended))|producer-moved'
all=$(grep -rhoE 'WM_FAILPOINT \("(broker|producer|worker)-[a-z-]+"\)' broker producer gpuworker | sed 's/.*"\(.*\)".*/\1/' | sort)
points=${POINTS:-$(grep -vxE "$skip" <<<"$all")}
ok "every point has a name of its own" test -z "$(uniq -d <<<"$all")"

# The tries that are left, a queue a room; how many passes of a point were seen to happen at most.
declare -A queue=() cap=() killed=() missed=() armed=()
for room in broker producer worker; do
    for ((i = 0; i < tries; i++)); do queue[$room]+=" $(grep "^$room-" <<<"$points" | xargs)"; done
done
n_killed=0

start () # role: with the next try of its room, if there is one
{
    local room=${1%-*} point n
    # A batch whose workers die three times is held, as it should be: two a campaign.
    [ $room != worker ] || [ $workers_killed -lt 2 ] || { armed[$1]= && crew_start "$1" && return; }
    read -r point queue[$room] <<<"${queue[$room]}"
    n=$((1 + RANDOM % ${cap[${point:-none}]:-1}))
    crew_start "$1" ${point:+WM_FAILPOINT=$point:$n}
    armed[$1]=${point:+$point $n}
}
# How many passes of a point can be waited for is found out: twice as many after a death at the last
# of them, one less than those that did not come.
died () # role
{
    local point n
    read -r point n <<<"${armed[$1]}"
    n_killed=$((n_killed + 1))
    [[ $1 != worker-* ]] || workers_killed=$((workers_killed + 1))
    [ -n "$point" ] || return
    killed[$point]=$((${killed[$point]:-0} + 1))
    [ "$n" != "${cap[$point]:-1}" ] || [ "$n" -ge 32 ] || cap[$point]=$((2 * n))
}
again () # role: it did not die
{
    local point n
    read -r point n <<<"${armed[$1]}"
    armed[$1]=
    [ -n "$point" ] || return
    [ "$n" != 1 ] || missed[$point]=$((${missed[$point]:-0} + 1))
    [ "$n" = 1 ] || cap[$point]=$((n - 1))
    [ "${missed[$point]:-0}" -ge $((20 + 5 * tries)) ] || queue[${1%-*}]+=" $point"
}
# What is passed in a certain moment only is tried first in it.
first () # point
{
    local room=${1%%-*}
    [[ " ${queue[$room]} " != *" $1 "* ]] || queue[$room]="$1 $(sed "s/\b$1\b *//" <<<"${queue[$room]}")"
}
campaign ()
{
    local failures=0 workers_killed=0
    crew_new
    first broker-ledger-make
    first worker-model-rename
    start broker
    for ((i = 1; i <= crew_workers; i++)); do start worker-$i; done
    start producer
    while crew_wait; do
        if [ "$code" = 137 ]; then
            died "$role"
        else
            again "$role"
            if [ "$role$code" = producer0 ]; then
                [ "$crew_input" != "${crew_inputs[1]}" ] || break
                crew_input=${crew_inputs[1]}
                again broker # a broker that starts now has segments to remove
                first broker-segment-removed
                first broker-segment-remove
                kill -9 "$(crew_pid broker)"
            else
                echo "$role ended with $code (${armed[$role]})" "$(tail -n 3 "$work/words.$role")"
                [ $((failures += 1)) -lt 3 ] || break
            fi
        fi
        start "$role"
    done
    [ "$role" = producer ] && [ "$code" = 0 ] || echo 'nobody ends any more'
    # The last commit of the ledger, and its sweep, come when the broker stops.
    p=$(crew_pid broker) && kill -TERM "$p" && { wait "$p"; code=$?; unset "who[$p]"; } 2>/dev/null
    if [ "$code" = 137 ]; then died broker; else again broker; fi
    for role in "${who[@]}"; do again "$role"; done
    crew_stop
    crew_same && crew_words
}
crew_kills
done_testing
