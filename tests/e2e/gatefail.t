#!/bin/bash
# gatefail.t - what the gateway starts fails: for a reason that may pass (no memory) it is tried again, for one that cannot (a
# damaged model) it is not; what clients learn of either.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
cp "$made/model-${small}1.onnx" "$work/m.onnx"
# The gateway starts programs beside its own: of `wiremill` one whose allocation has no memory while $work/poor is there.
mkdir "$work/bin"
cp "$bin/wiremill-gateway" "$work/bin" && ln -s "$(realpath "$bin/wiremill-producer")" "$work/bin" || bail "no programs"
printf '#!/bin/sh\n[ ! -e %q ] || export SLURM_MEM_PER_NODE=10\nexec %q "$@"\n' "$work/poor" "$(realpath "$bin/wiremill")" >"$work/bin/wiremill"
chmod +x "$work/bin/wiremill"
start () # options...
{
    rm -f "$work/log" # of the last one
    "$work/bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 "$@" 2>"$work/log" &
    gateway=$!
    until_true 60 grep -q 'gRPC on' "$work/log" || return 1
    http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")
}
post () { curl -s -m 300 -X POST -o "$work/answer" -w '%{http_code}' "http://$http/v2/repository/$1"; } # path; prints the code
state () { [ "$(post index)" = 200 ] && grep -q "$1" "$work/answer"; } # pattern
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/$1")" = 200 ]; } # health/ready, models/m/ready
ask () { timeout 300 build/venv/bin/python tests/e2e/gateprio.py some "$http" 1; }
answered () # code, pattern, path
{
    local code
    code=$(post "$3") && [ "$code" = "$1" ] && { [ -z "$2" ] || grep -q "$2" "$work/answer"; } && return
    echo "$code"
    cat "$work/answer"
    return 1
}
crew () { pgrep -f "wiremill run --clients .*$work/" | head -n 1; }

touch "$work/poor"
start --model "m=$work/m.onnx" || bail "no gateway"
ok "no memory: the model is not there" until_true 60 state '"UNAVAILABLE".*this allocation has 10.* of memory'
unready () { ! is_ready health/ready && ! is_ready models/m/ready && is_ready health/live; }
ok "... nor ready" unready
tells () { grep -q "model 'm' version 1 is not ready, and is tried again: .*this allocation has 10" "$work/log" && [ "$(grep -c 'and is tried again' "$work/log")" = 1 ]; }
ok "... which the log tells once" tells
ok "loading it fails, and tells why" answered 400 "failed to load 'm', version 1: .*this allocation has 10" models/m/load
ok "... each time" answered 400 "failed to load 'm', version 1: .*this allocation has 10" models/m/load
rm "$work/poor"
ok "there is memory: loading it tries at once" answered 200 '' models/m/load
ok "it is ready" is_ready models/m/ready
ok "it answers" ask
line="model 'm' version 1 is ready after [0-9.]* s: takes FP32 main_input \[-1,\(16,16\|48,48\),1\]; returns FP32 .*Softmax \[-1,3\], .*Sigmoid \[-1,1\]; engine auto, 1 x 1 threads"
ok "the log tells what it takes and returns" grep -q "$line" "$work/log"

touch "$work/poor"
kill -9 "$(crew)"
ok "its broker and workers are killed, and there is no memory for others" until_true 60 state '"UNAVAILABLE".*this allocation has 10'
ok "it is not ready" unready
ok "loading it fails" answered 400 "failed to load 'm', version 1: .*this allocation has 10" models/m/load
rm "$work/poor"
ok "there is memory again" answered 200 '' models/m/load
ok "it is ready again" is_ready models/m/ready
ok "... which the log tells" grep -q "model 'm' version 1 works again" "$work/log"

# A damaged model: the worker is stopped, so that a request waits.
wait_for_worker ()
{
    worker=$(pgrep -P "$(crew)" -f "^wiremill-worker " | head -n 1) # not one that a killed crew leaves for a moment
    kill -STOP "$worker"
    ask >"$work/asked" 2>&1 &
    asks=$!
}
wait_for_worker
asked () { curl -s "http://$http/metrics" | grep -q '^wiremill_gateway_memory_bytes [1-9][0-9]\{5\}'; } # the request's 2,000 patches
ok "a request waits" until_true 60 asked
echo "this is no model" >"$work/m.onnx"
kill -9 "$(crew)"
kill -9 "$worker" 2>/dev/null
gives_up () { wait $asks; [ $? != 0 ] && grep -q "Request for unknown model: .* version 1 is not at ready state: .*m.onnx" "$work/asked" || { cat "$work/asked"; return 1; }; }
ok "the model is damaged, and its processes are killed: the request is answered at once" gives_up
ok "... the index tells why" until_true 60 state '"UNAVAILABLE".*m.onnx'
ok "... and nothing is ready" unready
cp "$made/model-${small}1.onnx" "$work/m.onnx"
ok "loading it tries again" answered 200 '' models/m/load
ok "it answers again" ask
# The same while it is unloaded, which waits for the request.
wait_for_worker
ok "a request waits again" until_true 60 asked
curl -s -m 300 -X POST -o /dev/null -w '%{http_code}' "http://$http/v2/repository/models/m/unload" >"$work/unloaded" &
unloads=$!
unready_yet () { ! is_ready models/m/ready && ! [ -s "$work/unloaded" ]; }
ok "the model is unloaded, behind the request" until_true 60 unready_yet
echo "this is no model" >"$work/m.onnx"
kill -9 "$(crew)"
kill -9 "$worker" 2>/dev/null
ok "its processes cannot be started any more: the request is answered" gives_up
unloaded () { wait $unloads; [ "$(cat "$work/unloaded")" = 200 ]; }
ok "... and the model is unloaded" unloaded
cp "$made/model-${small}1.onnx" "$work/m.onnx"
ok "loading it works" answered 200 '' models/m/load
ends () { kill -TERM $gateway && wait $gateway; }
ok "the damaged model is in the log, with what to do" grep -q "model 'm' version 1 is not served until a client loads it again: .*m.onnx" "$work/log"
ok "unloading it" answered 200 '' models/m/unload
ok "... is in the log" until_true 60 grep -q "model 'm' version 1 is unloaded" "$work/log"
ok "loading it again" answered 200 '' models/m/load
ok "it answers" ask
ok "it ends" ends
ok "... and sums up what it did" grep -q "model 'm' version 1: requests: 1 scored (2000 patches, 0 of them NaN), 0 failed, 0 cancelled" "$work/log"
ok "... in all" grep -q 'ended after [0-9.]* s: [0-9]* calls, [1-9][0-9]* answered by an error; [0-9.]* MB received' "$work/log"

# No GPU, and workers that must have one: the gateway does not begin.
mkdir "$work/driver" "$work/unreadable" && fake_driver "$work/driver" && touch "$work/unreadable/libcuda.so.1" || bail "no compiler"
export LD_LIBRARY_PATH=$work/unreadable WM_FAKE_DRIVER=12040,0,100
no_gpu () # reason, option, its value
{
    refused 6 "wiremill gateway: $2 $3 cannot run here: the NVIDIA driver $1.*; --device cpu without --engine" "$work/bin/wiremill-gateway" \
        gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --model "m=$work/m.onnx" "${@:2}" && [ "$(wc -l <"$work/said")" = 1 ]
}
ok "a driver that cannot be opened: it does not begin" no_gpu 'cannot be opened' --engine cuda
LD_LIBRARY_PATH=$work/driver
CUDA_VISIBLE_DEVICES='' ok "GPUs that are hidden" no_gpu "shows no GPU: CUDA_VISIBLE_DEVICES is ''" --device cuda:0
CUDA_VISIBLE_DEVICES='' ok "... for the device alone: an engine that is chosen is not at fault" no_gpu 'shows no GPU' --device cuda:0 --engine auto

# The engine cannot run: the reason is the worker's, not the summary of its end.
export WM_CUDA_SO=$work/no.so WM_FAKE_DRIVER=12040,1,0 WM_FAILPOINT=wm-driver:1:$work/driver.died
start --model "m=$work/m.onnx" --engine cuda || bail "no gateway"
unset WM_FAILPOINT
ok "the process that asks the driver is killed: the gateway goes on" test -e "$work/driver.died"
ok "no such engine: the index tells why" until_true 60 state 'UNAVAILABLE.*the engine cuda cannot run here'
gone () { ! kill -0 $gateway 2>/dev/null; }
given_up () { until_true 60 gone && exits 5 wait $gateway && grep -q "$1" "$work/log" && grep -q 'none of its models can be loaded, for the reasons above, so it ends' "$work/log"; } # pattern
if [ "${WM_SIZE:-test}" = test ]; then
    ok "it ends, too" ends
else
    ok "it ends when the engine is given up, after 15 s" given_up 'the engine cuda cannot run here'
fi
unset WM_CUDA_SO WM_FAKE_DRIVER LD_LIBRARY_PATH
echo "this is no model" >"$work/bad.onnx"
start --model "bad=$work/bad.onnx" || bail "no gateway"
ok "a damaged model alone: it ends" given_up "model 'bad' version 1 is not served .*bad.onnx"
start --model "bad=$work/bad.onnx" --model "m=$work/m.onnx" || bail "no gateway"
ok "... beside a good one: it serves that" until_true 60 is_ready models/m/ready
ok "... until it is ended" ends

# A broker that it does not start refuses a session for good (it is another one, of files), while a request waits.
farm=ipc://$work/farm
serve () # clients or files
{
    local how=(--clients --campaign "$work/farm-clients")
    [ "$1" = clients ] || how=(--output "$work/farm-files")
    "$bin/wiremill" broker "${how[@]}" --model "$made/model-${small}1.wmm" --listen "$farm" 2>>"$work/farm.log" &
    served=$!
    until_true 60 "$bin/wiremill" status --broker "$farm" >"$work/status" 2>&1
}
unserve () { kill -TERM $served && { wait $served || true; }; }
serve clients || bail "no broker"
"$bin/wiremill" work --broker "$farm" --threads 1 2>"$work/farm.worker" &
farms=$!
start --model "m=$made/model-${small}1.wmm" --broker "m=$farm" --engine cuda || bail "no gateway" # it starts no workers
ok "the model of another broker is ready" until_true 60 is_ready models/m/ready
ok "it answers" ask
kill -TERM $farms && wait $farms
ask >"$work/asked" 2>&1 &
asks=$!
ok "a request waits for a worker" until_true 60 asked
unserve
ok "a broker of files is in the place of its broker" serve files
ok "its session is refused again and again, and it is not ready" until_true 60 grep -q "model 'm' version 1 is not ready, and is tried again: the broker serves files" "$work/log"
unready_yet () { ! is_ready models/m/ready && kill -0 $asks; }
ok "... and the request waits" unready_yet
unserve
ok "its broker is there again" serve clients
"$bin/wiremill" work --broker "$farm" --threads 1 2>>"$work/farm.worker" &
farms=$!
asks_well () { wait $asks || { cat "$work/asked"; return 1; }; }
ok "the request is answered, and nobody has loaded the model" asks_well
ok "it works again, which the log tells" until_true 60 grep -q "model 'm' version 1 works again" "$work/log"
ok "... and is ready" is_ready models/m/ready
ok "it answers the next" ask
ok "it ends, and leaves that broker" ends
kill -TERM $farms && wait $farms
unserve

# A repository whose folders cannot be served.
mkdir -p "$work/models/m/1" "$work/none"
touch "$work/models/m/1/model.onnx"
start --model "m=$work/m.onnx" --model-repository "$work/models" --model-control-mode none || bail "no gateway"
ok "a folder named like a --model is left out, and the log tells" grep -q "model 'm' is that of --model; .*models/m is not served" "$work/log"
ok "it is ready" until_true 60 is_ready health/ready
ok "it ends again" ends
start --model-repository "$work/models" --model-control-mode poll --exit-on-error false || bail "no gateway"
ok "damaged, of a followed repository" until_true 60 grep -q "model 'm' version 1 is not served until its files change: " "$work/log"
ok "that ends" ends
start --model-repository "$work/models" --model-control-mode none --exit-on-error false || bail "no gateway"
ok "damaged, of a fixed one" until_true 60 grep -q "model 'm' version 1 is not served until the gateway is started again: " "$work/log"
ok "that ends, too" ends
start --model-repository "$work/none" || bail "no gateway"
ok "an empty repository" until_true 60 grep -q '/none has no models yet' "$work/log"
ok "it ends as well" ends
done_testing
