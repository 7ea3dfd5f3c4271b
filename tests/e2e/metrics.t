#!/bin/bash
# metrics.t - /metrics of a campaign as Prometheus reads it; the board and the alerts beside it; a broker that is killed.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model ${small}1 && make_events serve --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o "$work/nvml.so" || bail "no NVML" # a GPU's numbers
out=$work/out http=$((port + 5)) prometheus=http://127.0.0.1:$((port + 6))
unset WM_JOIN_FILE WM_BROKER

broker ()
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --batch-hits 8 --listen "ipc://$work/b" >>"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
get () { printf 'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' | timeout 20 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && cat >&3 && cat <&3' \
    "$http" 2>"$work/asked" | sed '1,/^\r$/d'; }
metric () { get | awk -v name="$1" 'substr ($0, 1, length (name) + 1) == name " " { print $NF }'; } # name{labels}: its value
is () { [ "$(metric "$1")" = "$2" ] || { echo "$1 is $(metric "$1"), wanted $2"; return 1; }; } # name{labels}, value

ok "a broker" broker
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{32\}\).*/\1/p')
c="campaign=\"$id\""
"$bin/wiremill" serve "$out" --listen "127.0.0.1:$http" --interval 0.2 >"$work/serve" 2>&1 &
ok "wiremill serve" until_true 60 is "wiremill_up{$c}" 1

# Prometheus itself, from before the work: what it scrapes is evaluated at the end.
has_prometheus=
if [ "$(size '' 1 1)" ] && command -v prometheus >/dev/null; then
    has_prometheus=1
    cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 200ms, evaluation_interval: 1s}
rule_files: [$PWD/ops/serve/alerts.yml]
scrape_configs: [{job_name: wiremill, static_configs: [{targets: ["127.0.0.1:$http"]}]}]
YML
    prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="${prometheus#http://}" \
        >"$work/prometheus" 2>&1 &
    query () { keep promtool query instant "$prometheus" "$1" && says " => $2 @"; } # expression, value
    ok "Prometheus scrapes it" until_true 60 query "wiremill_up{$c}" 1
elif [ "$(size '' 1 1)" ]; then
    skip "prometheus is not there (make deps-farm)"
fi

"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/serve.h5" >"$work/produce" 2>&1 &
producer=$!
WM_NVML_SO=$work/nvml.so "$bin/wiremill" work "$out" --idle-timeout 600 >"$work/work" 2>&1 &
wait $producer
ok "a campaign" test $? = 0
ok "files that are written" until_true 60 is "wiremill_inputs{$c,state=\"written\"}" 1
ok "a GPU" until_true 60 is "nv_gpu_utilization{$c,gpu_uuid=\"GPU-0\"}" 0.98
get >"$work/metrics"
cp "$work/metrics" "$work/said"

# The format.
format ()
{
    awk '/^# HELP / { help[$3]++; next } /^# TYPE / { type[$3] = $4; next }
        /^(wiremill|nv)_[a-z_]+\{campaign="[0-9a-f]*"(,[a-z_]+="([^"\\]|\\.)*")*\} [-0-9.e+]+$/ { name = $0; sub (/\{.*/, "", name); n++
            base = name; sub (/_(bucket|sum|count)$/, "", base); if (type[base] ~ /^(histogram|summary)$/) name = base
            if (seen[$0]++ || help[name] != 1 || type[name] !~ /^(gauge|counter|histogram|summary)$/) bad = 1
            if (name ~ /^wiremill/ && (name ~ /_total$/) != (type[name] == "counter")) bad = 1
            if (bad) { print "line " NR ": " $0; exit 1 }; next }
        { print "line " NR ": " $0; bad = 1; exit 1 } END { exit bad || n < 100 }' "$work/metrics" && ! grep -F "$work" "$work/metrics" &&
        ! grep -F serve.h5 "$work/metrics"
}
ok "each metric has its HELP and TYPE once, counters end in _total, and no file is named" format
durations ()
{
    for stage in stage queue compute commit; do
        n=$(metric "wiremill_batch_duration_seconds_count{$c,stage=\"$stage\"}")
        [ "${n:-0}" -gt 100 ] && is "wiremill_batch_duration_seconds_bucket{$c,stage=\"$stage\",le=\"+Inf\"}" "$n" || { echo "$stage: $n"; return 1; }
    done
}
ok "how long batches took, in each stage" durations
if command -v promtool >/dev/null; then
    # Triton chose its names before these rules; of ours nothing is found.
    lint () { promtool check metrics <"$work/metrics" 2>&1 | grep -v '^nv_.* should' | tee "$work/said"; [ ! -s "$work/said" ]; }
    ok "promtool finds nothing wrong with the metrics" lint
    ok "... nor with the alerts" promtool check rules ops/serve/alerts.yml
    ok "each alert fires in its case, and not before" promtool test rules tests/e2e/alerts.yml
else
    skip "promtool is not there (make deps-farm)"
fi
cases () { for a in $(sed -n 's/^ *- alert: //p' ops/serve/alerts.yml); do grep -q "\"$a\"" tests/e2e/alerts.yml || { echo "$a has no case"; return 1; }; done; }
ok "each alert has a case" cases
ok "each metric of the board and of the alerts is there" python3 tests/e2e/metrics.py names "$work/metrics"
tabled () # each nv_ name is in the page's table, and none is there that is not served
{
    diff <(sed -n 's/^# TYPE \(nv_[a-z_]*\) .*/\1/p' "$work/metrics" | sort) <(sed "/^## The gateway/,\$d" ops/manual/reference/metrics.md | grep '^| `nv_' | cut -d'|' -f2 | grep -o 'nv_[a-z_]*' | sort)
}
ok "the page has each of Triton's names that is served" tabled

# A broker that is killed: what its ledger keeps does not fall, the rest begins at 0.
before=$(metric "wiremill_rows_scored_total{$c,signature=\"$(sed -n 's/^wiremill_rows_scored_total.*signature="\([^"]*\)".*/\1/p' "$work/metrics")\"}")
kill -9 $broker
wait $broker
ok "no broker: wiremill_up is 0" until_true 60 is "wiremill_up{$c}" 0
ok "a broker again" broker
ok "... that answers" until_true 60 is "wiremill_broker_starts{$c}" 2
rows () { sed -n 's/^wiremill_rows_scored_total.* \([0-9]*\)$/\1/p' "$work/metrics"; }
kept () { get >"$work/metrics"; echo "$before, then $(rows)"; [ "$before" -gt 1000 ] && [ "$(rows)" -ge "$before" ] && is "wiremill_payload_received_bytes_total{$c}" 0; }
ok "hits that were scored stay counted; bytes, which no ledger keeps, begin at 0" until_true 60 kept

if [ "$has_prometheus" ]; then
    resets () { query "sum(resets(wiremill_rows_scored_total[5m]))" 0 && query "sum(resets(wiremill_payload_received_bytes_total[5m]))" 1; }
    ok "as Prometheus sees it" until_true 60 resets
    ok "each expression of the board and of the alerts has data" python3 tests/e2e/metrics.py evaluate "$prometheus"
fi
done_testing
