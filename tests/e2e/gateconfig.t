#!/bin/bash
# gateconfig.t - what config.pbtxt makes of a model: its shapes, its labels, its batches.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
[ -e "$build/lib/wm_openvino.so" ] || { skip "no OpenVINO"; done_testing; exit; }
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
run () { timeout 240 build/venv/bin/python tests/e2e/gateconfig.py "$1" "$work" "${@:2}"; }
run files || bail "no models"
gateway --threads 1 --model-repository "$work/models" 2>"$log" &
gateway=$!
until_true 60 address
ok "what can be honoured is loaded, what cannot is not" run ready "$http"
ok "metadata and configuration have the shapes that clients send" run words "$http"
ok "reshape, free sizes, max_batch_size 0: answers have those shapes" run shapes "$http"
ok "a sequence beside a state of one row" run sequence "$http"
ok "a model as densenet_onnx" run judged "$http"
ok "the classification extension, with labels" run classes "$http"
ok "the reasons name the shapes" run refusals "$http"
ok "SIGTERM ends it" drained
done_testing
