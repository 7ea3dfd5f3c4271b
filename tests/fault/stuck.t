#!/bin/bash
# stuck.t - processes that stop without ending: workers and engines are frozen, engines never return.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
stops=${STOPS:-$(size 2 100 2000)} RANDOM=${SEED:-1}
echo "# STOPS=$stops SEED=${SEED:-1}"
n=$(size 1 8 40)
make_model "${small}1" && make_events frozen-$n --events "$n" --seed 12 --hits $(size 3000 50000 50000) --tpcs 1 ||
    bail "no model or events"
slow_engine
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --batch-hits $(size 64 256 256) --quiet --input "$made/frozen-$n.h5"
    --engine openvino)
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"

# Frozen for 1 to 4 s: a lease is 3 s here, an engine hangs after 2 s. One that hangs longer is killed.
stopped=0 finished=0
one_campaign ()
{
    local out=$work/out$finished pid worker victim
    WM_KILLER_SLOW_MS=$(size 60 0 0) "${run[@]}" --output "$out" >"$work/run.words" 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        sleep 0.$((RANDOM % 9 + 1))
        [ $stopped -lt "$stops" ] || continue
        worker=$(child $pid wiremill-worker) || continue
        victim=$worker
        [ $((RANDOM % 2)) = 0 ] && victim=$(child "$worker" wiremill-worker)
        [ -n "$victim" ] && kill -STOP "$victim" 2>/dev/null || continue
        stopped=$((stopped + 1))
        sleep $((RANDOM % 4 + 1))
        kill -CONT "$victim" 2>/dev/null
    done
    wait $pid && same_scores frozen-$n "$out" "$work/whole"
}
while [ $failures = 0 ] && [ $stopped -lt "$stops" ]; do
    ok "campaign $finished ends, with the output of an undisturbed run" one_campaign
    finished=$((finished + 1))
done
echo "# $stopped processes frozen in $finished campaigns"
proved P8 "$stopped" $((failures ? 0 : stopped))

# A batch on which the engine never returns: killed, searched, the hit held.
python=build/venv/bin/python
[ -x $python ] || { skip "engines that never return: no build/venv (make test makes it)"; done_testing; }
export WM_KILLER=$work/cells
make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no events"
$python tests/fault/poison.py make "$made/two.h5" "$work/in.h5" "$work/cells" 0 1 hang || bail "no cells"
hangs () { exits 3 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --batch-hits 4 --quiet --workers 1 \
    --engine openvino \
    --input "$work/in.h5" --output "$work/hang" && says '1 of 4 hits held: 1 kill the engine'; }
ok "a hit on which the engine never returns is found and held" hangs
ok "and only that one" grep -q 'finished no hit for .* was killed' "$work/hang$beside/log/worker-1.log"
proved P8 1 $((failures ? 0 : 1))
done_testing
