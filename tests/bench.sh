#!/bin/bash
# bench.sh - every number of the README, with the machine beside it: `make bench`.
#
# EVENTS=n (20) synthetic events in the pipeline's row; BATCHES=n (20000) in the broker's; ROUNDS=n (5)
# of those that are compared by their medians.
cd "$(dirname "$0")/.." || exit 1
build=${WM_BUILD:-build/release}
bin=$PWD/$build/bin
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export LC_ALL=C

flags=$(grep -m1 '^flags' /proc/cpuinfo)
isa=
for f in avx2 avx512f avx512_bf16 avx512_vnni amx_bf16; do [[ " $flags " == *" $f "* ]] && isa+=" $f"; done
echo "machine: $(nproc) cores, $(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo),$isa; $(sed -n 's/MemTotal: *//p' /proc/meminfo)"
echo "commit:  $(git describe --always --dirty 2>/dev/null)  date: $(date +%F)"

json () { python3 -c 'import json, sys; d = json.load (open (sys.argv[1])); print (eval (sys.argv[2]))' "$1" "$2"; }
campaign () # title, run options...
{
    local title=$1
    shift
    rm -rf "$work/out"
    "$bin/wiremill" run --quiet --json --output "$work/out" "$@" >"$work/run.json" 2>"$work/run.words" ||
        { echo "$title: failed"; cat "$work/run.words"; return 1; }
    printf '%-44s %s\n' "$title" "$(json "$work/run.json" \
        '"%d hits, %.1f s, %d hits/s, %.3f MB an event to workers" % (d["status"]["hits"]["done"], d["seconds"], d["hits_s"], d["bytes_per_event"] / 1e6)')"
}

"$bin/wiremill" model new emtrkmichel --seed 1 -o "$work/model.onnx" &&
    "$bin/wiremill" import "$work/model.onnx" -o "$work/model.wmm" >/dev/null || exit 1
"$bin/wiremill" synth --events "${EVENTS:-20}" --seed 1 --output "$work/events.h5" 2>/dev/null || exit 1

echo; echo "== engine alone: planes made up of straight tracks"
"$build/bench/sparse_bench" "$work/model.wmm" threads=1,"$(nproc)" | tee "$work/tracks.txt"
echo; echo "== engine alone: noise, where nothing can be skipped before the convolution, and its dense form"
"$build/bench/sparse_bench" "$work/model.wmm" noise hits=3000 threads=1 repeat=1 | tee "$work/noise.txt"
"$build/bench/sparse_bench" "$work/model.wmm" noise full hits=3000 threads=1 repeat=1 | tee "$work/full.txt"

echo; echo "== broker: 100 KB tasks, 16 KB results, workers that do no work"
"$build/bench/broker_bench" "$bin/wiremill-broker" "$work/broker" --batches "${BATCHES:-20000}" --task 102400 \
    --hits 960 --workers 2 --resume

bench=("$build/bench/broker_bench" "$bin/wiremill-broker" "$work/broker")
echo; echo "== broker: tasks and results of no size"
"${bench[@]}" --batches 200000 --task 100 --hits 1 2>/dev/null
# Clients on the same cores take more of them when they are more: the broker's own CPU time tells what it costs.
echo; echo "== broker: the same, 10 and 500 idle workers beside the two that work, in turn; medians of ${ROUNDS:=5} runs each"
for ((round = 0; round < ROUNDS; round++)); do
    for idle in 10 500; do
        rm -rf "$work/broker"
        "${bench[@]}" --batches 400000 --task 100 --hits 1 --idle $idle 2>/dev/null |
            sed -n "s|.*: \\([0-9]*\\) batches/s .*; \\([0-9.]*\\) us .*|$idle \\1 \\2|p" >>"$work/idle"
    done
done
for idle in 10 500; do
    for column in 2 3; do
        awk -v idle=$idle -v column=$column '$1 == idle { print $column }' "$work/idle" | sort -n | sed -n "$(((ROUNDS + 1) / 2))p"
    done | xargs printf "%3d idle connections: %d batches/s, %.2f us of the broker's CPU a batch\n" $idle
done | tee "$work/idle.medians"
awk '{ gsub (/,/, ""); rate[NR] = $4; cpu[NR] = $6 }
     END { printf "500 over 10: %.2f of the rate, %.2f of the CPU time\n", rate[2] / rate[1], cpu[2] / cpu[1] }' "$work/idle.medians"
echo; echo "== broker: a start on ten million finished events and a million returned batches"
rm -rf "$work/broker"
"${bench[@]}" --finished 10000 --returned 1000000 --hits 1 2>/dev/null

echo; echo "== wm_core alone: batches a second it decides, 100,000 events announced"
"$build/bench/core_bench"

real=../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5
golden=../shared/data/golden/spec.yaml

# An engine alone: as many devices as workers, on batches that lie decoded in memory.
declare -A rate signature
engine () # name, title, spec, input, engine_bench options...
{
    local name=$1 title=$2
    shift 2
    "$build/bench/engine_bench" "$work/model.wmm" "$@" >"$work/engine.json" || return 1
    rate[$name]=$(json "$work/engine.json" 'd["hits_s"]')
    signature[$name]=$(json "$work/engine.json" 'd["signature"]')
    printf '%-44s %s\n' "$title" "$(json "$work/engine.json" \
        '"%d hits/s  (%s, %d hits, %d x %d threads)" % (d["hits_s"], d["signature"], d["hits"], d["workers"], d["threads"])')"
}
pipeline () # name, title, run options...
{
    local name=$1 title=$2
    shift 2
    campaign "$title" --model "$work/model.onnx" "$@" || return 1
    rate[$name]=$(json "$work/run.json" 'd["status"]["hits"]["done"] / d["seconds"]')
}

echo; echo "== engines alone, and the whole command with everything it does, on the same cores"
for precision in fp32 fast; do
    engine synth_$precision "synthetic, $precision, engine alone" protodune-2021 "$work/events.h5" --precision $precision
    pipeline pipeline_$precision "synthetic, $precision, whole command" --input "$work/events.h5" --precision $precision
    engine openvino_synth_$precision "synthetic, $precision, OpenVINO alone" protodune-2021 "$work/events.h5" \
        --precision $precision --engine openvino --hits 16384
done
if [ -r $real ]; then
    engine real1_fp32 "real event, fp32, engine alone, one thread" $golden $real --workers 1
    for precision in fp32 fast; do
        engine real_$precision "real event, $precision, engine alone" $golden $real --precision $precision \
            --workers 1 --threads 2
        engine openvino_real_$precision "real event, $precision, OpenVINO alone" $golden $real \
            --precision $precision --engine openvino --hits 16384
    done
    pipeline whole_real "real event, fp32, whole command" --input $real --spec $golden
    sed 's/^view:.*/view: own/' $golden >"$work/own.yaml"
    engine own_fp32 "real event, own view, engine alone" "$work/own.yaml" $real
    pipeline whole_own "real event, own view, whole command" --input $real --spec "$work/own.yaml"
    "$bin/wiremill" cut --spec $golden --input $real --patches "$work/patches.npy"
    rate[onnxruntime_real]=$(build/venv/bin/python tests/bench/onnxruntime_bench.py "$work/model.onnx" "$work/patches.npy")
    printf '%-44s %s hits/s\n' "real event, fp32, ONNX Runtime alone" "${rate[onnxruntime_real]}"
else
    echo "no ../shared here: the real event's rows are left out"
fi

ratios=(fp32_over_openvino_real:real_fp32:openvino_real_fp32 fast_over_openvino_real:real_fast:openvino_real_fast
    fp32_over_openvino_synth:synth_fp32:openvino_synth_fp32 fast_over_openvino_synth:synth_fast:openvino_synth_fast
    fp32_over_onnxruntime_real:real_fp32:onnxruntime_real pipeline_over_engine:pipeline_fp32:synth_fp32
    fast_pipeline_over_engine:pipeline_fast:synth_fast threads2_over_1:real_fp32:real1_fp32
    noise_over_dense_form:noise:noise_full)
# Of the kernel that the engine chose: hits a second on one thread, and the share of peak in percent.
IFS=/ read -r _ chosen kind _ <<<"${signature[synth_fp32]}"
of_kernel () { awk -v isa="$chosen" -v kind="$kind" '$1 == isa && $2 == kind && $3 == 1' "$1"; }
rate[noise]=$(of_kernel "$work/noise.txt" | awk '{ print $4 }')
rate[noise_full]=$(of_kernel "$work/full.txt" | awk '{ print $4 }')
share=$(of_kernel "$work/tracks.txt" | sed 's/.*GFLOP.s *\([0-9]*\) % of peak.*/\1/')

echo; echo "== ratios of this run (also in build/bench.json)"
{
    echo "{\"machine\": \"$(nproc) cores,$isa\", \"isa\": \"$chosen\""
    echo ", \"fp32_engine\": \"${signature[synth_fp32]}\", \"fast_engine\": \"${signature[synth_fast]}\""
    [ -n "$share" ] && echo ", \"fp32_share_of_peak\": $(awk "BEGIN { print $share / 100 }")"
    for r in "${ratios[@]}"; do
        IFS=: read -r name over under <<<"$r"
        [ -n "${rate[$over]}" ] && [ -n "${rate[$under]}" ] &&
            echo ", \"$name\": $(awk "BEGIN { printf \"%.2f\", ${rate[$over]} / ${rate[$under]} }")"
    done
    echo "}"
} >build/bench.json
sed 's/^[,{] *//; s/[{}"]//g; /^$/d' build/bench.json
