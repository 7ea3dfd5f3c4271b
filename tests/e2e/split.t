#!/bin/bash
# split.t - broker, producer and workers started by hand, over ipc and over tcp.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
"$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/whole" --quiet --input "$made/two.h5" \
    >/dev/null 2>&1 || bail "wiremill run does not work"
nvml=$work/libnvidia-ml.so.1 # a GPU's temperature, on machines that have none
${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o "$nvml" || bail "no fake NVML"

for endpoint in "ipc://$work/b" "tcp://127.0.0.1:$port"; do
    out=$work/out-${endpoint%%:*}
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
    broker=$!
    ok "a broker serves at ${endpoint%%:*}" until_true 60 grep -q "\"pid\": *$broker" "$out/.wiremill/endpoint.json"
    WM_NVML_SO=$nvml "$bin/wiremill" work --broker "$endpoint" --cache "$work/cache" >"$work/worker" 2>&1 &
    worker=$!
    ok "a producer is served" "$bin/wiremill" produce --broker "$endpoint" --input "$made/two.h5"
    ok "its scores are those of wiremill run" same_scores two "$out" "$work/whole"
    seen () { keep "$bin/wiremill" status --broker "$endpoint" && says WORKER && says "$endpoint"; }
    ok "status over ${endpoint%%:*}" seen
    warm () { keep "$bin/wiremill" status --broker "$endpoint" && says 'NVIDIA H200 .*61 C  512 W of 700 .* ECC 3 corrected, 1 not  slowed by: power, heat'; }
    ok "status tells how a worker's GPU is" until_true 60 warm
    json () { keep "$bin/wiremill" status --broker "$endpoint" --json && says '"temperature_c": ?61'; }
    ok "so does its JSON" json
    other () { exits 0 "$bin/wiremill" run --broker "$endpoint" --quiet --input "$made/two.h5"; }
    ok "wiremill run --broker has nothing to do" other
    ok "drain is understood" "$bin/wiremill" drain --broker "$endpoint"
    gone () { ! kill -0 $worker; }
    ok "the worker leaves" until_true 60 gone
    kill $broker
    stopped () { wait $broker; local code=$?; [ $code = 0 ] || [ $code = 75 ]; }
    ok "the broker stops when asked" stopped
done
done_testing
