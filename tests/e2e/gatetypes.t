#!/bin/bash
# gatetypes.t - the limits of every type of ONNX's, infinities and masks, through the gateway and back, against NumPy.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
for engine in openvino onnxruntime; do
    [ -e "$build/lib/wm_$engine.so" ] || { skip "no $engine"; done_testing; exit; }
done
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
library=$build # Python cannot load one with sanitizers
[ -z "$SAN" ] || library=build/release
run () # what, arguments...: a part of gatetypes.py
{
    local what=$1
    shift
    WIREMILL_LIBRARY=$PWD/$library/lib/libwiremill.so.1 PYTHONPATH=ops/python timeout 240 \
        build/venv/bin/python tests/e2e/gatetypes.py "$what" "$work" "$@"
}
all="BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64"
# shellcheck disable=SC2046,SC2086 # words
set -- $(size "UINT16 UINT32 INT64 FP64" "$all" "$all")
run files "$@" || bail "no models"
gateway --threads 1 --model-repository "$work/models" 2>"$log" &
gateway=$!
until_true 60 address
ok "every model is loaded" run ready "$http"
for kind in "$@"; do ok "$kind: its limits, sums, bits, casts" run limits "$http" "$kind"; done
ok "infinities and masks are values" run infinite "$http"
ok "an index beyond 32 bits is outside its table" run ids "$http"
ok "SIGTERM ends it" drained

ok "ONNX Runtime scores what OpenVINO computes in a narrower type" run scorers "$bin/wiremill"

# Elsewhere rows are float32: such a model is refused, or imported without.
model=$work/models/INT64/1/model.onnx
ok "such a .wmm is made" "$bin/wiremill" import --exact-types --output "$work/exact.wmm" "$model"
ok "libwiremill refuses it" run library "$work/exact.wmm"
ok "so does a campaign of files" refused 5 "'a' keeps a type that float32 does not hold.*without --exact-types" \
    "$bin/wiremill" run --model "$work/exact.wmm" --input "$model" --output "$work/out"
ok "and another engine" refused 5 "'a' of this model is carried exactly.*leave out --engine" \
    "$bin/wiremill" run --clients --quiet --engine reference --model "$work/exact.wmm" --campaign "$work/other"
ok "the option is for clients" refused 2 "exact-types is for --clients" \
    "$bin/wiremill" run --exact-types --model "$model" --input "$model" --output "$work/out"
"$bin/wiremill" run --clients --exact-types --quiet --model "$model" --campaign "$work/farm" --threads 1 --workers 1 \
    >"$work/farm.log" 2>&1 &
farm=$!
ok "libwiremill refuses such a broker" run client "ipc://$work/farm/broker"
kill -TERM $farm
wait $farm
done_testing
