#!/bin/bash
# resume.t - kill -9 of every process in turn, Ctrl-C, and the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
slow_engine
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/two.h5" --batch-hits 64 --engine openvino)
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"

# Starts a campaign in $out and waits until some hits are scored; its pid is in $pid. It gets no further before `go_on`, however
# seldom this machine lets the test look.
gate=$work/gate
go_on () { rm "$gate"; }
start ()
{
    out=$work/$1
    touch "$gate"
    WM_KILLER_GATE=$gate WM_KILLER_SLOW_MS=30 "${run[@]}" --output "$out" >"$work/$1.words" 2>&1 &
    pid=$!
    until_true 300 some_done
}
some_done ()
{
    "$bin/wiremill" status --campaign "$out$beside" --json | grep -Eq '"returned": [1-9]'
}
same () { same_scores two "$out" "$work/whole"; }

# Hits of all minutes of the history, and hits that are done.
counted ()
{
    local history done
    history=$("$bin/wiremill-broker" --history --campaign "$out$beside" | perl -MJSON::PP -ne '$page = decode_json $_;
        ($at) = grep { $page->{columns}[$_] eq "hits" } 0 .. 99; $n += $_->[$at] for @{$page->{rows}}; END { print $n }')
    done=$("$bin/wiremill" status --campaign "$out$beside" --json | perl -MJSON::PP -0777 -ne 'print decode_json ($_)->{hits}{done}')
    echo "history $history, done $done"
    [ "$done" -gt 0 ] && [ "$history" = "$done" ]
}

for victim in worker broker producer; do
    start $victim
    killed () { kill -9 "$(child $pid wiremill-$victim)" && go_on && wait $pid && same; }
    ok "a $victim is killed: run starts another, the output is the same" killed
    ok "the history counts each hit once" counted
    ok "and it says so, and when" grep -Eq "^20[0-9-]+T[0-9:]+Z wiremill run: .*$victim.*signal 9" "$work/$victim.words"
    unsaid () { grep -hvE '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z [^ ]' "$out"$beside/log/*.log; }
    when () { [ -s "$out$beside/log/worker-1.log" ] && ! unsaid; }
    ok "each line of each log has its time" when
done

resumed () { "${run[@]}" --output "$out" && same; }
start run
children=$(cat /proc/$pid/task/$pid/children)
killed ()
{
    kill -9 $pid
    go_on
    wait $pid
    gone () { local p; for p in $children; do ! kill -0 "$p" || return 1; done; }
    until_true 60 gone
}
ok "run itself is killed: its children go" killed
ok "the same command makes the same output" resumed

start ctrlc
stopped () { kill -INT $pid; go_on; wait $pid; [ $? = 75 ]; }
ok "Ctrl-C drains with 75" stopped
ok "and prints the command that resumes" grep -q -- "--output $out" "$work/ctrlc.words"
ok "which makes the same output" resumed
nothing () { keep "${run[@]}" --output "$out" && says "nothing was left"; }
ok "and then there is nothing left to do" nothing

start away
moved ()
{
    mv "$out$beside" "$work/put-away" && go_on && exits 5 wait $pid &&
        grep "was moved, removed or replaced while its broker ran" "$work/away.words"
}
ok "its campaign is moved away: run ends, and prints why" moved
back () { mv "$work/put-away" "$out$beside" && resumed; }
ok "put back, the same command goes on" back

# A producer has as many inputs open as it may (16, while none is written) when its broker is killed: they take no further room.
make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 || bail "no events"
mkdir "$work/many"
for i in {1..18}; do cp "$made/layout.h5" "$work/many/$i.h5"; done
serve ()
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/full" --listen "ipc://$work/full.b" \
        >>"$work/full.broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$work/full$beside/endpoint.json"
}
announced () { "$bin/wiremill" status --broker "ipc://$work/full.b" --json | grep -Eq '"announced": 48,?$'; }
full ()
{
    serve || return 1
    timeout 60 "$bin/wiremill" produce --broker "ipc://$work/full.b" "$work"/many/*.h5 >"$work/full.words" 2>&1 &
    pid=$!
    until_true 60 announced && kill -9 $broker && serve || return 1
    "$bin/wiremill" work --broker "ipc://$work/full.b" --threads 1 --cache "$work/cache" >"$work/full.worker" 2>&1 &
    wait $pid || { cat "$work/full.words"; return 1; }
}
ok "a broker is killed whose producer has no room for more inputs: it finishes all" full
done_testing
