#!/bin/bash
# bench.sh - every number of the README, with the machine beside it: `make bench`, `make bench ONLY=pipeline`.
#
# usage: bench.sh [kernels] [broker] [engines] [pipeline]     (all of them)
# pipeline is a part of engines: what the whole command reaches of the engine alone, in both precisions.
# EVENTS=n (20) synthetic events; BATCHES=n (20000) in the broker's row; ROUNDS=n (5) of
# those that are compared by their medians. All writes build/bench.json, a part build/bench-part.json.
cd "$(dirname "$0")/.." || exit 1
build=${WM_BUILD:-build/release}
bin=$PWD/$build/bin
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export LC_ALL=C
parts=("$@")
wants () { [ ${#parts[@]} = 0 ] || [[ " ${parts[*]} " == *" $1 "* ]]; }

flags=$(grep -m1 '^flags' /proc/cpuinfo)
isa=
for f in avx2 avx512f avx512_bf16 avx512_vnni amx_bf16; do [[ " $flags " == *" $f "* ]] && isa+=" $f"; done
echo "machine: $(nproc) cores, $(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo),$isa; $(sed -n 's/MemTotal: *//p' /proc/meminfo)"
echo "commit:  $(git describe --always --dirty 2>/dev/null)  date: $(date +%F)"

# What `wiremill bench` says of one point, d.
point () { python3 -c 'import json, sys; d = json.load (open (sys.argv[1]))["points"][0]; print (eval (sys.argv[2]))' "$work/point.json" "$1"; }
measure () # title, bench, its options...
{
    local title=$1
    shift
    "$bin/wiremill" bench "$@" --model "$work/model.wmm" --folder "$work" --quiet --json "$work/point.json" \
        >"$work/words" 2>&1 || { echo "$title: failed"; cat "$work/words"; return 1; }
}

"$bin/wiremill" model new emtrkmichel --seed 1 -o "$work/model.onnx" &&
    "$bin/wiremill" import "$work/model.onnx" -o "$work/model.wmm" >/dev/null || exit 1
events=${EVENTS:-20}
"$bin/wiremill" synth --events "$events" --seed 1 --output "$work/events.h5" 2>/dev/null || exit 1

if wants kernels; then
    echo; echo "== engine alone: planes made up of straight tracks"
    "$build/bench/sparse_bench" "$work/model.wmm" threads=1,"$(nproc)"
    echo; echo "== engine alone: noise, where nothing can be skipped before the convolution, and its dense form"
    "$build/bench/sparse_bench" "$work/model.wmm" noise hits=3000 threads=1 repeat=1 | tee "$work/noise.txt"
    "$build/bench/sparse_bench" "$work/model.wmm" noise full hits=3000 threads=1 repeat=1 | tee "$work/full.txt"
fi

# Of lines "beside rate cpu": the medians of two, and the second over the first.
medians () # file, beside, beside
{
    local beside column
    for beside in "$2" "$3"; do
        for column in 2 3; do
            awk -v b="$beside" -v c=$column '$1 == b { print $c }' "$1" | sort -n | sed -n "$(((ROUNDS + 1) / 2))p"
        done | xargs echo "$beside"
    done | awk '{ printf "beside %s: %d batches/s, %.2f us of CPU a batch in the broker\n", $1, $2, $3; rate[NR] = $2; cpu[NR] = $3 }
                END { printf "the second over the first: %.2f of the rate, %.2f of the CPU time\n", rate[2] / rate[1], cpu[2] / cpu[1] }'
}
if wants broker; then
    bench=("$bin/wiremill-broker" --bench "$work/broker")
    echo; echo "== broker: 100 KB tasks, 16 KB results, workers that do no work"
    "${bench[@]}" --batches "${BATCHES:-20000}" --task 102400 --hits 960 --workers 2 --resume
    rm -rf "$work/broker"
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
    medians "$work/idle" 10 500
    echo; echo "== broker: the same beside peers that mean harm (tests/fault/hostile.c, at the lowest priority), in turn"
    for ((round = 0; round < ROUNDS; round++)); do
        for beside in nobody them; do
            rm -rf "$work/broker"
            hostile=
            [ $beside = nobody ] || { nice -n 19 "$build/tests/fault/hostile" "ipc://$work/broker/b" 600 >/dev/null & hostile=$!; }
            "${bench[@]}" --batches 400000 --task 100 --hits 1 2>/dev/null |
                sed -n "s|.*: \\([0-9]*\\) batches/s .*; \\([0-9.]*\\) us .*|$beside \\1 \\2|p" >>"$work/hostile"
            [ -z "$hostile" ] || { kill $hostile; wait $hostile; } 2>/dev/null
        done
    done
    medians "$work/hostile" nobody them
    echo; echo "== broker: a start on ten million finished events and a million returned batches"
    rm -rf "$work/broker"
    "${bench[@]}" --finished 10000 --returned 1000000 --hits 1 2>/dev/null
    rm -rf "$work/broker"
    echo; echo "== wm_core alone: batches a second it decides, 100,000 events announced"
    "$build/bench/core_bench"
fi

real=../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5
golden=../shared/data/golden/spec.yaml
declare -A rate signature share
engine () # name, title, input, spec, options of wiremill bench...
{
    local name=$1 title=$2 input=$3 spec=$4
    shift 4
    measure "$title" engine --input "$input" --spec "$spec" --batch 4096 "$@" || return 1
    rate[$name]=$(point 'd["best_hits_s"]')
    signature[$name]=$(point 'd["signature"]')
    share[$name]=$(point 'round (d.get ("cpu_peak_share", 0), 2)')
    printf '%-44s %s\n' "$title" "$(point '"%d hits/s  (%s, %d x %d threads; %.0f %% of peak by CPU time; from double %.1e)" % (d["best_hits_s"], d["signature"], d["workers"], d["threads"], 100 * d.get ("cpu_peak_share", 0), d["error"])')"
}
pipeline () # name, title, input, spec, options of wiremill bench...
{
    local name=$1 title=$2 input=$3 spec=$4
    shift 4
    measure "$title" pipeline --input "$input" --spec "$spec" "$@" || return 1
    rate[$name]=$(point 'd["whole_hits_s"]')
    printf '%-44s %s\n' "$title" "$(point '"%d hits, %.1f s, %d hits/s, %.3f MB an event to workers" % (d["hits"], d["seconds"], d["whole_hits_s"], d["bytes_per_event"] / 1e6)')"
    printf '%-44s %s\n' "" "$(point '"a batch: queue %.0f ms, stage %.2f, compute %.0f, commit %.1f; CPU s: engine %.1f, worker %.2f, producer %.2f, broker %.2f" % tuple (d[k] for k in ("queue_ms", "stage_ms", "compute_ms", "commit_ms", "cpu_engine_s", "cpu_worker_s", "cpu_producer_s", "cpu_broker_s"))')"
}

# Long enough for the engine to see all synthetic events, or many of them in a shuffled order.
seconds=$((events < 9 ? 2 * events + 2 : 20))
both=(--workers 2 --threads 1)
openvino=("${both[@]}" --engine openvino --hits 16384 --seconds 4)
if wants engines || wants pipeline; then
    echo; echo "== engines alone, and the whole command with everything it does, on the same cores"
    for precision in fp32 fast; do
        engine synth_$precision "synthetic, $precision, engine alone" "$work/events.h5" protodune-2021 \
            --precision $precision "${both[@]}" --seconds $seconds
        pipeline pipeline_$precision "synthetic, $precision, whole command" "$work/events.h5" protodune-2021 \
            --precision $precision "${both[@]}"
        wants engines && engine openvino_synth_$precision "synthetic, $precision, OpenVINO alone" "$work/events.h5" \
            protodune-2021 --precision $precision "${openvino[@]}"
    done
fi
if wants engines && [ -r $real ]; then
    engine real1_fp32 "real event, fp32, engine alone, one thread" $real $golden --precision fp32 --threads 1
    for precision in fp32 fast; do
        engine real_$precision "real event, $precision, engine alone" $real $golden --precision $precision --threads 2
        engine openvino_real_$precision "real event, $precision, OpenVINO alone" $real $golden \
            --precision $precision "${openvino[@]}"
    done
    pipeline whole_real "real event, fp32, whole command" $real $golden
    sed 's/^view:.*/view: own/' $golden >"$work/own.yaml"
    engine own_fp32 "real event, own view, engine alone" $real "$work/own.yaml" --precision fp32 "${both[@]}"
    pipeline whole_own "real event, own view, whole command" $real "$work/own.yaml"
    "$bin/wiremill" cut --spec $golden --input $real --patches "$work/patches.npy"
    rate[onnxruntime_real]=$(build/venv/bin/python tests/bench/onnxruntime_bench.py "$work/model.onnx" "$work/patches.npy")
    printf '%-44s %s hits/s\n' "real event, fp32, ONNX Runtime alone" "${rate[onnxruntime_real]}"
elif wants engines; then
    echo "no ../shared here: the real event's rows are left out"
fi

ratios=(fp32_over_openvino_real:real_fp32:openvino_real_fp32 fast_over_openvino_real:real_fast:openvino_real_fast
    fp32_over_openvino_synth:synth_fp32:openvino_synth_fp32 fast_over_openvino_synth:synth_fast:openvino_synth_fast
    fp32_over_onnxruntime_real:real_fp32:onnxruntime_real pipeline_over_engine:pipeline_fp32:synth_fp32
    fast_pipeline_over_engine:pipeline_fast:synth_fast threads2_over_1:real_fp32:real1_fp32
    noise_over_dense_form:noise:noise_full)
# Of the kernel that the engine chose: hits a second on one thread.
IFS=/ read -r _ chosen kind _ <<<"${signature[synth_fp32]}"
of_kernel () { [ -r "$1" ] && awk -v isa="${chosen:-}" -v kind="${kind:-}" '(isa == "" || $1 == isa && $2 == kind) && $3 == 1 { print $4; exit }' "$1"; }
rate[noise]=$(of_kernel "$work/noise.txt")
rate[noise_full]=$(of_kernel "$work/full.txt")

report=build/bench${1:+-part}.json
echo; echo "== ratios of this run (also in $report)"
{
    echo "{\"machine\": \"$(nproc) cores,$isa\""
    for text in "isa:$chosen" "fp32_engine:${signature[synth_fp32]}" "fast_engine:${signature[synth_fast]}"; do
        [ -n "${text#*:}" ] && echo ", \"${text%%:*}\": \"${text#*:}\""
    done
    [ -n "${share[synth_fp32]}" ] && echo ", \"fp32_share_of_peak\": ${share[synth_fp32]}"
    for r in "${ratios[@]}"; do
        IFS=: read -r name over under <<<"$r"
        [ -n "${rate[$over]}" ] && [ -n "${rate[$under]}" ] &&
            echo ", \"$name\": $(awk "BEGIN { printf \"%.2f\", ${rate[$over]} / ${rate[$under]} }")"
    done
    echo "}"
} >$report
sed 's/^[,{] *//; s/[{}"]//g; /^$/d' $report
