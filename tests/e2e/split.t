#!/bin/bash
# split.t - broker, producer and workers started by hand, over ipc and over tcp.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
"$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/whole" --quiet --input "$made/two.h5" \
    >/dev/null 2>&1 || bail "wiremill run does not work"
port=$((20000 + $$ % 20000))

for endpoint in "ipc://$work/b" "tcp://127.0.0.1:$port"; do
    out=$work/out-${endpoint%%:*}
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
    broker=$!
    ok "a broker serves at ${endpoint%%:*}" until_true 10 grep -q "\"pid\": *$broker" "$out/.wiremill/endpoint.json"
    "$bin/wiremill" work --broker "$endpoint" --cache "$work/cache" >"$work/worker" 2>&1 &
    worker=$!
    ok "a producer is served" "$bin/wiremill" produce --broker "$endpoint" --input "$made/two.h5"
    ok "its scores are those of wiremill run" same_scores two "$out" "$work/whole"
    seen () { keep "$bin/wiremill" status --broker "$endpoint" && says WORKER && says "$endpoint"; }
    ok "status over ${endpoint%%:*}" seen
    other () { exits 0 "$bin/wiremill" run --broker "$endpoint" --quiet --input "$made/two.h5"; }
    ok "wiremill run --broker has nothing to do" other
    ok "drain is understood" "$bin/wiremill" drain --broker "$endpoint"
    gone () { ! kill -0 $worker; }
    ok "the worker leaves" until_true 20 gone
    kill $broker
    stopped () { wait $broker; local code=$?; [ $code = 0 ] || [ $code = 75 ]; }
    ok "the broker stops when asked" stopped
done
done_testing
