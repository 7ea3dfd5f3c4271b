#!/bin/bash
# gatewire.t - the gateway's gRPC and HTTP: calls, what is refused, hostile peers, memory, TLS, and how it ends.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
curl -V 2>/dev/null | grep -q HTTP2 || { echo "1..0 # SKIP no curl with HTTP/2 (make deps installs one)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
start () # options...
{
    rm -f "$work/log"
    "$bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$model" "$@" 2>"$work/log" &
    gateway=$!
    until_true 30 grep -q 'gRPC on' "$work/log" || return 1
    grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log") http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log")
}
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
run () { timeout 120 build/venv/bin/python tests/e2e/gatewire.py "$1" "$work" "$grpc" "$http" "${@:2}"; } # part, arguments...
memory () { awk '/^VmHWM/ { print $2 }' "/proc/$gateway/status"; } # kB

start --memory 33554432 --max-message 8388608 --access-log "$work/access" || bail "no gateway"
until_true 60 is_ready || bail "no model is ready"
worker=$(pgrep -f "^wiremill-worker.*$work/wiremill-gateway-" | head -n 1)
ok "gRPC: inference, plain and compressed, streams, what is asked about models" run calls
ok "gRPC: what is refused, deadlines" run refused "$worker"
ok "HTTP: inference, pages, what is refused" run pages
before=$(memory)
ok "hostile peers" run hostile
ok "more at once than fits: all wait, and are answered" run many
small_enough () { [ -n "$SAN" ] || [ "$(memory)" -lt $((before + 60000)) ] || { echo "$before kB, then $(memory) kB"; return 1; }; }
ok "its memory is bounded" small_enough
ok "a request that has begun is answered before it ends" run drain "$gateway"
ends () { wait $gateway; }
ok "... and it ends with 0" ends
logged () { grep -Eq '^[0-9TZ:.-]+ 127.0.0.1:[0-9]+ grpc ModelInfer m ok [0-9]+ [0-9]+ [0-9.]+$' "$work/access" &&
    grep -Eq 'http POST\?/v2/models/m/infer m invalid ' "$work/access" && grep -q 'grpc ModelInfer none not-found' "$work/access" &&
    grep -q 'grpc ModelInfer m deadline' "$work/access" && ! LC_ALL=C grep -q '[^ -~]' "$work/access"; }
ok "the access log has a line for each request" logged

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
ok "a certificate that is none" no 'no certificate can be read' --tls-certificate "$work/log" --tls-key "$work/log"
ok "an address that is none" no 'is no address: give ADDRESS:PORT' --grpc nonsense
ok "a name that is none" no 'is no address' --grpc no.such.host.invalid:1
ok "messages larger than memory" no 'raise --memory' --max-message 1000000000 --memory 1048576
ok "an access log that cannot be" no 'access-log .*cannot be opened' --access-log /nothing/there
taken () # a port that is taken
{
    start && exits 1 keep timeout 60 "$bin/wiremill-gateway" gateway --model "m=$model" --grpc "$grpc" && says 'cannot listen on .*give another port'
    local code=$?
    kill -TERM $gateway && wait $gateway
    return $code
}
ok "a port that is taken" taken
done_testing
