#!/bin/bash
# poison.t - hits that kill the engine: exactly these are held, with a reason and a file that shows it.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
export WM_TIME_SCALE=10 WM_KILLER=$work/cells
killer=$PWD/${WM_BUILD:-build/release}/tests/wm_killer.so
hits=$(size 6000 1000000 1000000) kills=$(size 4 10 10) bads=$(size 16 90 90)
events=poisoned-$(size 1 20 20)
make_model 1 && make_events "$events" --events "$(size 1 20 20)" --seed 9 --hits $((hits / $(size 1 20 20))) --tpcs 1 ||
    bail "no model or events"
$python tests/fault/poison.py make "$made/$events.h5" "$work/in.h5" "$work/cells" "$bads" "$kills" segv abort fault \
        kill exit ||
    bail "no bad events"
run=("$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$work/in.h5" --batch-hits 1024)

clean () { exits 3 "${run[@]}" --output "$work/clean" --engine sparse; }
ok "without such an engine only the bad hits are held" clean
poisoned () { exits 3 keep env WM_OPENVINO_SO="$killer" "${run[@]}" --output "$work/out" --engine openvino &&
    says "$((bads + kills)) held" && says 'held: .*in.h5 event.* batch .*: 1 of [0-9]+ hits held: 1 kill the engine'; }
ok "an engine that dies on $kills hits scores all others; exit code 3" poisoned
ok "exactly these are held, the others have the bits they had" $python tests/fault/poison.py check \
    "$work/clean/in.scores.h5" "$work/out/in.scores.h5" "$bads" "$kills"
named () { keep "$bin/wiremill" held "$work/out" && says "^held: $((bads + kills)) hits of $work/in.h5: .*$kills poison; named in the table .held. of $work/out/in.scores.h5$" && says ", $((bads + kills)) held$"; }
ok "held counts them" named
replays () { ls "$work"/out$beside/models/replay/*.replay; }
shown () { [ "$(replays | wc -l)" = "$kills" ] && grep -h kills "$work"/out$beside/log/worker-*.log; }
ok "each has a file that shows it" shown
again ()
{
    exits 3 keep env WM_OPENVINO_SO="$killer" "$bin/wiremill-worker" --replay "$(replays | head -1)" &&
        says 'dies of it again'
}
ok "which does show it" again
mended ()
{
    WM_KILLER='' exits 0 keep env WM_OPENVINO_SO="$killer" "$bin/wiremill-worker" --replay "$(replays | head -1)" &&
        says ': scored'
}
ok "until the engine is mended" mended
kicked () { exits 3 "${run[@]}" --output "$work/out" --engine sparse --retry-held &&
    $python tests/fault/poison.py check "$work/clean/in.scores.h5" "$work/out/in.scores.h5" "$bads" 0; }
ok "then --retry-held scores them" kicked

# A batch of that hit alone tells no machine from a hit; one that scores others does.
make_events few --events 1 --seed 9 --hits 300 --tpcs 1 &&
    $python tests/fault/poison.py make "$made/few.h5" "$work/few.h5" "$work/cells" 0 2 segv exit
run=("$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$work/few.h5" --batch-hits 1)
alone () { "${run[@]}" --output "$work/few" --engine sparse &&
    exits 3 keep env WM_OPENVINO_SO="$killer" "${run[@]}" --output "$work/alone" --engine openvino --workers 1 &&
    says '1 of 1 hits held: 1 kill the engine' &&
    [ "$(ls "$work"/alone$beside/models/replay/*.replay | wc -l)" = 2 ] &&
    $python tests/fault/poison.py check "$work/few/few.scores.h5" "$work/alone/few.scores.h5" 0 2; }
ok "in batches of one hit it is held as any other, with a file that shows it" alone

# Asked while it goes on: whose log has the file, and what to do.
whose ()
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$work/whose" --batch-hits 1024 \
            --listen "ipc://$work/w" >"$work/whose.broker" 2>&1 &
    until_true 60 test -s "$work/whose$beside/endpoint.json" || return 1
    env WM_OPENVINO_SO="$killer" "$bin/wiremill-worker" --broker "ipc://$work/w" --cache "$work/cache" --threads 1 \
            --engine openvino >"$work/whose.worker" 2>&1 &
    "$bin/wiremill" produce --broker "ipc://$work/w" --input "$work/in.h5" >"$work/produce" 2>&1 &
    local producer=$!
    until_true 60 grep -q 'kill the engine of' "$work/whose.broker" || return 1
    keep "$bin/wiremill" why "$work/whose" "$work/in.h5" &&
        says '1 kill the engine of [^ ]+:[0-9]+ \(its log has the command to reproduce it\)' &&
        says 'repair what the reason names .* type `wiremill kick [^ ]*/whose.wiremill [^ ]*/in.h5`' &&
        grep -q 'wiremill-worker --replay .* reproduces it' "$work/whose.worker"
    local code=$?
    kill $producer
    return $code
}
"$python" tests/fault/poison.py make "$made/$events.h5" "$work/in.h5" "$work/cells" "$bads" "$kills" segv abort fault \
        kill exit
ok "why names the worker whose log has the file, and what goes on" whose

# A machine on which every batch dies: its worker logs that, gives them back, and leaves; the others do the work.
hole ()
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$work/hole" --batch-hits 1024 \
            --listen "ipc://$work/b" >"$work/broker" 2>&1 &
    until_true 60 test -s "$work/hole$beside/endpoint.json" || return 1
    local work_on=("$bin/wiremill-worker" --broker "ipc://$work/b" --cache "$work/cache" --threads 1) pid
    env WM_OPENVINO_SO="$killer" WM_KILLER_ALWAYS=segv "${work_on[@]}" --engine openvino >"$work/hole.words" 2>&1 &
    pid=$!
    "$bin/wiremill" produce --broker "ipc://$work/b" --input "$work/in.h5" >"$work/produce" 2>&1 &
    local producer=$!
    wait $pid
    [ $? = 1 ] && grep -q 'draining: 3 failures of its engine' "$work/hole.words" ||
        { cat "$work/hole.words"; return 1; }
    "${work_on[@]}" --engine sparse >"$work/good.words" 2>&1 &
    exits 3 wait $producer && same_scores in "$work/hole" "$work/clean"
}
ok "a worker whose engine always dies leaves after three batches, and holds nothing" hole
proved P11 $((bads + kills)) $((failures ? 0 : bads + kills))
done_testing
