#!/bin/bash
# triton.t - clients of Triton, unchanged: tritonclient of three versions, KServe's client, perf_analyzer and h2load.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
venv=build/venv-gateway
[ -x "$venv/bin/python" ] || { echo "1..0 # SKIP no tritonclient (make deps-gateway installs it)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
build/venv/bin/python tests/e2e/tritonmodels.py "$work" "$made/model-${small}1.onnx" || bail "no repository"
start () # ports, options...
{
    local ports=$1
    shift
    rm -f "$work/log"
    "$bin/wiremill" gateway --grpc "127.0.0.1:${ports% *}" --http "127.0.0.1:${ports#* }" --threads 1 "$@" 2>"$work/log" &
    gateway=$!
    until_true 60 grep -q 'gRPC on' "$work/log" || { cat "$work/log"; return 1; }
    grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log") http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")
}
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/${1:-health}/ready")" = 200 ]; }
run () { timeout 900 "$venv$1/bin/python" tests/e2e/triton.py "$2" "$grpc" "$http" "${@:3}"; } # version, part, arguments...
ended () { kill -TERM $gateway && wait $gateway; }

start "0 0" --model-repository "$work/models" --max-message 8388608 || bail "no gateway"
ok "the gateway is ready" until_true 120 is_ready
for version in "" -2.48 -2.25; do
    [ -x "$venv$version/bin/python" ] || { skip "no tritonclient $version (make deps-gateway)"; continue; }
    ok "tritonclient ${version:--2.73}: gRPC and HTTP, asynchronous, streams, compression, errors" run "$version" calls
    ok "tritonclient ${version:--2.73}: asyncio, by gRPC and HTTP" run "$version" aio
    ok "tritonclient ${version:--2.73}: SqueezeNet, ResNet-50, ten inputs, a frozen graph" run "$version" models "$work"
    ok "tritonclient ${version:--2.73}: too large a request is refused in words" run "$version" larger
done
ok "gRPC's own service of health, by grpcio's client" run "" health
protoset () { grep -q '^ghz --insecure --protoset triton.protoset ' ops/manual/reference/gateway-protocol.md &&
    sed -n '/^from google.protobuf/,/^END$/{/^END$/!p}' ops/manual/reference/gateway-protocol.md | (cd "$work" && "$OLDPWD/$venv/bin/python"); }
ok "the manual's set of descriptors for ghz" protoset
ok "ghz's calls: messages made from JSON by descriptors" run "" ghz "$work/triton.protoset" "$(size 500 5000 5000)"
ok "a stream of 1,000 requests in order" run "" stream
ok "requests that are cancelled" run "" cancel
ok "500 clients at once" run "" many
calls=$(size 1000 5000 5000)
ok "kill -9 of each process of a model, by its name, under $calls calls: none lost, none twice" run "" kills $gateway "$calls" "$(size 1 5 20)"

if [ -x "$venv-kserve/bin/python" ]; then
    side=$(curl -s "http://$http/v2/models/m" | sed -n 's/.*"shape":\[-1,\([0-9]*\),.*/\1/p')
    ok "KServe's client" timeout 120 "$venv-kserve/bin/python" tests/e2e/triton_kserve.py "$grpc" "$http" "$side"
else
    skip "no KServe's client (make deps-gateway)"
fi

libraries=$(echo "$PWD/$venv"-2.48/lib/python3*/site-packages/nvidia/cuda_runtime/lib)
perf=(env "LD_LIBRARY_PATH=$libraries" "$venv-2.48/bin/perf_analyzer")
"${perf[@]}" --version >/dev/null 2>&1 && has_perf=1 || has_perf=
analyze () # rows, options...: so many rows are answered, none fails
{
    local rows=$1
    shift
    timeout 120 "${perf[@]}" -m m -b "$rows" --input-data zero --measurement-mode count_windows --measurement-request-count 40 -s 999 -r 3 "$@" \
        >"$work/perf" 2>&1 && grep -Eq 'throughput: [1-9][0-9.]* infer/sec' "$work/perf" && ! grep -qi 'error\|fail' "$work/perf" || { cat "$work/perf"; return 1; }
}
not_shared () { ! timeout 60 "${perf[@]}" -m m "$@" --shared-memory system >"$work/perf" 2>&1 && grep -q 'send the tensors in the request' "$work/perf"; }
if [ $has_perf ]; then
    ok "perf_analyzer: gRPC, two loads" analyze 16 -i grpc -u "$grpc" --concurrency-range 1:4:3
    ok "perf_analyzer: HTTP" analyze 16 -i http -u "$http" --concurrency-range 4
    ok "perf_analyzer: gRPC, asynchronous" analyze 8 -i grpc -u "$grpc" --async --concurrency-range 8
    ok "perf_analyzer: HTTP, asynchronous" analyze 8 -i http -u "$http" --async --concurrency-range 8
    ok "perf_analyzer: streams" analyze 1 -i grpc -u "$grpc" --streaming --concurrency-range 4
    ok "perf_analyzer: a rate" analyze 4 -i grpc -u "$grpc" --request-rate-range 100
    ok "perf_analyzer: compressed" analyze 4 -i grpc -u "$grpc" --grpc-compression-algorithm gzip
    ok "perf_analyzer: shared memory is refused in words, gRPC" not_shared -i grpc -u "$grpc"
    ok "perf_analyzer: shared memory is refused in words, HTTP" not_shared -i http -u "$http"
else
    skip "perf_analyzer does not start (make deps-gateway; libb64-0d)"
fi

load () # body, address, options...: every one of 2,000 requests is answered by 200
{
    h2load -n 2000 -d "$1" "${@:3}" "http://$2" >"$work/load" 2>&1
    grep -q '2000 succeeded, 0 failed, 0 errored, 0 timeout' "$work/load" && grep -q '2000 2xx' "$work/load" || { cat "$work/load"; return 1; }
}
if command -v h2load >/dev/null; then
    printf '\0\0\0\0\0' >"$work/empty"
    ok "h2load: 50 connections of 20 streams" load "$work/empty" "$grpc/inference.GRPCInferenceService/ServerReady" -c 50 -m 20 \
        -H 'content-type: application/grpc' -H 'te: trailers'
    side=$(curl -s "http://$http/v2/models/m" | sed -n 's/.*"shape":\[-1,\([0-9]*\),.*/\1/p')
    head -c $((4 * side * side)) /dev/zero >"$work/row"
    ok "h2load: raw rows by HTTP/1.1" load "$work/row" "$http/v2/models/m/infer" --h1 -c 8 -H 'inference-header-content-length: 0'
else
    skip "no h2load (make deps-gateway)"
fi

# A client that connects again by itself, beneath which the gateway ends, is killed and is there again.
ports="${grpc#*:} ${http#*:}"
timeout 600 "$venv/bin/python" tests/e2e/triton.py again "$grpc" "$http" >"$work/again" 2>&1 &
client=$!
until_true 60 grep -q begun "$work/again"
ok "SIGTERM ends it with a client in the midst of its work" ended
restart () { start "$ports" --model-repository "$work/models" && until_true 120 is_ready models/m; }
ok "it is there again" restart
kill -9 $gateway
wait $gateway 2>/dev/null
ok "... and after kill -9" restart
done_again () { kill -TERM $client && wait $client || { cat "$work/again"; return 1; }; }
ok "its client had answers, or was told that nobody is there" done_again
ok "it ends" ended

start "0 0" --model "m=$made/model-${small}1.wmm" --memory 33554432 || bail "no gateway"
until_true 120 is_ready
ok "hundreds of large requests on one connection, more than the memory holds" run "" large
ok "it ends, too" ended

start "0 0" --model "m=$made/model-${small}1.wmm" --shared-memory || bail "no gateway"
until_true 120 is_ready
for version in "" -2.48 -2.25; do
    [ -x "$venv$version/bin/python" ] || continue
    ok "tritonclient ${version:--2.73}: system shared memory" run "$version" shared
done
if [ $has_perf ]; then
    ok "perf_analyzer: system shared memory, gRPC" analyze 16 -i grpc -u "$grpc" --concurrency-range 4 --shared-memory system --output-shared-memory-size 4096
    ok "perf_analyzer: system shared memory, HTTP" analyze 16 -i http -u "$http" --concurrency-range 4 --shared-memory system --output-shared-memory-size 4096
else
    skip "perf_analyzer does not start: no shared memory by it"
fi
ok "... and it ends" ended

pem () { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" -addext "subjectAltName=IP:127.0.0.1" \
    -keyout "$work/$1.key" -out "$work/$1.pem" 2>/dev/null; }
pem server && pem client || bail "no openssl"
secret () # options...: TLS, gRPC only
{
    start "0 0" --model "m=$made/model-${small}1.wmm" --http none --tls-certificate "$work/server.pem" --tls-key "$work/server.key" "$@"
    http=$work/server.pem
}
secret || bail "no gateway"
for version in "" -2.48 -2.25; do
    [ -x "$venv$version/bin/python" ] || continue
    ok "tritonclient ${version:--2.73}: TLS" until_true 60 run "$version" tls
done
ended
secret --tls-clients "$work/client.pem" || bail "no gateway"
for version in "" -2.48 -2.25; do
    [ -x "$venv$version/bin/python" ] || continue
    ok "tritonclient ${version:--2.73}: TLS both ways" until_true 60 run "$version" tls "$work/client.pem" "$work/client.key"
done
ok "it ends" ended
done_testing
