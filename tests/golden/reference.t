#!/bin/bash
# reference.t - the manual's reference against sources and real outputs: a variable, key, metric, column or code that a page lacks.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
[ -x build/venv/bin/python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model ${small}1 && make_events serve --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
unset WM_JOIN_FILE WM_BROKER
out=$work/out http=$((port + 5)) of_gateway=$((port + 6))
page () { python3 tests/golden/reference.py "$@"; }
ok "environment variables" page environment
ok "statuses of hits" page statuses
ok "exit codes" page exit_codes
ok "functions of the library" page c_api

# A paused campaign with a worker, a producer, an open input and a held one shows all lists.
echo "no events" >"$work/bad.h5"
cp "$made/serve.h5" "$work/one.h5" && build/venv/bin/python -c 'import sys, h5py
h5py.File(sys.argv[1], "r+")["hit_table/wire"][0] = 1000000' "$work/one.h5" || bail "no input with a bad hit"
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
broker=$!
ok "a broker" until_true 60 test -e "$out$beside/endpoint.json"
ok "... is paused" "$bin/wiremill" pause "$out" --why "to look at it"
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$work/one.h5" --input "$work/bad.h5" >"$work/produce" 2>"$work/producer.log" &
producer=$!
"$bin/wiremill" work "$out" --idle-timeout 600 >"$work/work" 2>&1 &
live () { "$bin/wiremill" status "$out" --json >"$work/live.json" && page status_json "$work/live.json"; }
until_true 60 live
ok "status --json of a campaign that runs" live
"$bin/wiremill" serve "$out" --listen "127.0.0.1:$http" --interval 0.2 >"$work/serve" 2>&1 &
"$bin/wiremill" gateway --model "m=$made/model-${small}1.wmm" --grpc 127.0.0.1:0 --http "127.0.0.1:$of_gateway" --threads 1 >"$work/gateway" 2>&1 &
get () { printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' |
    timeout 20 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && cat >&3 && cat <&3' "$1" 2>/dev/null; }
scraped () { get "$http" >"$work/metrics"; get $of_gateway >"$work/of-gateway"; page metrics "$work/metrics" "$work/of-gateway"; }
until_true 60 scraped
ok "metrics of serve and of the gateway" scraped
"$bin/wiremill" resume "$out" >/dev/null 2>&1
wait $producer
ok "the result line" page result_line "$work/produce"
kill $broker
wait $broker
ok "the ledger's views" page ledger "$out$beside/ledger.db"
"$bin/wiremill" status "$out" --json >"$work/disk.json"
ok "status --json of a campaign on disk" page status_json "$work/live.json" "$work/disk.json"
done_testing
