#!/bin/bash
# tritonqa.t - the calls of Triton's QA tests and image clients: ops/manual/reference/gateway-protocol.md has which of Triton's tests they are.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
python=build/venv-gateway/bin/python
[ -x $python ] || { echo "1..0 # SKIP no tritonclient (make deps-gateway installs it)"; exit 0; }
[ -e "${WM_BUILD:-build/release}/lib/wm_openvino.so" ] || { echo "1..0 # SKIP no OpenVINO"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
build/venv/bin/python tests/e2e/tritonqa.py files "$work" || bail "no repository"
gateway --threads 1 --shared-memory --server-name triton --model-repository "$work/models" --model-control-mode explicit --load-model '*' 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
ok "every model is ready" until_true 300 is_ready
for one in infer_test infinite infer_variable infer_zero infer_reshape http_test aio_test image_client full_queue refused; do
    ok "$one" timeout 400 $python tests/e2e/tritonqa.py $one "$work" "$grpc" "$http"
done
ok "SIGTERM ends it" drained
done_testing
