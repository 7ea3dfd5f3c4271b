#!/bin/bash
# lib.t - libwiremill's scores of dense patches are those that a campaign writes from planes, bit for bit.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
lib=$PWD/${WM_BUILD:-build/release}/lib python=build/venv/bin/python
make_model 1 && make_events lib --events 1 --seed 5 --tpcs 1 --hits "$(size 600 15000 15000)" || bail "no model or events"
cc -O1 -Iops/lib tests/lib/calls.c -L"$lib" -lwiremill -Wl,-rpath,"$lib" -pthread -lm -o "$work/calls" || bail "cc"
"$bin/wiremill" cut --input "$made/lib.h5" --patches "$work/patches.npy" >&2 || bail "wiremill cut does not work"
same () # engine, precision: as wiremill run, and as the library take them
{
    "$bin/wiremill" run --quiet --model "$made/model-1.onnx" --input "$made/lib.h5" --engine "$1" --precision "$2" \
        --output "$work/$1-$2" &&
        npy_values "$work/patches.npy" | ENGINE=$1 PRECISION=$2 "$work/calls" score "$made/model-1.onnx" >"$work/$1-$2.f4" &&
        "$python" tests/golden/golden.py same "$work/$1-$2/lib.scores.h5" "$work/$1-$2.f4"
}
ok "fp32" same auto fp32
if [ "$(size test proof soak)" != test ]; then
    if [ -e "$lib/wm_openvino.so" ]; then ok "OpenVINO" same openvino fp32; else skip "no OpenVINO here"; fi
fi
done_testing
