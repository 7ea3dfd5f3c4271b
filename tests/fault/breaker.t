#!/bin/bash
# breaker.t - the circuit breaker: a worker that fails more often than it scores is sent away by itself, and
# others score its batches; where two such workers are all there is, the campaign pauses and logs why, until
# somebody has mended the machines and resumes it. TRIES times each: nothing is held, the output is that of an
# undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
tries=${TRIES:-$(size 1 25 500)} RANDOM=${SEED:-1}
echo "# TRIES=$tries SEED=${SEED:-1}"
crew_model --events 1 --hits 1200

# All workers have one engine, that of an undisturbed run; the environment of a worker makes its machine good or bad.
export WM_OPENVINO_SO=$PWD/${WM_BUILD:-build/release}/tests/wm_killer.so
machine () # worker, arguments of env...
{
    local name=$1
    shift
    env "$@" "$bin/wiremill" work --broker "$listen" --cache "$work/cache" --threads 1 --engine openvino \
        >>"$work/words.$name" 2>&1 &
    who[$!]=$name pid=$!
}
bad () { machine "$1" WM_KILLER_REFUSES=$((6 + RANDOM % 5)); }
serve ()
{
    crew_new
    crew_start broker
    until_true 60 test -s "$work/out$beside/endpoint.json"
}
sent_away ()
{
    grep -q 'draining: [6-9] of its last 10 batches failed, the last: this machine cannot' "$work/words.$1"
}
state () { "$bin/wiremill" status "$out" >"$work/said" 2>&1; says "$1"; }
out=$work/out

one_of_two ()
{
    serve || return 1
    machine worker-1 WM_KILLER_SLOW_MS=100 # the other one has its ten batches, whatever else runs
    bad worker-2
    until_true 60 grep -q session "$work/words.worker-2" || return 1
    crew_start producer
    crew_written || return 1
    sent_away worker-2 || { tail -n 5 "$work"/words.worker-2; return 1; }
    ! crew_pid worker-2 || { echo "it was sent away and is still there"; return 1; }
    ! grep paused "$work/words.broker" && crew_stop && crew_same
}
two_of_two ()
{
    serve || return 1
    bad worker-1
    bad worker-2
    crew_start producer
    until_true 60 state 'paused: [2-9] workers fail more often than they score, the last .*: this machine cannot' ||
        return 1
    sent_away worker-1 && sent_away worker-2 || return 1
    "$bin/wiremill" why --campaign "$out$beside" >"$work/said" 2>&1; says 'paused: .*fail more often' || return 1
    "$bin/wiremill" status --marks "$out" >"$work/said" 2>&1; says '  the campaign was paused: by itself: [2-9] workers fail more often than they score' || return 1
    # Others come, and get nothing before somebody resumes.
    machine worker-3
    until_true 60 state "^[^ ]+:$pid .* idle +0 " || return 1
    "$bin/wiremill" resume "$out" || return 1
    crew_written && crew_stop && crew_same
}
wrong=0
for way in one_of_two two_of_two; do
    done=0
    for ((i = 0; i < tries; i++)); do
        $way >"$work/way" 2>&1 && done=$((done + 1)) && continue
        crew_stop
        crew_tell "$way: $(head -n 5 "$work/way" | tr '\n' ';')"
    done
    wrong=$((wrong + tries - done))
    ok "$way: $done of $tries campaigns end as an undisturbed one" test $done = "$tries"
done
proved P20 $((2 * tries)) $((2 * tries - wrong))
done_testing
