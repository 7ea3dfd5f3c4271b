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

other () # options...: another gateway
{
    gateway --threads 1 --model "given=$work/models/one/1/model.onnx" "$@" 2>"$log" &
    gateway=$!
    until_true 60 address
}
mkdir -p "$work/state/wiremill-loaded-7/1"
log=$work/log-of-explicit
other --model-repository "$work/models" --model-control-mode explicit --load-model dense --server-name triton --state "$work/state"
ok "--model-control-mode explicit loads what --load-model names, and --model" run named "$http"
ok "configurations and files that come with a load" run loads "$http"
ok "SIGTERM ends that, too" drained
left () { ! ls -d "$work"/state/wiremill-loaded-*; }
ok "nothing of them is left" left
log=$work/log-of-none
other --model-control-mode none
ok "--model-control-mode none: nobody loads or unloads" run fixed "$http"
drained
no () { refused 2 "$1" "$bin/wiremill" gateway --model-repository "$work/models" "${@:2}"; } # pattern, options...
ok "a model that is not in the repository" no 'load-model nix: .*/models has no folder of this name' --load-model nix
ok "models that are loaded anyhow" no 'load-model: with --model-control-mode none every model is loaded; give explicit' --load-model dense \
    --model-control-mode none
ok "a name that is no text" no 'server-name: give a name in UTF-8' --server-name $'\xff'
done_testing
