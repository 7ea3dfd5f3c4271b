#!/bin/bash
# gateprio.t - clients of the gateway go before a bulk campaign on the same workers, which gets the rest, and its share.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work WM_KILLER_SLOW_MS=5
make_model "${small}1" && make_model "${small}2" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
slow_engine
asks=$(size 8 40 40) batch=$(size 128 64 64) # requests of a client beside the flood; hits of a bulk batch
run () { timeout 900 build/venv/bin/python tests/e2e/gateprio.py "$@"; } # part, arguments...
serves () { until_true 60 grep -q "\"pid\": *$2" "$1/endpoint.json"; } # folder, broker
campaign () # name, socket: of files, without its producer
{
    "$bin/wiremill" broker --model "$made/model-${small}2.wmm" --output "$work/$1" --batch-hits "$batch" --listen "ipc://$work/$2" >"$work/$1.broker" 2>&1 &
    broker=$!
    serves "$work/$1$beside" $broker
}
produce () # name, socket
{
    "$bin/wiremill" produce --quiet --broker "ipc://$work/$2" --input "$made/two.h5" >"$work/$1.produce" 2>&1 &
    producer=$!
}
has_bulk () { "$bin/wiremill" status --broker "ipc://$work/$1.b" --json | grep -q '"running": *[1-9]'; } # the worker has batches of it
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }

# A farm: a broker for clients, one of a bulk campaign, a worker for both, the gateway before the first.
"$bin/wiremill" broker --clients --model "$made/model-${small}1.wmm" --campaign "$work/clients" --listen "ipc://$work/c" >"$work/clients.log" 2>&1 &
for_clients=$!
serves "$work/clients" $for_clients || bail "no broker for clients"
"$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --model "m=$made/model-${small}1.wmm" --broker "m=ipc://$work/c" 2>"$log" &
gateway=$!
until_true 60 address && address && until_true 60 is_ready || bail "no gateway"
farm () # name, worker's options...: clients flood the worker of both brokers
{
    local name=$1
    shift
    rm -f "$work/enough"
    campaign "$name" "$name.b" || return 1
    "$bin/wiremill" work --broker "ipc://$work/c" --broker "ipc://$work/$name.b" --engine openvino --threads 1 \
            --cache "$work/cache" "$@" >"$work/$name.log" 2>&1 &
    worker=$!
    run flood "$http" "$work/enough" >"$work/flood" 2>&1 &
    flood=$!
    until_true 120 grep -q 'all are answered' "$work/flood" && produce "$name" "$name.b" && until_true 120 has_bulk "$name"
}
flooded () { touch "$work/enough" && wait $flood || { cat "$work/flood"; return 1; }; }
finished () { wait $producer || { cat "$work/$1.produce"; return 1; }; }
worker_left () { kill -TERM $worker && exits 75 wait $worker && kill $broker && { wait $broker || true; }; }
rounds () { sed -n "s|.*$work/$2: \([0-9]*\) rounds; \([0-9]*\) of other brokers began while it waited.*|\1 \2|p" "$work/$1.log"; } # name, broker

ok "clients flood a worker that has bulk batches, too" farm none --bulk-share 0
ok "they are answered" run some "$http" "$asks"
ok "all of them" flooded
ok "afterwards the bulk campaign is finished" finished none
ok "the worker leaves" worker_left
never () { read -r n behind < <(rounds none c) && [ "$n" -gt 100 ] && [ "$behind" = 0 ] || { cat "$work/none.log"; return 1; }; }
ok "no bulk batch began while one of clients waited" never
waited () { read -r n behind < <(rounds none none.b) && [ "$n" -gt 0 ] && [ "$behind" -gt 0 ] || { cat "$work/none.log"; return 1; }; }
ok "but bulk batches waited for those of clients" waited
ok "again, with bulk's usual share" farm some
ok "the bulk campaign is finished though clients never pause" finished some
ok "who are answered" flooded
ok "the worker leaves again" worker_left
"$bin/wiremill" run --model "$made/model-${small}2.wmm" --quiet --engine openvino --input "$made/two.h5" --output "$work/alone" --batch-hits "$batch" \
    >"$work/run" 2>&1
ok "what it scored is that of a campaign by itself" same_scores two "$work/some" "$work/alone"
ok "... and when clients never left anything over" same_scores two "$work/none" "$work/alone"
ends () { kill -TERM $gateway && wait $gateway; }
ok "the gateway ends" ends
kill $for_clients && wait $for_clients

# One machine: the gateway's own worker serves a bulk broker, too, which comes, is killed, is done, and is followed by another.
rm "$log"
"$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$made/model-${small}1.wmm" --bulk "ipc://$work/g" --bulk-share 30 \
    --engine openvino 2>"$log" &
gateway=$!
until_true 60 address && address && until_true 60 is_ready || bail "no gateway"
worker () { pgrep -f "^wiremill-worker .*--bulk-share 30 --bulk-when /dev/fd/[0-9]* --beside ipc://$work/g" | head -n 1; }
ok "its worker gets what was typed" test -n "$(worker)"
both () { campaign beside g && produce beside g && run some "$http" 20 && wait $producer; }
ok "clients and a bulk campaign, the broker of which came later" both
ok "what it scored is that of a campaign by itself" same_scores two "$work/beside" "$work/alone"
another () { kill $broker && { wait $broker || true; } && campaign another g && produce another g && wait $producer; }
ok "the next campaign there is served, too" another
killed () { kill -9 "$(worker)" && "$bin/wiremill" kick --broker "ipc://$work/g" 1 && again && run some "$http" 5; }
again () { "$bin/wiremill" produce --quiet --broker "ipc://$work/g" --input "$made/two.h5" >"$work/again" 2>&1 || { cat "$work/again"; return 1; }; }
ok "a worker that is killed is back for both" killed
kill $broker && wait $broker
ok "clients need no bulk broker" run some "$http" 5
ok "the gateway ends, though its workers wait for one" ends
nothing_left () { ! pgrep -f "$work/"; }
ok "nothing is left" until_true 60 nothing_left
# Two models: a request of one, whose worker is stopped, keeps bulk batches away from the other's, too.
rm "$log"
"$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$made/model-${small}1.wmm" --model "n=$made/model-${small}1.wmm" \
    --bulk "ipc://$work/two.b" --bulk-share 0 --engine openvino 2>"$log" &
gateway=$!
until_true 60 address && address && until_true 60 is_ready || bail "no gateway"
stopped=$(pgrep -f "^wiremill-worker --broker ipc://$work/[^ ]*/1/c/broker" | head -n 1)
kill -STOP "$stopped"
MODEL=n run some "$http" 1 >"$work/of-n" 2>&1 &
of_n=$!
waits () { curl -s "http://$http/metrics" | grep -q '^wiremill_gateway_memory_bytes [1-9][0-9]\{5\}'; } # the request's 2,000 patches
ok "a request waits" until_true 60 waits
campaign two two.b && produce two two.b || bail "no bulk broker"
ok "the other model's worker has bulk batches" until_true 60 has_bulk two
scored () { "$bin/wiremill" status --broker "ipc://$work/two.b" --json | python3 -c 'import json, sys; print (json.load (sys.stdin)["hits"]["done"])'; }
kept_away () { run some "$http" "$asks" && [ "$(scored)" = 0 ] && has_bulk two || { scored; return 1; }; }
ok "it scores its clients' patches, and none of them" kept_away
kill -CONT "$stopped"
goes_on () { wait $of_n && wait $producer || { cat "$work/of-n" "$work/two.produce"; return 1; }; }
ok "they are answered, and the bulk campaign is finished" goes_on
ok "what it scored is that of a campaign by itself" same_scores two "$work/two" "$work/alone"
kill $broker && wait $broker
ok "the gateway of two models ends" ends
when () { refused 2 "bulk-when $1: give an inherited descriptor" "$bin/wiremill-worker" --broker "ipc://$work/c" --bulk-when "$1"; }
ok "a descriptor that is none" when nonsense
ok "a descriptor that is not there" when /dev/fd/900
exec 9</etc/passwd
ok "a descriptor of a file, for which nobody can wait" when /dev/fd/9
exec 9<&-
percent () { refused 2 'bulk-share' "$bin/wiremill" work --broker "ipc://$work/c" --bulk-share 100; }
ok "a share that is none" percent
many () { local b=(); for i in {1..16}; do b+=(--bulk "ipc://$work/g"); done; refused 2 'at most 15 times' "$bin/wiremill" "$@" --model "$made/x" "${b[@]}"; }
ok "too many brokers" many run --clients
ok "too many brokers of the gateway" many gateway
files () { refused 2 'is for --clients' "$bin/wiremill" run --model m --input i --output o --bulk "ipc://$work/g"; }
ok "a campaign of files has workers of its own" files
done_testing
