#!/bin/bash
# serve.t - wiremill serve: /metrics with a broker and without; bad requests and many connections.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model 1 && make_events serve --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
out=$work/out http=$((port + 5))
unset WM_JOIN_FILE WM_BROKER

broker () # options...
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --batch-hits 8 "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
serve () { "$bin/wiremill" serve --listen "127.0.0.1:$http" --interval 0.2 "$@" >"$work/serve" 2>&1 & serve=$!; } # options...
# Sends stdin to the server and prints what it answers, for at most 20 s.
ask () { timeout 20 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && cat >&3 && cat <&3' "$http" 2>"$work/asked"; }
get () { printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' "$1" | ask; } # path
metric () { get /metrics | tr -d '\r' | awk -v name="$1" '$1 == name { print $2 }'; } # name{labels}: its value
is () { [ "$(metric "$1")" = "$2" ] || { echo "$1 is $(metric "$1"), wanted $2"; return 1; }; } # name{labels}, value
of_status () { "$bin/wiremill" status "$out" --json | sed -n "/\"$1\": {/,/}/s/.*\"$2\": *\([0-9]*\).*/\1/p" | head -n 1; }
memory () { awk '/^VmHWM/ { print $2 }' "/proc/$serve/status"; } # kB

serve "$out"
absent () { says 'does not exist' && wait $serve; [ $? = 2 ]; }
until_true 60 test -s "$work/serve"; cp "$work/serve" "$work/said"
ok "no folder: exit 2" absent
ok "a broker" broker --listen "ipc://$work/b"
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{32\}\).*/\1/p')
c="campaign=\"$id\""
serve "$out"
ok "wiremill serve prints where" until_true 60 grep -q "http://127.0.0.1:$http/metrics" "$work/serve"
ok "the broker answers" until_true 60 is "wiremill_up{$c}" 1
"$bin/wiremill" pause "$out" >/dev/null
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/serve.h5" >"$work/produce" 2>&1 &
producer=$!
has_queue () { [ "$(of_status batches queued)" -gt 10 ]; }
ok "a queue" until_true 60 has_queue
counted () { is "wiremill_batches{$c,state=\"queued\"}" "$(of_status batches queued)" && is "wiremill_paused{$c}" 1; }
ok "its depth, as in wiremill status" until_true 60 counted
ok "a paused campaign has no demand" is "wiremill_demand_batches{$c}" 0
"$bin/wiremill" resume "$out" >/dev/null
wanted () { is "wiremill_demand_batches{$c}" "$(($(of_status batches queued) + $(of_status batches asked)))"; }
ok "resumed it has" until_true 60 wanted
"$bin/wiremill" work "$out" --idle-timeout 60 >"$work/work" 2>&1 &
worker=$!
wait $producer
ok "a campaign" test $? = 0
done_all () { is "wiremill_hits_scored{$c}" "$(of_status hits done)" && is "wiremill_inputs{$c,state=\"written\"}" 1; }
ok "hits that are scored, files that are written" until_true 60 done_all
ok "a worker that is idle" until_true 60 is "wiremill_workers{$c,state=\"idle\"}" 1
kill $worker
wait $worker

# Requests that are none.
code () { head -n 1 | tr -d '\r' | cut -d' ' -f2; }
not_there () { [ "$(get /secret | code)" = 404 ] && [ "$(get '/metrics/../../etc/passwd' | code)" = 404 ]; }
ok "another path: 404" not_there
post () { printf 'POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\nabc' | ask | tee "$work/said" | code | grep -qx 405 &&
    grep -q '^Allow: GET, HEAD' "$work/said"; }
ok "another method: 405, and its body is not waited for" post
head_only () { printf 'HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' | ask >"$work/said"; [ "$(code <"$work/said")" = 200 ] && ! grep -q wiremill_up "$work/said"; }
ok "HEAD has no body" head_only
garbage () { head -c 100000 /dev/urandom | ask >"$work/said"; ! grep -q '^HTTP/1.1 200' "$work/said"; }
ok "garbage" garbage
long () { { printf 'GET /metrics HTTP/1.1\r\nX: '; head -c 200000 /dev/zero | tr '\0' x; printf '\r\n\r\n'; } | ask >"$work/said"; ! grep -q '^HTTP/1.1 200' "$work/said"; }
ok "a header of 200 kB" long
ok "it serves as before" is "wiremill_up{$c}" 1

if [ "$(size '' 1 1)" ]; then
# Connections: silent ones, and ones that send a byte now and then, go within seconds; memory stays.
before=$(memory)
many ()
{
    timeout 60 perl -MIO::Socket::INET -e '$SIG{PIPE} = "IGNORE";
        for (1 .. 150) { my $s = IO::Socket::INET->new (PeerAddr => "127.0.0.1:$ARGV[0]", Timeout => 5) or last; push @s, $s }
        print scalar (@s), "\n"; $| = 1;
        for my $round (1 .. 25) { for (@s) { syswrite $_, $round == 1 ? "GET /metrics HTTP/1.1\r\nX: " : "x" if $_->fileno % 2 } sleep 1 }' "$http" >"$work/many" &
    many=$!
    until_true 60 grep -q '^150$' "$work/many"
}
ok "150 connections that ask nothing, half of which send a byte now and then" many
ok "a request is answered all the same, later" until_true 60 is "wiremill_up{$c}" 1
kill $many 2>/dev/null
wait $many 2>/dev/null
bounded () { local after; after=$(memory); echo "$before kB, then $after kB"; [ "$after" -lt $((before + 4000)) ]; }
ok "within 4 MB" bounded
fi

# A broker that goes away and comes again, with keys.
kill $broker && wait $broker
only_up () { is "wiremill_up{$c}" 0 && [ "$(get /metrics | grep -c '^wiremill_')" = 1 ]; }
ok "no broker: wiremill_up is 0, and nothing old is shown" until_true 60 only_up
kill $serve && wait $serve
ok "a broker with keys" broker --listen "tcp://127.0.0.1:$port" --keys
"$bin/wiremill" keys revoke "$out" --id "$("$bin/wiremill" keys list "$out" | awk '$1 == "operator" { k = $2 } END { print k }')" >/dev/null
serve "$out"
ok "it asks by the campaign's monitor key, and needs no other" until_true 60 is "wiremill_up{$c}" 1
taken () { refused 1 "listen: cannot listen on 127.0.0.1:$http: Address already in use; give another port" "$bin/wiremill" serve "$out" --listen "127.0.0.1:$http"; }
ok "a port that is taken" taken
wrong () { for a in here 127.0.0.1 127.0.0.1: 127.0.0.1:x 127.0.0.1:99999 '[::1:80' host.invalid:1; do
    refused 2 "listen: .* is no address: .*give ADDRESS:PORT" "$bin/wiremill" serve "$out" --listen "$a" || return 1; done; }
ok "addresses that are none" wrong
by_worker () { refused 7 "key" "$bin/wiremill" serve --broker "tcp://127.0.0.1:$port" --join-file "$out$beside/join-worker" --listen 127.0.0.1:0; }
ok "a worker's key does not do" by_worker
kill -TERM $serve
ends () { wait $serve; }
ok "SIGTERM ends it with 0" ends
kill $broker && wait $broker
done_testing
