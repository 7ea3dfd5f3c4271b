#!/bin/bash
# alerts.t - alerts of ops/serve/alerts.yml have real faults here, and fire by them in a real Prometheus, whose rules have seconds
# for minutes; beside them a campaign that ended well fires none. `make test` looks only whether each alert has its fault (promtool's
# cases of each rule are in metrics.t); ALERTS="NAME..." tries some.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
alerts_all=$(sed -n 's/^ *- alert: Wiremill//p' ops/serve/alerts.yml)
export WM_TIME_SCALE=10
unset WM_JOIN_FILE WM_BROKER

# ---- what a campaign is made of, in $at; all that is started ends with it ----------------------------
small_disk () { mkdir -p "$1" && mount -t tmpfs -o size=160m none "$1"; } # folder
fill () { dd if=/dev/zero of="$1/ballast" bs=64k 2>/dev/null; true; } # folder
broker () # options...
{
    "$bin/wiremill" broker --model "${model:-$made/model-small-1.wmm}" --output "$at/out" --campaign "$campaign" --batch-hits 16 \
        --listen "ipc://$at/b" "$@" >>"$at/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$campaign/endpoint.json"
}
producer () # file
{
    "$bin/wiremill" produce --broker "ipc://$at/b" --input "$1" >>"$at/producer" 2>&1 &
    producer=$!
}
worker () # arguments of env...
{
    env "$@" "$bin/wiremill" work --broker "ipc://$at/b" --engine openvino --threads 1 --cache "$at/cache" --idle-timeout 1000 >>"$at/worker" 2>&1 &
    worker=$!
}
serve ()
{
    "$bin/wiremill" serve "$campaign" --interval 0.2 --listen 127.0.0.1:0 >"$at/serve" 2>&1 &
    serve=$!
    until_true 60 grep -q ' is the page' "$at/serve"
    http=$(sed -n 's|.*http://\([0-9.:]*\)/ is the page.*|\1|p' "$at/serve")
    echo "[{\"targets\": [\"$http\"], \"labels\": {\"at\": \"$name\"}}]" >"$at/target" && mv "$at/target" "$work/targets/$name.json"
    until_true 60 query "wiremill_up{at=\"$name\"} == 1"
}
query () { [[ $(promtool query instant "$prometheus" "$1") == *"=>"* ]]; } # expression: true if it has a value
state () { "$bin/wiremill" status --broker "ipc://$at/b" --json | tr -d ' \n' | grep -q "$1"; }
well () { broker && worker WM_KILLER_SLOW_MS="${1:-300}" && until_true 60 state '"state":"idle"' && producer "$events" && serve; } # pace, ms
scores () { until_true 60 query "wiremill_hits_scored{at=\"$name\"} > 0"; }

# ---- a real fault for each alert ---------------------------------------------------------------------
fault_BrokerAway () { broker && serve && kill -9 $broker; }
fault_ServeAway () { broker && serve && kill -9 $serve; }
fault_NothingScored () { well && scores && kill -STOP $worker; }
fault_NoWorkers () { broker && serve && producer "$events"; }
fault_NoProducers () { well && scores && kill -9 $producer; }
fault_ProducerLate ()
{
    export WM_TIME_SCALE=1 && broker && worker A=1 && until_true 60 state '"state":"idle"' && "$bin/wiremill" pause --broker "ipc://$at/b" &&
        echo "$events" >"$at/list" && { "$bin/wiremill-producer" produce --broker "ipc://$at/b" --input-list "$at/list" >"$at/producer" 2>&1 & } &&
        producer=$! && until_true 60 state '"queued":[1-9]' && serve && kill -STOP $producer && "$bin/wiremill" resume --broker "ipc://$at/b"
}
fault_DiskFull () { small_disk "$at/out" && well && fill "$at/out"; } # of outputs; below: of the campaign
fault_DiskFull_campaign () # which has the ledger, too
{
    small_disk "$at/disk" && campaign=$at/disk/c && broker && worker A=1 && until_true 60 state '"state":"idle"' &&
        "$bin/wiremill" pause --broker "ipc://$at/b" && producer "$events" && until_true 60 state '"queued":[1-9]' && serve &&
        fill "$at/disk" && "$bin/wiremill" resume --broker "ipc://$at/b"
}
fault_Waits () { export WM_TIME_SCALE=2 && well && scores && kill -STOP $worker; } # for a worker that is silent
fault_DiskFills ()
{
    small_disk "$at/disk" && campaign=$at/disk/c && broker && serve &&
        { while dd if=/dev/zero bs=64k count=16 2>/dev/null; do sleep 1; done >>"$at/disk/ballast" & }
}
# The journal takes space in steps of 256 KiB: enough hits for some of them, for longer than the rule looks back.
fault_JournalGrows () { small_disk "$at/disk" && campaign=$at/disk/c && events=$made/alerts-many.h5 && well 40; }
fault_Paused () { broker && serve && "$bin/wiremill" pause --broker "ipc://$at/b" --why lunch; }
truncated () { well && scores && head -c 20000 "$events" >"$at/short.h5" && producer "$at/short.h5"; }
fault_HeldGrows () { truncated; }
fault_HeldShare () { truncated; }
fault_ScoresDrift () # of a network that has learned something, on hits whose amplifiers have lost their gain
{
    model=synthetic && well 1 && until_true 100 query "wiremill_score_count{at=\"$name\"} offset 30s > 1000" && producer "$work/gain.h5"
}
refuses () { broker && serve && worker WM_KILLER_REFUSES=9 && worker WM_KILLER_REFUSES=9 && producer "$events"; }
fault_WorkersFail () { refuses; }
fault_WorkerDismissed () # serve counts from its first look at the broker on
{
    broker && serve && until_true 60 query "wiremill_workers_dismissed_total{at=\"$name\"} == 0" && worker WM_KILLER_REFUSES=9 &&
        worker WM_KILLER_SLOW_MS=300 && producer "$events"
}
fault_ScoresDiffer () # a worker lies, another machine finds out
{
    broker --check-share 100% && serve && producer "$events" || return 1
    for lies in 5 0; do
        env WM_KILLER_LIES=$lies unshare --uts sh -c 'hostname "$0" && exec "$@"' "machine-$lies" "$bin/wiremill" work --broker "ipc://$at/b" \
            --engine openvino --threads 1 --cache "$at/cache" --idle-timeout 1000 >>"$at/worker" 2>&1 &
    done
}
fault_Later ()
{
    well 500 && until_true 100 query "wiremill_remaining_seconds{at=\"$name\"} offset 60s" && kill $worker && worker WM_KILLER_SLOW_MS=10000
}
fault_BrokerRestarts ()
{
    broker && serve && until_true 60 query "wiremill_broker_starts{at=\"$name\"} == 1" || return 1
    for i in 2 3 4; do
        kill -9 $broker && broker && until_true 60 query "wiremill_broker_starts{at=\"$name\"} == $i" || return 1
    done
}
gpu_worker () { worker WM_NVML_SO="$work/nvml.so" WM_FAKE_NVML_HEAT="$at/heat" WM_FAKE_NVML_ECC="$at/ecc" WM_KILLER_SLOW_MS=300; }
gpu () { # a driver's library of which temperature, clocks and memory are in files
    echo "61 1" >"$at/heat" && echo 0 >"$at/ecc" && broker && serve && producer "$events" &&
        gpu_worker &&
        until_true 60 query "wiremill_gpu_throttled{at=\"$name\"} == 0"
}
fault_GpuHot () { gpu && echo "91 1" >"$at/heat"; }
fault_GpuThrottled () { gpu && echo "84 20" >"$at/heat"; } # its clocks are lower for heat
fault_GpuMemoryErrors () # the worker leaves before a scrape sees them; the next one on this GPU has them
{
    gpu && echo 1 >"$at/ecc" && { wait $worker; gpu_worker; }
}

has_fault () { local a; for a in $alerts_all; do declare -F "fault_$a" >/dev/null || { echo "no real fault for Wiremill$a"; return 1; }; done; }
ok "each alert has a real fault in this test" has_fault
if [ "${WM_SIZE:-test}" = test ]; then done_testing; exit; fi
has prometheus promtool || { skip "prometheus is not there (make deps-farm)"; done_testing; exit; }
slow_engine
make_model small-1 && make_events alerts --events 1 --seed 3 --hits 5000 --tpcs 1 &&
    make_events alerts-many --events 1 --seed 3 --hits 24000 --tpcs 1 || bail "no model or events"
events=$made/alerts.h5
${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o "$work/nvml.so" || bail "no NVML"
build/venv/bin/python - "$events" "$work/gain.h5" <<'PYTHON' || bail "no events of another gain"
import shutil, sys, h5py
shutil.copy (sys.argv[1], sys.argv[2])
with h5py.File (sys.argv[2], "r+") as file:
    file.visititems (lambda name, one: one.__setitem__ (..., one[...] / 20) if name.rsplit ("/")[-1] == "adc" else None)
PYTHON

# ---- Prometheus, whose minutes are seconds, and which waits a tenth of that before an alert fires ----
prometheus=http://127.0.0.1:$((port + 6))
mkdir "$work/targets"
perl -pe 's/^( *for:) (\d+)m/"$1 " . 100 * $2 . "ms"/e; s/^( *for:) (\d+)h/"$1 " . 6 * $2 . "s"/e; s/\b(offset |\[)(\d+)m/$1$2s/g;
    s/\b(offset |\[)(\d+)h/$1 . 60 * $2 . "s"/ge; s/\[(\d+)m\]/[$1s]/g; s/\[(\d+)h\]/"[" . 60 * $1 . "s]"/ge; s/> 100000/> 500/; s/> 600 \+/> 6 +/' \
    ops/serve/alerts.yml >"$work/alerts.yml"
cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [$work/alerts.yml]
scrape_configs: [{job_name: wiremill, file_sd_configs: [{files: ["$work/targets/*.json"], refresh_interval: 1s}]}]
YML
ok "the rules with seconds for minutes" promtool check config "$work/prometheus.yml"
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="${prometheus#http://}" >"$work/prometheus" 2>&1 &
ok "Prometheus" until_true 60 query "vector(1)"

fired () { query "max_over_time(ALERTS{alertname=\"Wiremill$alert\",alertstate=\"firing\",$1}[1h])"; } # labels
one () # name of a fault: ALERT, or ALERT_variant
{
    local name=$1 alert=${1%%_*} at=$work/$1 campaign=$work/$1/c labels
    local broker producer worker serve http
    trap 'for p in $(jobs -p); do kill -CONT $p 2>/dev/null; kill -9 $p 2>/dev/null; done' EXIT
    mkdir "$at" && "fault_$name" >"$at/begun" 2>&1 || { echo "cannot begin:"; tail -n 5 "$at"/{begun,broker,worker}; exit 1; }
    labels="at=\"$name\""
    case $name in
        DiskFull) labels+=',reason="disk full (output)"' ;;
        DiskFull_campaign) labels+=',reason=~"disk full( .ledger.)?"' ;;
        HeldShare) # of its inputs: a sum, which has no other label
            labels="campaign=\"$("$bin/wiremill" status "$campaign" --json | sed -n 's/.*"id": *"\([0-9a-f]\{32\}\).*/\1/p')\"" ;;
    esac
    until_true "${PATIENCE:-120}" fired "$labels" || { tail -n 3 "$at"/{begun,broker,producer,worker,serve}; exit 1; }
}
[ -n "$WM_KEEP" ] || at_exit 'while read -r m; do umount -l "$m"; done < <(grep -o "$work/[^ ]*" /proc/mounts); finish'
alerts=${ALERTS:-$(tr ' ' '\n' <<<"$alerts_all DiskFull_campaign")}
{ mkdir "$work/try" && mount -t tmpfs -o size=1m none "$work/try" 2>/dev/null && umount "$work/try"; } ||
    { alerts=$(tr ' ' '\n' <<<"$alerts" | grep -Ev 'Disk|Journal') && skip "a tmpfs can be mounted by root only"; }
name=well at=$work/well campaign=$at/c
mkdir "$at"
finished () { broker && worker A=1 && producer "$events" && wait $producer && serve; }
ok "a campaign that ends well" finished
n=0 running=()
for alert in $alerts; do
    { (one "$alert") >"$work/$alert.said" 2>&1; echo $? >"$work/$alert.code"; } &
    running+=($!)
    n=$((n + 1))
    [ $((n % ${AT_ONCE:-4})) != 0 ] || { wait "${running[@]}"; running=(); }
done
[ ${#running[@]} = 0 ] || wait "${running[@]}" # without one it would wait for Prometheus
passed () { cat "$work/$1.said"; [ "$(cat "$work/$1.code")" = 0 ]; } # name
for alert in $alerts; do ok "Wiremill$alert fires" passed "$alert"; done
unfired () { query "wiremill_up{at=\"well\"} == 1" && ! query "max_over_time(ALERTS{at=\"well\",alertstate=\"firing\"}[1h])"; }
ok "of the campaign that ended well none fired" unfired
done_testing
