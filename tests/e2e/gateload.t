#!/bin/bash
# gateload.t - a model of the gateway is loaded from other files: what clients notice, and what becomes of requests that wait for
# the version before, which works, fails for a reason that may pass, or is unloaded.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
library=${WM_BUILD:-build/release}
[ -z "$SAN" ] || library=build/release # Python cannot load one with sanitizers
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work SIDE=16
[ "$small" ] || SIDE=48
make_model "${small}1" && make_model "${small}2" || bail "no models"
one=$made/model-${small}1 two=$made/model-${small}2
# The gateway starts programs beside its own: of `wiremill` one whose allocation has no memory where its arguments contain what
# $work/poor has.
mkdir "$work/bin"
cp "$bin/wiremill-gateway" "$work/bin" && ln -s "$(realpath "$bin/wiremill-producer")" "$work/bin" || bail "no programs"
printf '#!/bin/sh\nread -r poor <%q 2>/dev/null\ncase "$*" in *${poor:-none}*) export SLURM_MEM_PER_NODE=10 ;; esac\nexec %q "$@"\n' \
    "$work/poor" "$(realpath "$bin/wiremill")" >"$work/bin/wiremill"
chmod +x "$work/bin/wiremill"
run () { WIREMILL_LIBRARY=$PWD/$library/lib/libwiremill.so.1 PYTHONPATH=ops/python timeout 120 build/venv/bin/python tests/e2e/gateload.py "$@"; }
post () { curl -s -m 60 -X POST -o "$work/answer" -w '%{http_code}' "http://$http/v2/repository/$1"; } # path; prints the code
load () # code, pattern, what: load (default), unload
{
    local code
    code=$(post "models/m/${3:-load}") && [ "$code" = "$1" ] && { [ -z "$2" ] || grep -q "$2" "$work/answer"; } && return
    echo "$code"
    cat "$work/answer"
    return 1
}
index () { [ "$(post index)" = 200 ] && [ "$(cat "$work/answer")" = "$1" ] || { cat "$work/answer"; return 1; }; } # JSON
state () { [ "$(post index)" = 200 ] && grep -q "$1" "$work/answer"; } # pattern
row () { echo "{\"name\":\"m\",\"version\":\"$1\",\"state\":\"READY\",\"reason\":\"$2\"}"; } # version, reason
put () { mkdir -p "$work/models/m/$2" && cp "$1" "$work/new" && mv "$work/new" "$work/models/m/$2/model.onnx"; } # file, version
crew () { pgrep -n -f "wiremill run --clients .*$work/"; } # of the model that was loaded last
folder () { tr '\0' '\n' <"/proc/$1/cmdline" | grep '/c$'; } # process: its campaign
fail () # from now on the processes of the model cannot be started
{
    local crew
    crew=$(crew)
    folder "$crew" >"$work/poor"
    kill -9 "$crew"
}
ask () { run "$@" >"$work/asked-$1" 2>&1 & } # a part of gateload.py, its arguments; `asks` is its process
waiting () { [ "$(curl -s "http://$http/metrics" | sed -n 's/^wiremill_gateway_memory_bytes //p')" -gt "$1" ]; } # bytes
answered () { wait "$1" || { cat "$work"/asked-*; return 1; }; } # process
size=$((300 * SIDE * SIDE * 4))

put "$one.onnx" 1
"$work/bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model-repository "$work/models" 2>"$work/log" &
gateway=$!
until_true 60 grep -q 'gRPC on' "$work/log" || bail "no gateway"
http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")
until_true 60 state READY || bail "no model"

ask steady "$http" "$one.wmm" "$two.wmm" "$work"
clients=$!
until_true 60 test -e "$work/begun"
put "$two.onnx" 1
ok "a model is loaded from another file" load 200 ''
touch "$work/loaded"
first () { run of "$http" "$two.wmm"; }
ok "it answers" first
ok "metrics have the version once" test "$(curl -s "http://$http/metrics" | grep -c '^nv_inference_count')" = 1
touch "$work/enough"
ok "its clients noticed nothing but other scores" answered $clients
ok "the log tells of both" until_true 60 grep -q "model 'm' version 1, as it was before, is unloaded" "$work/log"

echo "this is no model" >"$work/models/m/1/model.onnx"
ok "loading a damaged file fails" load 400 "failed to load 'm', version 1: .*model.onnx"
ok "... and the model is served as before" run of "$http" "$two.wmm"
ok "the index tells both" state '^.{"name":"m","version":"1","state":"READY","reason":"[^"]*model.onnx'
ok "... the log, too" grep -q "model 'm' version 1 is served as it was before until a client loads it again: " "$work/log"
printf 'input { name: "other" }' >"$work/models/m/config.pbtxt"
put "$one.onnx" 1
ok "a configuration that does not fit fails" load 400 "unexpected inference input 'other'"
shown () { curl -s "http://$http/v2/models/m/config" | grep -q '"max_batch_size":65536' && run of "$http" "$two.wmm"; }
ok "... and leaves it as it was" shown
rm "$work/models/m/config.pbtxt"

# The version fails for a reason that may pass.
fail
ok "its processes cannot be started" until_true 60 state '"UNAVAILABLE".*this allocation has 10'
ask of "$http" "$one.wmm"
asks=$!
ok "a request waits" until_true 60 waiting $size
ok "another file is loaded" load 200 ''
ok "... which answers the request" answered $asks
ok "the index has it once" until_true 60 index "[$(row 1 '')]"

# The version works when another file is loaded, has a request, and fails then.
kill -STOP "$(pgrep -f "^wiremill-worker .*$(folder "$(crew)")" | head -n 1)"
ask of "$http" "$two.wmm"
asks=$!
ok "a request is being computed" until_true 60 waiting $size
before=$(crew)
put "$two.onnx" 1
ok "the model is loaded meanwhile" load 200 ''
folder "$before" >"$work/poor"
kill -9 "$before"
ok "the version before fails: the new one answers" answered $asks

# Another version comes, and the one before goes.
fail
ok "its processes cannot be started again" until_true 60 state '"UNAVAILABLE".*this allocation has 10'
ask of "$http" "$one.wmm"
asks=$!
ok "a request for any version waits" until_true 60 waiting $size
ask refused "$http" "Request for unknown model: 'm' version 1 is not at ready state: .*this allocation has 10" 1
other=$!
ok "one for version 1, too" until_true 60 waiting $((2 * size))
put "$one.onnx" 2
ok "version 2 is loaded in its place" load 200 ''
ok "version 2 answers the first" answered $asks
ok "... the other one is refused" answered $other
ok "... and it is gone" until_true 60 index "[$(row 2 '')]"

# It is unloaded while it fails.
fail
ok "its processes cannot be started once more" until_true 60 state '"UNAVAILABLE".*this allocation has 10'
ask refused "$http" "this allocation has 10"
asks=$!
ok "a request waits again" until_true 60 waiting $size
ok "the model is unloaded" load 200 '' unload
ok "the request is answered by the reason" answered $asks
ends () { kill -TERM $gateway && wait $gateway; }
ok "it ends" ends
done_testing
