#!/bin/bash
# bench.sh - every number of the README, with the machine beside it: `make bench`.
#
# EVENTS=n (20) synthetic events in the pipeline's row; BATCHES=n (20000) in the broker's.
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
"$build/bench/sparse_bench" "$work/model.wmm" threads=1,"$(nproc)"

echo; echo "== broker: 100 KB tasks, 16 KB results, workers that do no work"
"$build/bench/broker_bench" "$bin/wiremill-broker" "$work/broker" --batches "${BATCHES:-20000}" --task 102400 \
    --hits 960 --workers 2 --resume

echo; echo "== whole pipeline, this machine"
campaign "${EVENTS:-20} synthetic events" --model "$work/model.onnx" --input "$work/events.h5"
real=../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5
if [ -r $real ]; then
    spec=../shared/data/golden/spec.yaml
    campaign "real event, full view" --model "$work/model.onnx" --input $real --spec $spec
    sed 's/^view:.*/view: own/' $spec >"$work/own.yaml"
    grep -q '^view: own' "$work/own.yaml" || echo 'view: own' >>"$work/own.yaml"
    campaign "real event, own view" --model "$work/model.onnx" --input $real --spec "$work/own.yaml"
    campaign "real event, OpenVINO" --model "$work/model.onnx" --input $real --spec $spec --engine openvino
else
    echo "no ../shared here: the real event's rows are left out"
fi
