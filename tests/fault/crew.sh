#!/bin/bash
# crew.sh - broker, producer and workers of one small campaign, each started by hand and, when it was
# killed, started again (`. tests/fault/crew.sh` after helper.sh).
# shellcheck shell=bash disable=SC2034,SC2154
export WM_TIME_SCALE=${WM_TIME_SCALE:-10}
listen=ipc://$work/b
declare -A who=() # pid: broker, producer, worker-1, ...
declare -A preload=() environment=() # of a role: arguments of env for its processes
crew_workers=2

# Two small inputs, and an undisturbed run of them to compare with.
crew_inputs=(crew-1 crew-2)
crew_model () # synth options...
{
    make_model "${small}1" || bail "no model"
    for i in 0 1; do make_events ${crew_inputs[i]} --seed $((i + 1)) --tpcs 1 "$@" || bail "no events"; done
    "$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/${crew_inputs[0]%-1}-[12].h5" \
        --batch-hits 64 \
        --output "$work/whole" >"$work/whole.words" 2>&1 ||
        bail "wiremill run does not work: $(cat "$work/whole.words")"
}
retry_held= # or --retry-held: of the next producers
crew_new () # a fresh campaign; `crew_input` is what a producer is started with
{
    crew_input=${crew_inputs[0]} retry_held=
    drop "$work/out"
    rm -rf "$work/cache" "$work"/words.*
}
crew_start () # role, arguments of env (NAME=value)...
{
    local role=$1 command
    shift
    case $role in
    broker) command=("$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/out" --batch-hits 64 --listen "$listen") ;;
    producer) # itself, not below `wiremill produce`, which would start it again
        echo "$made/$crew_input.h5" >"$work/$crew_input.list"
        command=("$bin/wiremill-producer" produce --broker "${connect:-$listen}" --input-list "$work/$crew_input.list" $retry_held) ;;
    worker-*) command=("$bin/wiremill" work --broker "${connect:-$listen}" --cache "$work/cache" --threads 1) ;;
    esac
    # shellcheck disable=SC2086 # it is split
    env ${environment[${role%-*}]} "$@" "${command[@]}" >>"$work/words.$role" 2>&1 &
    who[$!]=$role
    pid=$!
}
crew_pid () # role: its process
{
    local p
    for p in "${!who[@]}"; do [ "${who[$p]}" = "$1" ] && echo "$p" && return; done
    return 1
}
# Waits for the next process of the crew to end: $role, $code. Fails if none does within crew_patience seconds.
# (bash's `wait -n` passes over one that ended while something else ran.)
mkfifo "$work/tick" && exec {tick}<>"$work/tick"
crew_wait ()
{
    local p end=$((SECONDS + ${crew_patience:-180}))
    while [ $SECONDS -lt $end ]; do
        for p in "${!who[@]}"; do
            kill -0 "$p" 2>/dev/null && continue
            { wait "$p"; code=$?; } 2>/dev/null
            role=${who[$p]}
            unset "who[$p]"
            return 0
        done
        read -rt 0.02 -u "$tick"
    done
    return 1
}
# Waits until producers have written both inputs; other processes may end with 0. A process that fails is named.
crew_written ()
{
    while crew_wait; do
        [ "$code" = 0 ] || { echo "$role ended with $code" "$(tail -n 3 "$work/words.$role")"; return 1; }
        [ "$role" = producer ] || continue
        [ "$crew_input" != "${crew_inputs[1]}" ] || return 0
        crew_input=${crew_inputs[1]}
        crew_start producer
    done
    echo 'no process ends any more'
    return 1
}
crew_stop () # signal: ends all that are left
{
    local p
    for p in "${!who[@]}"; do kill -CONT "$p" 2>/dev/null; kill "-${1:-TERM}" "$p" 2>/dev/null; done
    for p in "${!who[@]}"; do { wait "$p"; } 2>/dev/null; done
    who=()
}
crew_same ()
{
    local input
    for input in "${crew_inputs[@]}"; do same_scores "$input" "$work/out" "$work/whole" || return 1; done
}
# No log may contain an assertion or report damage.
crew_words () { ! grep -HE 'assert|Assertion|corrupt|is damaged' "$work"/words.*; }
crew_tell () # the last log lines, for people
{
    echo "# $*"
    tail -qn 3 "$work"/words.* | sed 's/^/#   /'
}
# Kills at failpoints: campaigns (`campaign` prints what is wrong of one) until no try is left in `queue`; then reports
# `points`, each of which is to be `killed` `tries` times, `n_killed` in all.
crew_kills ()
{
    local campaigns=0 wrong=0 never='' before point
    while [[ ${queue[*]} == *[a-z]* ]] && [ $wrong -lt 20 ]; do
        campaigns=$((campaigns + 1)) before=$n_killed
        [ -z "$VERBOSE" ] ||
            echo "# campaign $campaigns, $n_killed kills, $SECONDS s, left: $(cut -c -150 <<<"${queue[*]}")"
        campaign >"$work/said" 2>/dev/null && [ ! -s "$work/said" ] && continue
        wrong=$((wrong + n_killed - before + 1))
        crew_tell "campaign $campaigns: $(head -n 5 "$work/said" | tr '\n' ';')"
    done
    echo "# $n_killed kills in $campaigns campaigns, $SECONDS s"
    for point in $points; do
        [ "${killed[$point]:-0}" -ge "$tries" ] || never+=" $point:${killed[$point]:-0}"
    done
    ok "every campaign ends with the output of an undisturbed run" test $wrong = 0
    ok "every point killed $tries times (not:$never)" test -z "$never"
    proved P1 "$n_killed" $((n_killed > wrong ? n_killed - wrong : 0))
}
