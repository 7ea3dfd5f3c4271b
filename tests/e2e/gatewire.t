#!/bin/bash
# gatewire.t - the gateway's gRPC and HTTP: calls, what is refused, hostile peers, memory, TLS, and how it ends.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
curl -V 2>/dev/null | grep -q HTTP2 || { echo "1..0 # SKIP no curl with HTTP/2 (make deps installs one)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" && make_model small-1 || bail "no model"
model=$made/model-${small}1.wmm
start () # options...
{
    rm -f "$work/log" # of the last one
    "$bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$model" "$@" 2>"$work/log" &
    gateway=$!
    until_true 60 grep -q 'gRPC on' "$work/log" || return 1
    grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log") http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")
}
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
run () { timeout 600 build/venv/bin/python tests/e2e/gatewire.py "$1" "$work" "$grpc" "$http" "${@:2}"; } # part, arguments...
memory () { awk '/^VmHWM/ { print $2 }' "/proc/$gateway/status"; } # kB

start --memory 33554432 --max-message 8388608 --access-log "$work/access" || bail "no gateway"
until_true 60 is_ready || bail "no model is ready"
worker=$(pgrep -f "^wiremill-worker.*$work/wiremill-gateway-" | head -n 1)
ok "gRPC: inference, plain and compressed, streams, what is asked about models" run calls
ok "what two requests add to metrics, statistics and the access log" run counted "$work/access"
ok "gRPC: what is refused, deadlines" run refused "$worker"
ok "HTTP: inference, pages, what is refused" run pages
ok "gRPC: a model that comes with its load" run loads "$made/model-small-1.wmm" # one that fits in --max-message
before=$(memory)
if command -v promtool >/dev/null; then
    lint () { curl -s "http://$http/metrics" | promtool check metrics 2>&1 | grep -v '^nv_.* should' | tee "$work/said"; [ ! -s "$work/said" ]; }
    ok "promtool finds nothing wrong with the metrics" lint
else
    skip "promtool is not there (make deps-farm)"
fi
ok "hostile peers" run hostile
ok "a stream with more at once than fits, too" run queued "$worker"
ok "more at once than fits: all wait, and are answered" run many
ok "a flood of JSON: all of it is read or refused" run flood 24 7000000
small_enough () { [ -n "$SAN" ] || [ "$(memory)" -lt $((before + 33000 + 48000)) ] || { echo "$before kB, then $(memory) kB"; return 1; }; }
ok "its memory is bounded" small_enough
rotated () # SIGUSR1 begins a new access log where the old one was renamed; where it cannot, the old one goes on
{
    mv "$work/access" "$work/access.1" && kill -USR1 $gateway && until_true 60 test -e "$work/access" && is_ready &&
        until_true 60 grep -q health/ready "$work/access" && mkdir "$work/kept" && mv "$work/access" "$work/kept/" && mkdir "$work/access" &&
        kill -USR1 $gateway && until_true 60 grep -q 'access cannot be opened: Is a directory; it goes on in the old file' "$work/log" &&
        ask_more && until_true 60 grep -q health/live "$work/kept/access" && cat "$work/kept/access" >>"$work/access.1"
}
ask_more () { curl -s "http://$http/v2/health/live"; }
ok "the access log is rotated" rotated
run drain "$gateway" >"$work/drained" 2>&1 & # beside the next gateway: a peer's half headers have their 10 s
drain=$! first=$gateway

# Where the machine has no memory for a request that --memory allows, that request is answered, and the next one too.
start --max-message 268435456 --memory 536870912 || bail "no gateway"
until_true 60 is_ready || bail "no model is ready"
head -c 200000000 /dev/zero >"$work/zeros"
if command -v prlimit >/dev/null && [ -z "$SAN" ]; then
    prlimit --pid $gateway --as=$((1024 * ($(awk '/^VmSize/ { print $2 }' "/proc/$gateway/status") + 65536)))
    lacks () { keep curl -s -m 120 -w ' %{http_code}' --data-binary "@$work/zeros" "http://$http/v2/models/m/infer"; says 'no memory for the request: try again later.* 503$'; }
    ok "HTTP: a request that the machine has no memory for" lacks
    lacks_too ()
    {
        printf '\0\13\353\302\0its beginning' | keep curl -s -m 120 --http2-prior-knowledge -D - -H 'content-type: application/grpc' \
            -H 'te: trailers' --data-binary @- "http://$grpc/inference.GRPCInferenceService/ModelInfer"
        says 'grpc-status: 14' && says 'grpc-message: this machine has no memory for the request'
    }
    ok "gRPC: likewise, once its size is known" lacks_too
    ok "... and others are answered" is_ready
else
    skip "needs prlimit, and no sanitizer"
fi
kill $gateway && wait $gateway

mkdir "$work/2" # where its worker is known from that of the first gateway
XDG_RUNTIME_DIR=$work/2 start --memory 33554432 --address-connections 40 --in-flight 65536 --access-log "$work/fair" || bail "no gateway"
until_true 60 is_ready || bail "no model is ready"
worker=$(pgrep -f "^wiremill-worker.*$work/2/wiremill-gateway-" | head -n 1)
ok "a client beside a flood is answered before most of it" run fair "$worker" "$work/fair"
ok "clients that take no answer hold up nobody at another address" run slow
ok "... nor do those fill its memory whose requests wait" run windows "$gateway"
ok "one connection with hundreds of large requests that wait for memory is answered all" run large
ok "streams without a message are bounded over all connections" run idle
ok "an address has only so many connections" run crowd 40
ok "... and one line of the log" grep -c '127.0.0.4:[0-9]*: its address has 40 connections' "$work/log"
once () { [ "$(grep -c 'its address has' "$work/log")" = 1 ]; }
ok "... once" once
kill -TERM $gateway && kill -TERM $gateway && wait $gateway

answered () { wait $drain || { cat "$work/drained"; return 1; }; }
ok "a request that has begun is answered before the first gateway ends" answered
ends () { wait $first; }
ok "... and it ends with 0" ends
logged () { grep -Eq '^[0-9TZ:.-]+ 127.0.0.1:[0-9]+ grpc ModelInfer m ok [0-9]+ [0-9]+ [0-9.]+$' "$work/access.1" &&
    grep -Eq 'http POST:/v2/models/m/infer m invalid ' "$work/access.1" && grep -q 'grpc ModelInfer none not-found' "$work/access.1" &&
    grep -q 'grpc ModelInfer m deadline' "$work/access.1" && ! LC_ALL=C grep -q '[^ -~]' "$work/access.1"; }
ok "the access log has a line for each request" logged

start --strict
until_true 60 is_ready
ok "--strict refuses rows without scores" run strict
ok "gRPC's own service of health: Check, List, Watch" run health
hung_up () { kill -HUP $gateway && wait $gateway; }
ok "a closed terminal ends it" hung_up

pem () { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" \
    -keyout "$work/$1.key" -out "$work/$1.pem" 2>/dev/null; }
if command -v openssl >/dev/null && pem server && pem client; then
    tls=(--tls-certificate "$work/server.pem" --tls-key "$work/server.key")
    start "${tls[@]}"
    live () { [ "$(curl -s --cacert "$work/server.pem" -o /dev/null -w '%{http_code}' "https://$http/v2/health/live")" = 200 ]; }
    ok "HTTP by TLS" live
    http=$work/server.pem
    ok "gRPC by TLS" run tls
    second () { kill -TERM $gateway && kill -INT $gateway && wait $gateway; }
    ok "two signals end it" second
    start "${tls[@]}" --tls-clients "$work/client.pem" --http none
    http=$work/server.pem
    ok "gRPC by TLS, clients have certificates" run tls "$work/client.pem" "$work/client.key"
    kill -TERM $gateway && wait $gateway
    ok "a key that is none" refused 2 'no key of this certificate' "$bin/wiremill-gateway" gateway -m "m=$model" "${tls[@]::3}" "$work/server.pem"
    ok "HTTP cannot check clients" refused 2 'give --http none too' "$bin/wiremill-gateway" gateway -m "m=$model" "${tls[@]}" --tls-clients "$work/client.pem" \
        --grpc 127.0.0.1:0
    ok "clients' certificates that are none" refused 2 'no certificates can be read' "$bin/wiremill-gateway" gateway -m "m=$model" "${tls[@]}" --tls-clients "$work/server.key"
else
    skip "no openssl: TLS"
fi
no () { local pattern=$1; shift; refused 2 "$pattern" "$bin/wiremill-gateway" gateway --model "m=$model" "$@"; } # pattern, options...
ok "a certificate alone" no 'together' --tls-certificate "$work/log"
ok "a certificate that is not there" no 'nix.pem does not exist' --tls-certificate "$work/nix.pem" --tls-key "$work/log"
ok "a certificate that is none" no 'no certificate can be read' --tls-certificate "$work/log" --tls-key "$work/log"
ok "an address that is none" no 'is no address: give ADDRESS:PORT' --grpc nonsense
for port in 65536 99999 -1 +80 ' 80' 80x ''; do
    for of in "gateway --model m=$model --grpc" "gateway --model m=$model --http" "serve --broker ipc://$work/none --listen"; do
        # shellcheck disable=SC2086 # words
        ok "$of 127.0.0.1:$port" refused 2 'a port is a number from 0 \(any that is free\) to 65535' "$bin/wiremill" $of "127.0.0.1:$port"
    done
done
ok "a name that is none" no 'is no address' --grpc no.such.host.invalid:1
ok "messages larger than memory" no 'raise --memory' --max-message 1000000000 --memory 1048576
ok "an access log that cannot be" no 'access-log /nothing/there: cannot be written in /nothing: .*make that folder' --access-log /nothing/there
taken () # a port that is taken
{
    start && exits 1 keep timeout 60 "$bin/wiremill-gateway" gateway --model "m=$model" --grpc "$grpc" && says 'cannot listen on .*give another port'
    local code=$?
    kill -TERM $gateway && wait $gateway
    return $code
}
ok "a port that is taken" taken
done_testing
