#!/bin/bash
# gatemodels.t - the gateway's models: a repository in Triton's layout, types, loading, and kills of all that is behind it.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
library=$build # Python cannot load one with sanitizers
[ -z "$SAN" ] || library=build/release
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
run () # what, arguments...: a part of gatemodels.py
{
    local what=$1
    shift
    WIREMILL_LIBRARY=$PWD/$library/lib/libwiremill.so.1 PYTHONPATH=ops/python timeout 600 \
        build/venv/bin/python tests/e2e/gatemodels.py "$what" "$work" "$@"
}
run files "$made/model-${small}1.onnx" || bail "no repository"

gateway --threads 1 --model-repository "$work/models" --model "given:7=$made/model-${small}1.wmm" 2>"$log" &
gateway=$!
ok "the gateway listens while its models load" until_true 60 address
address
ok "every model is loaded, or tells why it is not" run ready "$http"
told () { grep -q "model 'torch' is not loaded until a client loads it again: .* has no version to load.*its platform is pytorch_libtorch" "$log"; }
ok "its log tells why, too" told
ok "metadata, configuration, statistics and index" run words "$http"
ok "scores have the bits of libwiremill, whoever is killed meanwhile" run kills "$http" "$made/model-${small}1.wmm"
if [ -e "$build/lib/wm_openvino.so" ]; then
    ok "several inputs of five types, outputs of four" run types "$http"
    ok "a model without a batch dimension" run whole "$http"
    ok "images of 5.8 MB" run image "$http"
else
    skip "no OpenVINO: models outside the family"
fi
ok "models are loaded and unloaded while it runs" run load "$http"
ok "SIGTERM ends it" drained
nothing_left () { ! ls -d "$work"/wiremill-gateway-* && ! pgrep -f "$work/wiremill-gateway-"; }
ok "nothing of it is left" until_true 60 nothing_left

# Answers much larger than their requests.
log=$work/log-of-wide
if [ -e "$build/lib/wm_openvino.so" ]; then
    gateway --threads 1 --model "wide=$work/wide/1/model.onnx" --memory 32M --max-message 8M 2>"$log" &
    gateway=$!
    until_true 60 address
    address
    is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
    until_true 60 is_ready || bail "wide is not ready"
    peak () { awk '/^VmHWM/ { print $2 }' "/proc/$gateway/status"; } # kB
    before=$(peak)
    ok "answers larger than the memory in all: they wait, and are counted" run wide "$http" "$(pgrep -f "^wiremill-worker.*$work/wiremill-gateway-" | head -n 1)"
    bounded () { [ -n "$SAN" ] || [ "$(peak)" -lt $((before + 33000 + 48000)) ] || { echo "$before kB, then $(peak) kB"; return 1; }; }
    ok "its memory is bounded" bounded
    ok "SIGTERM ends it, too" drained
else
    skip "no OpenVINO: a model outside the family"
fi

# It follows its repository.
log=$work/log-of-poll
mkdir -p "$work/polled/first/1" && cp "$made/model-${small}1.onnx" "$work/polled/first/1/model.onnx"
gateway --threads 1 --model-repository "$work/polled" --model-control-mode poll --repository-poll 50ms 2>"$log" &
gateway=$!
until_true 60 address
address
ok "models that come, change and go are followed" run poll "$http" "$made/model-${small}1.onnx"
ok "SIGTERM ends that, too" drained

# A farm's broker.
log=$work/log-of-farm
serve () { exec "$bin/wiremill" run --clients --quiet --model "$made/model-${small}1.wmm" --campaign "$work/farm" --threads 1 --workers 1; }
serve 2>"$work/farm.log" &
gateway --threads 1 --model "emtrk=$made/model-${small}1.wmm" --broker "emtrk=ipc://$work/farm/broker" \
    --in-flight 1K 2>"$log" & # less than a patch: its helper is sent what it shares elsewhere
gateway=$!
until_true 60 address
address
ok "its log tells which broker" until_true 60 grep -q "model 'emtrk' version 1: connects to the broker at ipc://$work/farm/broker" "$log"
ok "a farm's broker scores" run scores "$http" "$made/model-${small}1.wmm"
ok "it leaves the farm's broker as it was" drained

ok "no model" refused 2 'no model is given' "$bin/wiremill" gateway
ok "a model without a name" refused 2 'write NAME=FILE' "$bin/wiremill" gateway --model "$made/model-${small}1.wmm"
ok "a model that is not there" refused 2 'm=/nothing does not exist' "$bin/wiremill" gateway --model m=/nothing
ok "a version twice" refused 2 'version 2 is given twice' "$bin/wiremill" gateway --model "m:2=$work/log" --model "m:2=$work/log"
ok "a repository that is not there" refused 2 '/nothing does not exist' "$bin/wiremill" gateway --model-repository /nothing
ok "nothing to follow" refused 2 'give the --model-repository' "$bin/wiremill" gateway --model "m=$work/log" --model-control-mode poll
ok "a broker of no model" refused 2 'write NAME=ENDPOINT' "$bin/wiremill" gateway --model "m=$work/log" --broker n=tcp://x:1
ok "an engine that is none" refused 2 'engine takes auto|sparse' "$bin/wiremill" gateway --model "m=$work/log" --engine foo
ok "a number that is none" refused 2 'in-flight takes a whole number from 1 to [0-9]*, also with K, M or G .*, not .many' "$bin/wiremill" gateway --model "m=$work/log" --in-flight many
ok "memory with a unit" refused 2 'message 2097152 is more than half of the memory, 3145728' "$bin/wiremill" gateway --model "m=$work/log" \
    --memory 3M --max-message 2048K
ok "an unknown unit" refused 2 'memory takes a whole number from .*, also with K, M or G .*, not .3Q' "$bin/wiremill" gateway --model "m=$work/log" --memory 3Q
ok "a unit and more" refused 2 'memory takes a whole number' "$bin/wiremill" gateway --model "m=$work/log" --memory 3MB
ok "too many of it" refused 2 'memory takes a whole number' "$bin/wiremill" gateway --model "m=$work/log" --memory 9000000000000000000G
ok "a state folder with a long name" refused 2 'sockets lie there' "$bin/wiremill" gateway --model "m=$work/log" \
    --state "$work/$(printf 'x%.0s' {1..90})"
mkdir "$work/held"
ok "a state folder of another gateway" refused 1 'another gateway works there' flock "$work/held" "$bin/wiremill" gateway \
    --model "m=$work/log" --state "$work/held"
done_testing
