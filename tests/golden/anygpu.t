#!/bin/bash
# anygpu.t - any CNN through the CUDA engine's steps on the stand-in, compared with ONNX Runtime.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
program=$bin/../tests/any_run
[ -x "$program" ] || { echo "1..0 # SKIP no CUDA here to build the engine with"; exit 0; }
light=$(build/venv/bin/python -c 'import onnx, os; print (os.path.dirname (onnx.__file__))')/backend/test/data/light

case_of () { build/venv/bin/python tests/golden/anygpu.py "$program" "$work" "$1"; }
ok "small networks of every operator" case_of small
ok "what is not known is refused by node and operator" case_of refuse
ok "SqueezeNet" case_of squeezenet
ok "ShuffleNet" case_of shufflenet
[ "$(size test proof soak)" = test ] || ok "ResNet-50" case_of resnet50
for network in squeezenet resnet50; do
    # 75: this machine's cuDNN is absent or cannot plan without a device.
    plans () { keep "$program" plans "$light/light_$network.onnx" 64 || [ $? = 75 ]; }
    ok "cuDNN has plans for all of $network on an H200, an A100 and a T4" plans
    sed 's/^/# /' "$work/said"
done
done_testing
