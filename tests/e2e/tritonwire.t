#!/bin/bash
# tritonwire.t - Wire-Cell's TritonService against the gateway: its channel, its requests by tritonclient, a U-Net's planes.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} python=$PWD/build/venv/bin/python
[ -x build/venv-gateway/bin/python ] || { echo "1..0 # SKIP no tritonclient (make deps-gateway installs it)"; exit 0; }
[ -e "$build/lib/wm_onnxruntime.so" ] || { echo "1..0 # SKIP no ONNX Runtime here: a U-Net is no model of the sparse engine"; exit 0; }
export XDG_RUNTIME_DIR=$work
height=$(size 80 800 800) width=$(size 60 600 600)
"$python" tests/wirecell/unet.py make "$height" "$width" "$work/unet.onnx" &&
    "$python" tests/wirecell/unet.py input 3 "$height" "$width" "$work/in.f4" || bail "no U-Net"
"$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --model dnnroi="$work/unet.onnx" --workers 1 --threads 1 2>"$work/log" &
gateway=$!
address () { grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log"); [ "$grpc" ]; }
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")/v2/health/ready")" = 200 ]; }
until_true 60 address || { cat "$work/log"; bail "no gateway"; }
ok "the gateway is ready" until_true 120 is_ready
planes ()
{
    timeout 300 build/venv-gateway/bin/python tests/e2e/tritonwire.py "$grpc" dnnroi "$work/in.f4" "$work/out.f4" "$height" "$width" &&
        "$python" tests/wirecell/unet.py compare "$work/unet.onnx" "$work/in.f4" "$work/out.f4"
}
ok "tensors of rank 4, one and several a request, pings without calls: the planes are ONNX Runtime's" planes
faults ()
{
    timeout 300 build/venv-gateway/bin/python tests/e2e/tritonwire.py "$grpc" dnnroi faults "$height" "$width"
}
ok "what soft_fail turns into zeros is an error with a reason; a NaN is answered with NaN" faults
ended () { kill -TERM "$gateway" && wait "$gateway"; }
ok "SIGTERM ends the gateway" ended
done_testing
