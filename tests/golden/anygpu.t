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
# As a worker opens it: the model of a campaign, by the shared object that it loads.
campaign () # engine
{
    WM_CUDA_SO=$bin/../tests/wm_cuda_standin.so keep "$bin/wiremill" run --quiet --model "$work/any.onnx" --engine "$1" --workers 1 \
        --input "$work/patches.npy" --output "$work/$1"
}
run ()
{
    build/venv/bin/python tests/golden/anyrun.py "$work" && campaign openvino && campaign cuda &&
        grep -q 'engine cuda/Stand-In.*/any.*the self-test is passed' "$work/cuda$beside"/log/worker-*.log &&
        keep "$bin/wiremill" compare "$work/openvino/patches.scores.h5" "$work/cuda/patches.scores.h5" && says '^the same within'
}
ok "a campaign with a CNN of another family gives OpenVINO's scores" run
for network in squeezenet resnet50; do
    # 75: this machine's cuDNN is absent or cannot plan without a device.
    plans () { keep "$program" plans "$light/light_$network.onnx" 64 || [ $? = 75 ]; }
    ok "cuDNN has plans for all of $network on an H200, an A100 and a T4" plans
    sed 's/^/# /' "$work/said"
done
done_testing
