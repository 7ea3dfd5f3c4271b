#!/bin/bash
# oracle.t - a small synthetic campaign with a seeded model, compared with ONNX Runtime.
cd "$(dirname "$0")/../.." || exit 1
case ${WM_SIZE:-test} in test) hits=500 ;; *) hits=3000 ;; esac # the reference takes 10 ms a hit
bin=${WM_BUILD:-build/release}/bin python=build/venv/bin/python
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cases=("1 auto 1e-5" "2 openvino 1e-5" "3 reference 1e-6")
export POCL_CACHE_DIR=$work/pocl && mkdir "$POCL_CACHE_DIR"
if [ -e /etc/OpenCL/vendors/pocl.icd ]; then cases+=("4 opencl 1e-5"); else echo "# no pocl: the opencl engine is not tried (make deps-opencl)"; fi
echo "1..${#cases[@]}"

check () # number, description, command...
{
    local number=$1 what=$2
    shift 2
    if "$@" >"$work/log" 2>&1; then echo "ok $number - $what"; else echo "not ok $number - $what"; fi
    sed 's/^/# /' "$work/log"
}

{
    "$bin/wiremill" synth --events 2 --seed 11 --hits $hits --tpcs 1 --output "$work/events.h5" &&
        "$bin/wiremill" model new emtrkmichel --seed 3 -o "$work/model.onnx"
} >"$work/made" 2>&1 || { cat "$work/made"; echo "Bail out! cannot make events and a model"; exit 1; }

for case in "${cases[@]}"; do
    set -- $case
    scored ()
    {
        "$bin/wiremill" run --model "$work/model.onnx" --input "$work/events.h5" --engine "$2" \
            --spec protodune-2021 --output "$work/$2" --quiet &&
            "$python" tests/golden/golden.py oracle "$bin/wiremill" "$work/model.onnx" \
                "$work/events.h5" "$work/$2/events.scores.h5" protodune-2021 "$work" "$3"
    }
    check "$1" "engine $2 agrees with ONNX Runtime within $3" scored "$@"
done
