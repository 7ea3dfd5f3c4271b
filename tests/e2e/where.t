#!/bin/bash
# where.t - how programs find a broker: its folder, --broker, WM_BROKER, on this machine and on another that shares the
# folder; what it advertises; and what is printed where it has gone.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
unset WM_BROKER
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
wm=$bin/wiremill out=$work/out file=$work/out$beside/endpoint.json
serve () # broker's options...
{
    "$wm" broker --model "$made/model-${small}1.wmm" --output "$out" "$@" >"$work/broker.words" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$file" || bail "no broker: $(cat "$work/broker.words")"
}
stop () { kill "-${1:-TERM}" $broker && { wait $broker; } 2>/dev/null; }
field () { python3 -c 'import json, sys; v = json.load (open (sys.argv[1]))[sys.argv[2]]; print (v if isinstance (v, str) else " ".join (v) if isinstance (v, list) else v)' "$file" "$1"; }
# The same folder, seen from a machine of another name.
elsewhere=()
unshare --uts true 2>/dev/null && elsewhere=(unshare --uts sh -c 'hostname other-machine && exec "$@"' sh)

# One command line finds the broker by the campaign's folder, whatever ports it took.
serve --listen "tcp://*:$port-$((port + 7))" --insecure
ok "a range: its first free ports are taken, and printed" until_true 60 grep -q "serves $out$beside at tcp://\*:$port\$" "$work/broker.words"
ok "... and a command that can be typed elsewhere" until_true 60 grep -q "work --broker tcp://$(hostname):$port\$" "$work/broker.words"
ok "endpoint.json has this machine's address" test "$(field endpoint)" = "tcp://127.0.0.1:$port"
ok "... what the broker listens on" test "$(field listen)" = "tcp://*:$port"
ok "... a name for other machines" grep -q "tcp://$(hostname):$port" <<<"$(field advertise)"
ok "... and where it runs" test "$(field host)" = "$(hostname)"
ok "... and keeps commands that find it again" grep -q "work --campaign $out$beside" "$out$beside/command"
"$wm" work "$out" --cache "$work/cache" --threads 1 >"$work/worker.words" 2>&1 &
worker=$!
ok "work and produce find it by the folder" exits 0 "$wm" produce --campaign "$out" --input "$made/one.h5" --quiet
kill $worker && { wait $worker; } 2>/dev/null
ok "status too, and prints where others find it" eval 'keep "$wm" status "$out" && says "^broker file:///|^broker tcp://127.0.0.1:$port " &&
    says "other machines reach it at tcp://$(hostname):$port"'
ok "so do why, held, pause, resume, kick and drain" eval 'for v in why held pause resume drain resume; do "$wm" $v "$out" || exit 1; done;
    "$wm" kick -c "$out" --all-held'
here () { (cd "$out" && exits 0 "$wm" status); }
ok "the current folder is a campaign" here

# WM_BROKER stands for --broker; what is typed comes first.
free=tcp://127.0.0.1:$((port + 12))
ok "WM_BROKER" eval 'WM_BROKER=tcp://127.0.0.1:$port keep "$wm" status && says "^broker tcp"'
ok "... before the current folder" eval '(cd "$out" && WM_BROKER=$free refused 4 "no broker answers at $free" "$wm" status)'
ok "... after a folder that is named" eval 'WM_BROKER=$free exits 0 "$wm" status "$out"'
ok "... after --broker" eval 'WM_BROKER=$free exits 0 "$wm" status --broker tcp://127.0.0.1:$port'
ok "... of produce" eval 'WM_BROKER=$free refused 4 "no broker answers at $free" "$wm" produce --give-up 1 "$made/one.h5"'
WM_BROKER=$free "$wm" run "$made/one.h5" >"$work/run.words" 2>&1 &
run=$!
ok "... of run without a model" until_true 60 grep -q "1 file to the broker at $free" "$work/run.words"
{ kill $run && wait $run; } 2>/dev/null
for verb in status work pause; do
    ok "... that is no address: $verb" eval 'WM_BROKER=head:5555 refused 2 "WM_BROKER: head:5555 is neither" "$wm" $verb'
done
ok "a folder and --broker" refused 2 "not both" "$wm" work "$out" --broker "$free"
ok "two folders" refused 2 "leave '$out' out" "$wm" work --campaign "$out" "$out"
ok "several addresses: the one that answers" exits 0 "$wm" status --broker "$free,tcp://no.such.invalid:5,tcp://localhost:$port"
if [ ${#elsewhere[@]} -gt 0 ]; then
    ok "another machine that shares the folder finds it" exits 0 "${elsewhere[@]}" "$wm" status "$out"
else
    skip "another host name needs root"
fi
stop
ok "the file is removed at the end" test ! -e "$file"

# On loopback only: a person on another machine learns where to go.
serve --listen tcp://127.0.0.1:$port
if [ ${#elsewhere[@]} -gt 0 ]; then
    for verb in status pause; do
        ok "only its own machine reaches it: $verb" refused 4 "runs on $(hostname) and can be reached only there, at tcp://127.0.0.1:$port; .*--listen" \
                "${elsewhere[@]}" "$wm" $verb "$out"
    done
else
    skip "another host name needs root"
fi
# A worker that waits for a broker follows it to another address.
: >"$work/worker.words" # of an earlier worker
"$wm" work "$out" --cache "$work/cache" --threads 1 >"$work/worker.words" 2>&1 &
worker=$!
until_true 60 grep -q "session with" "$work/worker.words"
stop KILL
until_true 60 grep -q "tries to connect again" "$work/worker.words"
ok "a broker that was killed: where it was" refused 4 "no broker answers at $out$beside: none is running; it was last at tcp://127.0.0.1:$port on $(hostname), started 20" \
    "$wm" pause "$out"
[ ${#elsewhere[@]} -eq 0 ] || ok "... on another machine" refused 4 "can be reached only there" "${elsewhere[@]}" "$wm" pause "$out"
gives_up () { refused 4 "no broker answers at file://$file; it was last at tcp://127.0.0.1:$port on" "$wm" produce --campaign "$out" \
    --give-up 1 "$made/one.h5"; }
ok "... for who waits" gives_up
serve --listen tcp://127.0.0.1:$((port + 4))
ok "a worker finds the broker again at another address" until_true 60 eval '[ "$(grep -c "session with" "$work/worker.words")" -ge 2 ]'
{ kill $worker && wait $worker; } 2>/dev/null
stop

# A port forward: other ports than the broker's, one of them not in a row (the forward of the proof's bad link, which is calm).
"$proof/chaos_proxy" $((port + 8)) $port 1 300 0 >/dev/null &
until_true 60 bash -c "exec 3<>/dev/tcp/127.0.0.1/$((port + 8))"
serve --listen tcp://127.0.0.1:$port --advertise "tcp://localhost:$((port + 8))/$((port + 9))/$((port + 10))"
ok "--advertise: three ports in a row are printed short" until_true 60 grep -q "work --broker tcp://localhost:$((port + 8))\$" "$work/broker.words"
if [ ${#elsewhere[@]} -gt 0 ]; then
    "${elsewhere[@]}" "$wm" work "$out" --cache "$work/cache" --threads 1 >"$work/worker.words" 2>&1 &
    worker=$!
    ok "a campaign through the port forward" exits 0 "${elsewhere[@]}" "$wm" produce --campaign "$out" --retry-held --quiet "$made/one.h5"
    { kill $worker && wait $worker; } 2>/dev/null
else
    skip "another host name needs root"
fi
stop
serve --listen tcp://127.0.0.1:$port --advertise "tcp://gate.example:7000/7100/7200,tcp://10.9.8.7:80"
ok "... others by number, several addresses" until_true 60 grep -q "other machines reach it at tcp://gate.example:7000/7100/7200\$" "$work/broker.words"
ok "... each role's port" until_true 60 grep -q "workers use port 7000, producers 7100, operators 7200" "$work/broker.words"
ok "... also in the status" eval '"$wm" status "$out" --json | tr -d " \n" | grep -q "\"advertise\":\[\"tcp://gate.example:7000/7100/7200\",\"tcp://10.9.8.7:80\"\]"'
stop
ok "--advertise of what nobody can connect to" refused 2 "--advertise tcp://\*:5555: \* is an address to listen on" "$wm" broker \
    --model "$made/model-${small}1.wmm" --output "$out" --advertise 'tcp://*:5555'

# IPv6.
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
    serve --listen "tcp://[::1]:$port"
    ok "IPv6, by its number" exits 0 "$wm" status --broker "tcp://[::1]:$port"
    ok "... and by the folder" exits 0 "$wm" status "$out"
    ok "... not in the other family" refused 4 "no broker answers" "$wm" status --broker "tcp://127.0.0.1:$port"
    stop
else
    skip "no IPv6 here"
fi
done_testing
