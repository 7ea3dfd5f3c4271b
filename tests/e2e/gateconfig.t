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
other () # log, options...: a gateway, beside the others; sets http
{
    log=$work/log-of-$1
    gateway --threads 1 "${@:2}" 2>"$log" &
    gateways+=($!)
    until_true 60 address
}
mkdir -p "$work/state/wiremill-loaded-7/1"
other explicit --model "given=$work/models/one/1/model.onnx" --model-repository "$work/models" --model-control-mode explicit --load-model dense --server-name triton \
    --state "$work/state"
ok "--model-control-mode explicit loads what --load-model names, and --model" run named "$http"
run loads "$http" >"$work/loads" 2>&1 & # while others are asked: it waits for most of its time
loads=$!
other none --model-repository "$work/models" --model-control-mode none
ok "what can be honoured is loaded, what cannot is not, and the reasons name the shapes; no client loads or unloads" \
    run ready,refusals,fixed "$http"
ok "clients' shapes in metadata and configuration, and answers; a sequence beside a state of one row; classes; densenet_onnx" \
    run words,shapes,sequence,judged,classes "$http"
loaded () { wait $loads || { cat "$work/loads"; return 1; }; }
ok "configurations and files that come with a load" loaded
kill -TERM "${gateways[@]}"
for one in 0 1; do
    ok "SIGTERM ends gateway $one" wait "${gateways[one]}"
done
left () { ! ls -d "$work"/state/wiremill-loaded-*; }
ok "nothing of them is left" left
no () { refused 2 "$1" "$bin/wiremill" gateway --model-repository "$work/models" "${@:2}"; } # pattern, options...
ok "a model that is not in the repository" no 'load-model nix: .*/models has no folder of this name' --load-model nix
ok "models that are loaded anyhow" no 'load-model: with --model-control-mode none every model is loaded; give explicit' --load-model dense \
    --model-control-mode none
ok "a name that is no text" no 'server-name: give a name in UTF-8' --server-name $'\xff'
done_testing
