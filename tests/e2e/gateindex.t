#!/bin/bash
# gateindex.t - the gateway with indices and sizes of clients that lie outside their tables: onnxruntime is the judge.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
[ -e "$build/lib/wm_openvino.so" ] || { skip "no OpenVINO"; done_testing; exit; }
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
run () { timeout 240 build/venv/bin/python tests/e2e/gateindex.py "$1" "$work" "${@:2}"; }
run files || bail "no models"
gateway --threads 2 --model-repository "$work/models" 2>"$log" &
gateway=$!
until_true 60 address
ok "every model is loaded" run ready "$http"
ok "operators that read by indices" run reads "$http"
ok "operators that write by indices" run writes "$http"
ok "operators that are given sizes" run sizes "$http"
ok "rows of a batch, each by itself" run rows "$http"
ok "integers of more than 32 bits" run wide "$http"
ok "SIGTERM ends it" drained
log=$work/strict
gateway --threads 2 --strict --model rows="$work/models/rows/1/model.onnx" 2>"$log" &
gateway=$!
until_true 60 address
until_true 60 run ready "$http"
ok "with --strict the request is refused, and the reason named" run strict "$http"
ok "SIGTERM ends that, too" drained
done_testing
