#!/bin/bash
# full.t - the disk of the campaign, and that of the outputs, is a small one that fills and empties, again
# and again (FULL times): all pause, report it, lose nothing and go on by themselves.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
n=${FULL:-$(size 2 20 500)} RANDOM=${SEED:-1}
echo "# FULL=$n SEED=${SEED:-1}"
mkdir "$work/disk"
if ! mount -t tmpfs -o size=160m none "$work/disk" 2>/dev/null; then
    echo "1..0 # SKIP a tmpfs can be mounted by root only"
    exit 0
fi
at_exit 'umount -l "$work/disk" 2>/dev/null; finish'
crew_model --events 1 --hits 1200
fill () { dd if=/dev/zero of="$work/disk/ballast" bs=64k 2>/dev/null; }
free () { rm -f "$work/disk/ballast"; }

# status and why report where it waits, and for what.
mkdir "$work/disk/out"
fill
"$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/crew-1.h5" --batch-hits 64 \
    --output "$work/disk/out" \
    --campaign "$work/elsewhere" >"$work/run.words" 2>&1 &
run=$!
told () { keep "$bin/wiremill" "$@" "$work/elsewhere" && says "waits: $work/disk/out.*: disk full"; }
ok "status names the disk of the outputs" until_true 60 told status
ok "so does why" told why --campaign
free
ends () { wait $run && cmp <(scores "$work/disk/out/crew-1.scores.h5" "$work/elsewhere") <(scores "$work/whole/crew-1.scores.h5" "$work/whole$beside"); }
ok "and it goes on when there is room" ends

speaks () { cat "$work"/words.* | grep -ciE 'no space|disk (is )?full'; }
# A process of the crew has met the full disk, however slowly it runs; or the campaign is over.
noticed () { [ -e "$work/over" ] || [ "$(speaks)" -gt "$before" ]; }
fresh () # a campaign on that disk
{
    crew_new
    rm -rf "$work/disk"/*
    mkdir "$work/disk/out" && ln -sfn "$work/disk/out" "$work/out"
}
campaign ()
{
    local failures=0
    fresh
    [ $((RANDOM % 3)) != 0 ] || fill # full from the first moment
    for role in broker worker-1 producer; do crew_start $role; done
    # Full for a while at a random moment, and once more.
    rm -f "$work/over"
    (before=0
    for i in 1 2; do
        sleep 0.$((RANDOM % 10))
        [ $i = 1 ] || before=$(speaks)
        fill
        until_true 60 noticed
        sleep 0.$((2 + RANDOM % 8))
        free
    done) &
    local weather=$!
    while crew_wait; do
        if [ "$role$code" = producer0 ]; then
            [ "$crew_input" != "${crew_inputs[1]}" ] || break
            crew_input=${crew_inputs[1]}
        else # a process that could not even start reports it and may be started again
            grep -qiE 'no space|disk (is )?full|cannot' "$work/words.$role" ||
                echo "$role ended with $code without a word of the disk"
            [ $((failures += 1)) -lt 200 ] || break
            sleep 0.1
        fi
        crew_start "$role"
    done
    [ "$role$code" = producer0 ] || echo 'nobody ends any more'
    touch "$work/over"
    { wait $weather; } 2>/dev/null
    crew_stop
    full=$((full + $(speaks)))
    crew_same && crew_words
}
wrong=0 full=0
for ((i = 0; i < n; i++)); do
    campaign >"$work/said" 2>/dev/null && [ ! -s "$work/said" ] && continue
    wrong=$((wrong + 1))
    crew_tell "campaign $i: $(head -n 5 "$work/said" | tr '\n' ';')"
done
ok "every campaign ends with the output of an undisturbed run" test $wrong = 0
ok "and it was full ($full lines about it)" test $full -gt 0
proved P3 $((2 * n)) $((2 * (n - wrong)))

# A broker is killed there with results in its journal, and started again on the disk that is full by then: it cannot
# open its ledger (or, where it has nothing to add to that, begin). It reports that once, and waits for room; a signal
# ends it meanwhile, with 75.
again () # with or without a ledger, what is full then
{
    fresh
    for role in broker worker-1 producer; do crew_start $role; done
    until_true 60 compgen -G "$work/disk/out$beside/journal/*.result" || return 1
    crew_stop KILL
    [ "$1" = with ] || rm "$work/disk/out$beside"/ledger.db*
    rm "$work/words.broker" "$work/disk/out$beside/endpoint.json"
    fill
    crew_start broker
    until_true 60 grep -q "disk full at $work/disk/.*$2: waiting; free some space" "$work/words.broker" || return 1
    read -rt 1 -u "$tick" # long enough for twenty checks of the disk
    kill -0 "$(crew_pid broker)" && [ ! -e "$work/disk/out$beside/endpoint.json" ] || return 1
    if [ "$1" = with ]; then
        kill -TERM "$(crew_pid broker)" && crew_wait && [ "$role$code" = broker75 ] || return 1
        crew_start broker
    else
        [ "$(grep -c 'disk full' "$work/words.broker")" = 1 ] || return 1
    fi
    free
    for role in worker-1 producer; do crew_start $role; done
    crew_written && crew_stop && crew_same && crew_words
}
waits () # with, without
{
    again "$@" && return
    crew_tell "$1"
    crew_stop
    free
    return 1
}
before=$failures
ok "killed and started again on the full disk: waits for room, and goes on" waits with ''
ok "where its ledger is gone too: reports it once" waits without /ledger.db
proved P3 2 $((2 - (failures - before)))
done_testing
