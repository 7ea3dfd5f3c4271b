#!/bin/bash
# split.t - broker, producer and workers started by hand, over ipc and over tcp, by the lines that the broker prints.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
"$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/whole" --quiet --input "$made/two.h5" \
    >/dev/null 2>&1 || bail "wiremill run does not work"
nvml=$work/libnvidia-ml.so.1 # a GPU's temperature, on machines that have none
${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o "$nvml" || bail "no fake NVML"

for endpoint in "ipc://$work/b" "tcp://127.0.0.1:$port"; do
    out=$work/out-${endpoint%%:*}
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
    broker=$!
    ok "a broker serves at ${endpoint%%:*}" until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
    line () { sed -n "s|^.*Z   \($bin/wiremill $1 --broker $endpoint\)|\1|p" "$work/broker"; } # that it prints
    lines ()
    {
        [ -n "$(line produce)" ] && [ -n "$(line work)" ] && keep eval "$(line status)" && says "$endpoint" &&
            grep -q "serves $out$beside at $endpoint$" "$work/broker"
    }
    ok "it prints where, and what to type" until_true 60 lines
    eval "WM_NVML_SO=$nvml exec $(line work) --cache '$work/cache'" >"$work/worker" 2>&1 &
    worker=$!
    produced ()
    {
        keep eval "$(line produce | sed "s|FILES|$made/two.h5|")" &&
            says '1 input of this command: 1 written, 0 held, 0 not' &&
            says "the campaign of the broker at $endpoint" && says 'hits +4,929 scored'
    }
    ok "a producer is served, and prints a summary" produced
    ok "its scores are those of wiremill run" same_scores two "$out" "$work/whole"
    seen () { keep "$bin/wiremill" status --broker "$endpoint" && says WORKER && says "$endpoint"; }
    ok "status over ${endpoint%%:*}" seen
    warm ()
    {
        keep "$bin/wiremill" status --broker "$endpoint" &&
            says 'NVIDIA H200 .*61 C  512 W of 700 .* ECC 3 corrected, 1 not  slowed by: power, heat'
    }
    ok "status tells how a worker's GPU is" until_true 60 warm
    json () { keep "$bin/wiremill" status --broker "$endpoint" --json && says '"temperature_c": ?61'; }
    ok "so does its JSON" json
    other () { exits 0 "$bin/wiremill" run --broker "$endpoint" --quiet --input "$made/two.h5"; }
    ok "wiremill run --broker has nothing to do" other
    ok "drain is understood" "$bin/wiremill" drain --broker "$endpoint"
    gone () { ! kill -0 $worker; }
    ok "the worker leaves" until_true 60 gone
    spoke ()
    {
        grep -q "connects to $endpoint; engine auto, " "$work/worker" &&
            grep -Eq "leaves $endpoint after .* batches, 4929 hits .* in the engine, its threads idle for [0-9.]+ % of that" "$work/worker"
    }
    ok "it has printed where it connects, and what it did" spoke
    kill $broker
    stopped () { wait $broker; local code=$?; [ $code = 0 ] || [ $code = 75 ]; }
    ok "the broker stops when asked" stopped
done

# Progress, exit codes and advice of a producer are those of wiremill run.
head -c 20000 "$made/two.h5" >"$work/short.h5"
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/held" --listen "$endpoint" \
        --batch-hits 64 >"$work/broker" 2>&1 &
until_true 60 test -s "$work/held$beside/endpoint.json" || bail "no broker"
"$bin/wiremill" work --broker "$endpoint" --cache "$work/cache" >"$work/worker" 2>&1 &
held ()
{
    exits 3 keep "$bin/wiremill" produce --broker "$endpoint" --input "$made/two.h5" --input "$work/short.h5" &&
        says '2 inputs of this command: 1 written, 1 held' &&
        says "^  $bin/wiremill produce --retry-held --broker $endpoint --input"
}
ok "held inputs: exit code 3, by name, and what to type" held
all ()
{
    exits 5 keep "$bin/wiremill" produce --quiet --broker "$endpoint" --input "$work/short.h5" && says 'short.h5'
}
ok "all inputs held: exit code 5" all
json ()
{
    exits 0 keep "$bin/wiremill" produce --quiet --json --broker "$endpoint" --input "$made/two.h5" &&
        says '"schema": "wiremill-run-1"'
}
ok "the summary as JSON" json
bar () { TERM=xterm keep script \
        -qec "stty cols 80; '$bin/wiremill' produce --retry-held --broker $endpoint --input '$made/two.h5'" \
        /dev/null </dev/null &&
    perl -0777 -ne 'for (/\r\e\[K([^\r\n]*)/g) { $n += /files/; $most = length if length > $most; } exit !($n && $most < 80)' "$work/said"; }
ok "on a terminal one line shows how far it is" bar
none ()
{
    exits 4 keep "$bin/wiremill" produce --broker "ipc://$work/nobody" --give-up 1 --input "$made/two.h5" &&
        says "no broker answers at ipc://$work/nobody" && says 'is .wiremill broker. running' &&
        says "^  $bin/wiremill produce --broker"
}
ok "no broker: exit code 4, and what to type" none

# What has no effect with a broker elsewhere is refused, and who takes it is named.
useless () # option...
{
    exits 2 keep "$bin/wiremill" run --broker "$endpoint" --input "$made/two.h5" "$@" &&
        says "^wiremill run: $1 has no effect with --broker.*wiremill (broker|work)"
}
for option in "--model x" "--spec x" "--precision fast" "--max-error 1" --mixed "--batch-hits 9" "--output x" \
        "--campaign x" "--workers 1" "--threads 1" "--engine sparse" "--device cpu" "--isa c" --pin; do
    # shellcheck disable=SC2086 # it is split
    ok "${option% *} with --broker" useless $option
done
done_testing
