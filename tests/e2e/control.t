#!/bin/bash
# control.t - pause, resume, drain: what they print and do, and what a broker that was killed remembers.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
endpoint=ipc://$work/b out=$work/out

serve ()
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
    broker=$!
    ok "a broker serves" until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
state () { "$bin/wiremill" status "$out" >"$work/said" 2>&1; says "$1"; }

serve
dry () { keep "$bin/wiremill" pause --broker "$endpoint" --dry-run && says "would be paused" && state "out +idle"; }
ok "a dry run changes nothing" dry
ends () { kill -9 $broker; wait $broker 2>/dev/null; }
ends
not_paused ()
{
    exits 4 keep "$bin/wiremill" resume "$out" && says "none is running" && ! grep -q "a pause lasts" "$work/said"
}
ok "where nothing is paused resume does not speak of a pause" not_paused
serve
paused () { keep "$bin/wiremill" pause "$out" --why lunch && state "paused: by .*: lunch"; }
ok "pause is noted and shown" paused
paused_twice ()
{
    keep "$bin/wiremill" pause "$out" && says "the campaign is already paused: by .*: lunch" &&
        state "paused: by .*: lunch"
}
ok "paused once more, by somebody without a reason, it keeps the first" paused_twice
ends
ok "status without a broker knows it" state "paused: by .*: lunch"
by_hand ()
{
    exits 4 keep "$bin/wiremill" resume "$out" &&
        says "a pause lasts until wiremill resume reaches a broker; type this to start one:" &&
        says "wiremill broker --model .* --listen $endpoint$" && says "wiremill produce --broker $endpoint --input"
}
ok "resume names the commands that were used, by hand" by_hand

run ()
{
    "$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$out" --input "$made/two.h5" --workers 2 >"$work/run" 2>&1
}
run &
run=$!
told () { grep -q "paused: by .*: lunch; run .wiremill resume" "$work/run"; }
ok "the broker of wiremill run knows it, and logs what ends it" until_true 60 told
waits ()
{
    keep "$bin/wiremill" why --campaign "$out" && says "paused: by .*lunch" && says "run .wiremill resume $out.wiremill. to continue"
}
ok "why names the pause" waits
"$bin/wiremill" status --watch --interval 0.2 "$out" >"$work/watch" 2>&1 &
watch=$!
ok "a worker comes, and gets nothing" until_true 60 state "^[^ ]+:[0-9]+ .* idle +0 "
labels () { "$bin/wiremill" status "$out" --json | sed -n '/"workers":/,/]/s/.*"label": "\(.*\)".*/\1/p'; }
two () { [ "$(labels | wc -l)" = 2 ]; }
ok "and another" until_true 60 two
first=$(labels | head -n 1) second=$(labels | tail -n 1)
ok "one is drained by its name" "$bin/wiremill" drain "$out" --worker "$first"
away () { grep -q 'worker-[12] was sent away and is not started again' "$work/run"; }
ok "and is not started again" until_true 60 away
ok "the other too" "$bin/wiremill" drain "$out" --worker "$second"
alone () { wait $run; [ $? = 75 ] && grep -q 'no worker is left; type the same command to continue' "$work/run"; }
ok "a run without workers ends with 75" alone
rm "$work/run"
run &
run=$!
ok "the same command goes on" until_true 60 told
# Its producer is frozen meanwhile: what it has sent is scored, the rest is waited for, by name.
announced () { "$bin/wiremill" status "$out" --json | tr -d ' \n' | grep -q '"events":{"announced":2,'; }
ok "its events are announced, and nothing is done" until_true 60 announced
command=$(child $run wiremill) && producer=$(child "$command" wiremill-producer) && kill -STOP "$producer"
resumed () { keep "$bin/wiremill" resume "$out" && says "it was paused by .*lunch"; }
ok "resume" resumed
ok "status names a producer that is waited for" until_true 60 state "^waiting for: producer$"
asks () { "$bin/wiremill" status "$out" --json | grep -Eq '"waiting_for": *"producer"'; }
ok "so does its JSON" asks
reads ()
{
    keep "$bin/wiremill" why --campaign "$out" && says "^waiting for: producer; it reads an input or writes an output"
}
ok "why prints the possible causes" reads
kill -CONT "$producer"
finished () { wait $run; }
ok "the campaign is finished" finished
watched ()
{
    wait $watch && grep -q "^out  *paused" "$work/watch" && [ "$(grep -c '^CAMPAIGN' "$work/watch")" -gt 1 ] &&
        [[ $(grep '^out ' "$work/watch" | tail -n 1) =~ (finished|stopped|running) ]] && ! grep -q "$(printf '\033')" "$work/watch"
}
ok "... and so is the status that was watched, without escape codes in a file" watched
colors () # a terminal has them, unless it is not to
{
    local green=$(printf '\033[32mfinished\033[0m')
    cp -r "$out.wiremill" "$work/finished.wiremill" # a name that has the word is plain
    env -u NO_COLOR TERM=xterm script -qec "$bin/wiremill status $work/finished.wiremill" /dev/null | grep -F "$green" |
        grep -q '^finished ' || return 1
    env -u NO_COLOR TERM=xterm script -qec "$bin/wiremill status $out" /dev/null | grep -qF "$green" &&
        NO_COLOR=1 TERM=xterm script -qec "$bin/wiremill status $out" /dev/null | grep -q "out *finished " &&
        refused 2 'its inputs once' "$bin/wiremill" status --watch --files "$out" &&
        refused 2 'is of --watch' "$bin/wiremill" status --interval 1 "$out"
}
ok "a terminal shows the state in its colour, except with NO_COLOR" colors

serve
twice () { keep "$bin/wiremill" resume "$out" && says "neither paused nor draining"; }
ok "a second resume has nothing to do" twice
"$bin/wiremill" work --broker "$endpoint" --cache "$work/cache" >"$work/worker" 2>&1 &
worker=$!
ok "a worker comes" until_true 60 state "^[^ ]+:[0-9]+ .* idle "
fetched () { ! grep "has the model" "$work/broker"; }
ok "that it fetched the model first is not told as its leaving" fetched
nobody ()
{
    exits 1 keep "$bin/wiremill" drain "$out" --worker nobody:1 "$@" && says "no worker is called 'nobody:1'" &&
        [ "$(wc -l <"$work/said")" = 1 ]
}
ok "nor would it be" nobody --dry-run
ok "a worker that is not there is not drained" nobody
label=$(labels)
would () { keep "$bin/wiremill" drain "$out" --worker "$label" --dry-run && says "would drain $label"; }
ok "a dry run names the worker" would
ok "one worker is drained by its name" "$bin/wiremill" drain "$out" --worker "$label"
gone () { ! kill -0 $worker; }
ok "it leaves" until_true 60 gone

# endpoint.json is removed under a running broker; until it is written again, why reports that.
kill -STOP $broker
rm "$out$beside/endpoint.json"
lost ()
{
    exits 75 keep "$bin/wiremill" "$@" && says "process $broker has the campaign $out$beside.* --broker ENDPOINT"
}
for verb in status pause resume drain held; do ok "$verb: a broker is there, its address is not known" lost $verb \
        "$out"; done
ok "kick too" lost kick --campaign "$out" 1
kill -CONT $broker
ok "the broker writes its address again" until_true 60 test -s "$out$beside/endpoint.json"
ok "and is found; the campaign is finished there too" state "out +finished"
mv "$out$beside" "$work/moved"
ended () { ! kill -0 $broker; }
ok "a folder that is moved away from under a broker ends it" until_true 60 ended
why () { ! wait $broker && grep -q "was moved, removed or replaced while its broker ran" "$work/broker"; }
ok "and it reports that" why
mv "$work/moved" "$out$beside"
down () { exits 4 keep "$bin/wiremill" pause "$out" && says "none is running"; }
ok "no broker, no pause" down
done_testing
