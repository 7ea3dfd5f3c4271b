#!/bin/bash
# elastic.t - workers join, drain in every way there is, and are of mixed speed: nothing is computed twice.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
joins=${JOINS:-$(size 8 500 20000)} RANDOM=${SEED:-1}
echo "# JOINS=$joins SEED=${SEED:-1}"
lib=$PWD/${WM_BUILD:-build/release}/tests
n=$(size 1 12 40)
make_model "${small}1" && make_events elastic-$n --events "$n" --seed 11 --hits $((n > 1 ? 50000 : 25000)) --tpcs 1 ||
    bail "no model or events"
campaign=(--model "$made/model-${small}1.wmm" --batch-hits 256)
# One worker: two would send each other copies at the tail, and each batch is to be counted once.
"$bin/wiremill" run "${campaign[@]}" --quiet --workers 1 --input "$made/elastic-$n.h5" \
        --output "$work/whole" >/dev/null 2>&1 ||
    bail "wiremill run does not work"
count () { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/status"; }
computed ()
{
    cat "$@" | sed -n 's/.*leaves.*: \([0-9]*\) batches.*/\1/p' |
        { t=0; while read -r b; do t=$((t + b)); done; echo $t; }
}

joined=0 logs=0 finished=0
one_campaign ()
{
    out=$work/out$finished
    "$bin/wiremill" broker "${campaign[@]}" --output "$out" --listen "ipc://$work/b$finished" >"$work/broker" 2>&1 &
    local broker=$!
    until_true 60 test -s "$out$beside/endpoint.json" || return 1
    "$bin/wiremill" produce --broker "ipc://$work/b$finished" --input "$made/elastic-$n.h5" >"$work/produce" 2>&1 &
    local producer=$! worker=() batches total
    rm -f "$work"/log-*
    while kill -0 $producer 2>/dev/null; do
        # At most two at a time; the last ones, when all joins are spent, stay to the end.
        for i in 0 1; do
            [ -n "${worker[i]}" ] && kill -0 "${worker[i]}" 2>/dev/null && continue
            local how=() slow=20 way=$((RANDOM % 4))
            [ $joined -lt "$joins" ] || way=4
            [ $way = 1 ] && how=(--wall-time 0.$((RANDOM % 8 + 1)))
            [ $way = 2 ] && how=(--idle-timeout 0.2) # and stopped if it has no time to be idle
            [ $((RANDOM % 3)) = 0 ] && slow=60
            joined=$((joined + 1)) logs=$((logs + 1))
            WM_OPENVINO_SO=$lib/wm_killer.so WM_KILLER_SLOW_MS=$slow "$bin/wiremill-worker" \
                --broker "ipc://$work/b$finished" \
                --engine openvino --threads 1 --cache "$work/cache" "${how[@]}" >"$work/log-$logs" 2>&1 &
            worker[i]=$! leave[i]=$way rounds[i]=0
        done
        sleep 0.$((RANDOM % 5 + 2))
        for i in 0 1; do
            rounds[i]=$((rounds[i] + 1))
            { [ "${leave[i]}" = 0 ] || { [ "${leave[i]}" = 2 ] && [ "${rounds[i]}" -gt 2 ]; }; } &&
                kill -TERM "${worker[i]}" 2>/dev/null && leave[i]=5
            [ "${leave[i]}" = 3 ] && leave[i]=6 &&
                "$bin/wiremill" drain --broker "ipc://$work/b$finished" \
                    --worker "$(hostname):${worker[i]}" >>"$work/drains" 2>&1
        done
    done
    wait $producer || return 1
    # A second signal would end at once who obeys the first.
    for i in 0 1; do [ "${leave[i]}" = 5 ] || kill -TERM "${worker[i]}" 2>/dev/null; wait "${worker[i]}"; done
    "$bin/wiremill" status --broker "ipc://$work/b$finished" --json >"$work/status"
    kill -TERM $broker
    wait $broker
    same_scores elastic-$n "$out" "$work/whole" || return 1
    # The workers report to have computed what there was, and the copies sent at the tail.
    batches=$(computed "$work"/log-*) total=$(computed "$work"/whole$beside/log/worker-*)
    echo "# $batches batches computed of $total, $(count copies) copies; $(count n_preempt) given back"
    [ "$batches" -ge "$total" ] && [ "$batches" -le $((total + $(count copies))) ] &&
        [ "$(count n_lost)$(count n_fail)" = 00 ]
}

while [ $failures = 0 ] && [ $joined -lt "$joins" ]; do
    ok "campaign $finished: the output is that of an undisturbed run, nothing was computed twice or blamed" one_campaign
    finished=$((finished + 1))
done
cat "$work"/log-* >"$work/logs"
ok "some were stopped by a signal" grep -q 'stopped by a signal' "$work/logs"
clean () { ! grep -E 'not acknowledged|assert' "$work/logs"; }
ok "every result was acknowledged before its worker left" clean
echo "# $joined joins and leaves in $finished campaigns"
proved P15 "$joined" $((failures ? 0 : joined))
done_testing
