#!/bin/bash
# kick.t - inputs that were held or changed, repaired and retried, have the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
cp "$made/one.h5" "$work/one.h5"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$work/one.h5" --input "$work/two.h5")
out=$work/out
look=("$bin/wiremill" status --json "$out")

# What a campaign makes that has seen nothing but the right files.
cp "$made/two.h5" "$work/two.h5"
"${run[@]}" --output "$work/fresh" >/dev/null 2>&1 || bail "wiremill run does not work"
cp "$made/one.h5" "$work/two.h5"
"${run[@]}" --output "$work/other" >/dev/null 2>&1 || bail "wiremill run does not work"

head -c 20000 "$made/two.h5" >"$work/two.h5"
held () { exits 3 keep "${run[@]}" --output "$out" && says "held: $work/two.h5: " && says "run --retry-held --model"; }
ok "a truncated file is held, and the command that helps is named" held
inputs () { keep "$bin/wiremill" held "$out" && says "^held: $work/two.h5: "; }
ok "held names it" inputs
why ()
{
    keep "$bin/wiremill" why "$out" "$work/two.h5" && says "^held: $work/two.h5" &&
        says "^  cd .* run .* --retry-held$"
}
ok "why prints what to type" why
still () { exits 3 keep "${run[@]}" --output "$out" --retry-held && says "held: $work/two.h5: "; }
ok "retried while it is bad: held again, and that is an end" still
cp "$made/two.h5" "$work/two.h5"
ok "put right, but nobody asked: still held" exits 3 "${run[@]}" --output "$out"
retried () { exits 0 keep "${run[@]}" --output "$out" --retry-held; }
after_kill () { WM_FAILPOINT=producer-send:1:$work/killed retried && [ -e "$work/killed" ] && says 'starting it again'; }
ok "retried: written, also where the producer is killed before it asks for that" after_kill
ok "with the scores of a fresh campaign" same_scores two "$out" "$work/fresh"
ok "the other one was left alone" same_scores one "$out" "$work/fresh"
nothing () { exits 0 keep "${run[@]}" --output "$out" --retry-held && says "nothing was left"; }
ok "there is nothing more to retry" nothing

cp "$made/one.h5" "$work/two.h5"
changed ()
{
    exits 3 keep "${run[@]}" --output "$out" && says "two.h5: changed since its output was written" &&
        [ "$(grep -c "changed since" "$work/said")" = 1 ] && says "run --retry-held"
}
ok "changed after its output was written: reported in one line" changed
ok "and the old output stays" same_scores two "$out" "$work/fresh"
known ()
{
    for verb in status held why; do
        keep "$bin/wiremill" $verb --campaign "$out" &&
            says "^changed: $work/two.h5: changed since its output was written: .*--retry-held" || return 1
    done
    keep "$bin/wiremill" why --campaign "$out" "$work/two.h5" && says "^changed: " && says "retry-held" &&
        exits 1 keep "$bin/wiremill" rebuild --dry-run "$out" &&
        says "$work/two.h5 changed since its output was written: .*--retry-held" &&
        says "^a dry run: nothing was changed$" # rebuild would do nothing about it
}
ok "whoever looks hears of it, with no broker running" known
again () # nothing but --retry-held would make it again
{
    mv "$out/two.scores.h5" "$work/aside" && keep "$bin/wiremill" status "$out" && says "^stopped: .*what is open has changed: restore it, or type the same wiremill run command with --retry-held" &&
        keep "$bin/wiremill" why "$out" && says "^waiting for: no broker; what is open has changed" &&
        mv "$work/aside" "$out/two.scores.h5"
}
ok "its output gone too: no command is named that would do nothing" again
ok "retried: written again" retried
kept () { grep -q "wiremill run" "$out$beside/command" && ! grep -q "retry-held" "$out$beside/command"; }
ok "the kept command does not retry for ever" kept
ok "with the new file's scores" same_scores two "$out" "$work/other"

# By an operator, on a broker that runs.
nobody ()
{
    exits 4 keep "$bin/wiremill" kick --campaign "$out" "$work/two.h5" && says "the same $1 command with --retry-held"
}
ok "with no broker running, kick names the command" nobody "wiremill run"
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "ipc://$work/b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
kick=("$bin/wiremill" kick --campaign "$out")
dry () { keep "${kick[@]}" --dry-run "$work/two.h5" && says "would kick" && "${look[@]}" | grep -q '"written": 2,'; }
ok "a dry run does nothing" dry
folder () { keep "$bin/wiremill" kick "$out" --dry-run "$work/two.h5" && says "would kick $work/two.h5" && ! says "kick $out"; }
ok "the campaign's folder may stand before the inputs, as for other verbs" folder
unknown () { exits 1 keep "${kick[@]}" "$work/three.h5" && says "no input .*three.h5"; }
ok "an input that nobody knows is refused by name" unknown
cp "$made/two.h5" "$work/two.h5"
kicked () { keep "${kick[@]}" "$work/two.h5" && says "kicked" && "${look[@]}" | grep -q '"open": 1,'; }
ok "kick opens an input that is written" kicked
whose () # what the log has of it, and nothing of inputs whose names are a part of its name
{
    keep "$bin/wiremill" why --campaign "$out" "$work/two.h5" && says 'ago: kicked by' || return 1
    for part in "$work/two.h" two.h 5; do # 5: as in .h5
        exits 1 keep "$bin/wiremill" why --campaign "$out" "$part" && says "is called '$part'" &&
            ! grep 'kicked by' "$work/said" || return 1
    done
}
ok "why prints the log lines of this input only" whose
kill -9 $broker && wait $broker 2>/dev/null
kept () { "${look[@]}" | grep -q '"open": 1,'; }
ok "also for the broker after one that was killed" kept
ok "that broker was started by hand: kick names who sends its inputs" nobody "wiremill produce"
ok "... which needs that broker" says "start the campaign's, and let"
open ()
{
    keep "$bin/wiremill" why "$out" "$work/two.h5" && says "^open: $work/two.h5: 0 hits are scored, 0 held" &&
        says "waiting for: no broker; type this to continue:" && says "wiremill broker --model"
}
ok "why reports that an input is open, and its progress" open
done_with ()
{
    keep "$bin/wiremill" why "$out" "$work/one.h5" &&
        says "^written: $work/one.h5: $out/one.scores.h5 has its hits: [0-9,]+ scored, 0 held$"
}
gone () # the file too; by number, and by a name from here
{
    mv "$work/two.h5" "$work/aside" && (cd "$work" && keep "$bin/wiremill" why "$out" two.h5) &&
        says "^open: $work/two.h5: " &&
        keep "$bin/wiremill" why "$out" 2 && says "^open: $work/two.h5: " && mv "$work/aside" "$work/two.h5"
}
ok "also where its file is gone, by number or by name" gone
ok "and of one that is written, that it is not" done_with
ok "the next run pins the file as it is and scores it" exits 0 "${run[@]}" --output "$out"
ok "as a fresh campaign does" same_scores two "$out" "$work/fresh"

# During a run: its progress is forgotten, it is scored again and completes.
slow_engine
slow=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --batch-hits 64 --engine openvino)
live=("${slow[@]}" --input "$made/two.h5" --input "$work/one.h5")
"${live[@]}" --output "$work/whole" >/dev/null 2>&1
WM_KILLER_SLOW_MS=30 "${live[@]}" --output "$work/live" >"$work/live.words" 2>&1 &
pid=$!
half () { "$bin/wiremill" status --campaign "$work/live" --json | grep -Eq '"returned": [1-9][0-9]'; }
until_true 60 half
live () { exits 0 "$bin/wiremill" kick --campaign "$work/live" "$made/two.h5" "$work/one.h5" && wait $pid; }
ok "inputs that are being worked on are kicked, and the run goes on with them" live
again () { same_scores two "$work/live" "$work/whole" && same_scores one "$work/live" "$work/whole"; }
ok "with the scores of an undisturbed one" again

# A file that changes while it is worked on.
cp "$made/two.h5" "$work/changes.h5"
changes=("${slow[@]}" --input "$work/changes.h5" --output "$work/changes")
WM_KILLER_SLOW_MS=30 "${changes[@]}" >"$work/said" 2>&1 &
pid=$!
half () { "$bin/wiremill" status --campaign "$work/changes" --json | grep -Eq '"returned": [1-9][0-9]'; }
until_true 60 half
touch "$work/changes.h5"
changed ()
{
    exits 5 wait $pid && says "held: .*changes.h5 changed while it was worked on" &&
        [ ! -e "$work/changes/changes.scores.h5" ]
}
ok "an input that changes while it is worked on is held, and has no output" changed
again () { exits 0 "${changes[@]}" --retry-held && [ -s "$work/changes/changes.scores.h5" ]; }
ok "retried: written" again
done_testing
