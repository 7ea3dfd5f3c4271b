#!/bin/bash
# waits.t - the table of waits, schema/wm_wait.h: each row has a real wait here, and every place where people or
# programs look reports it: status, its JSON, why, top, the page of serve, its readiness, its metrics and the alerts, and
# --on-pause. A row without a wait here fails. `make test` tries those that begin at once; ROWS="NAME..." tries some.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
# shellcheck disable=SC2034
rows_all=$(sed -n 's/^ *ROW (\([A-Z_]*\), .*/\1/p' schema/wm_wait.h)
some="DISK OUTPUT_DISK PAUSED NO_WORKER PRODUCER_LATE WORKER_STARTS"
[ "${WM_SIZE:-test}" = test ] || some=$rows_all
rows=${ROWS:-$some}
echo "# ROWS=\"$(echo $rows)\""
export WM_TIME_SCALE=10
slow_engine
make_model small-1 && make_events waits --events 1 --seed 3 --hits 1200 --tpcs 1 || bail "no model or events"
model=$made/model-small-1.wmm events=$made/waits.h5

name_of () { sed -n "/^ *ROW ($1, /,/ROW ([^$1]/s/^ *ROW ($1, [0-9]*, \"\([^\"]*\)\".*/\1/p" schema/wm_wait.h; }
is_pause () { grep -q "ROW ($1, [0-9]*, \"[^\"]*\", [A-Z]*, true" schema/wm_wait.h; }
is_critical_pause () { grep -q "ROW ($1, [0-9]*, \"[^\"]*\", CRITICAL, true" schema/wm_wait.h; }
is_info () { grep -q "ROW ($1, [0-9]*, \"[^\"]*\", INFO" schema/wm_wait.h; }

# ---- a campaign of each row, in $at; all that it starts ends with the test ---------------------------
small_disk () # folder: a disk of its own
{
    mkdir -p "$1" && mount -t tmpfs -o size=160m none "$1"
}
fill () { dd if=/dev/zero of="$1/ballast" bs=64k 2>/dev/null; true; }
broker () # env arguments...
{
    env "$@" "$bin/wiremill" broker --model "$model" --output "$at/out" --campaign "${campaign:-$at/c}" --batch-hits 64 \
        --listen "${listen:-ipc://$at/b}" ${precision:+--precision $precision --max-error 0.01} \
        --on-pause "echo \"\$WIREMILL_REASON: \$WIREMILL_TEXT\" >>$at/told" >"$at/broker" 2>&1 &
    server=$!
    until_true 60 grep -q '"pid"' "${campaign:-$at/c}/endpoint.json"
}
producer () # options...; $input: a file or URL
{
    echo "${input:-$events}" >"$at/list"
    "$bin/wiremill-producer" produce --broker "${listen:-ipc://$at/b}" --input-list "$at/list" "$@" >"$at/producer" 2>&1 &
    producer=$!
}
worker () # env arguments...
{
    env "$@" "$bin/wiremill-worker" --broker "${connect:-${listen:-ipc://$at/b}}" --engine "${engine:-openvino}" --threads 1 \
        --cache "$at/cache" >"$at/worker" 2>&1 &
    worker=$!
}
status () { "$bin/wiremill" status --broker "${listen:-ipc://$at/b}" "$@"; }
state () { status --json | tr -d ' \n' >"$at/state" && grep -q "$1" "$at/state"; }
is_idle () { until_true 60 state '"state":"idle"'; }
engine_of () { tr ' ' '\n' <"/proc/$1/task/$1/children" | grep . | tail -n 1; } # of a worker
queued () { "$bin/wiremill" pause --broker "ipc://$at/b" && producer && until_true 60 state '"queued":[1-9]'; }
resume () { "$bin/wiremill" resume --broker "ipc://$at/b"; }

wait_PAUSED () { broker && producer && "$bin/wiremill" pause --broker "ipc://$at/b" --why lunch; }
wait_DRAINING () { broker && producer && "$bin/wiremill" drain --broker "ipc://$at/b"; }
wait_DISK ()
{
    small_disk "$at/disk" && campaign=$at/disk/c && broker && worker && is_idle && queued && fill "$at/disk" && resume
}
wait_LEDGER_DISK ()
{
    small_disk "$at/disk" && broker && kill $server && wait $server
    mv "$at"/c/ledger.db* "$at/disk/" && ln -s "$at/disk/ledger.db" "$at/c/ledger.db" && broker && fill "$at/disk" &&
        producer && worker
}
wait_OUTPUT_DISK () { small_disk "$at/out" && broker && fill "$at/out" && producer && worker; }
wait_SCRATCH_DISK ()
{
    small_disk "$at/disk" && serve_files fine && fill "$at/disk" && broker &&
        input=$web/waits.h5 && producer --scratch "$at/disk/s"
}
wait_DISK_SLOW ()
{
    broker LD_PRELOAD="$proof/slow_shim.so" WM_SLOW="$at/slow" WM_SLOW_MS=700 && worker && is_idle && touch "$at/slow" &&
        producer
}
wait_NO_BROKER () { broker && producer && until_true 60 state '"open":1' && kill $producer $server && wait $server; true; }
wait_NO_WORKER () { broker && producer; }
wait_NO_PRODUCER () { broker && producer && worker WM_KILLER_SLOW_MS=1000 && until_true 60 state '"open":1' && kill -9 $producer; }
wait_PRODUCER () { wait_PRODUCER_LATE; }
wait_PRODUCER_LATE () { export WM_TIME_SCALE=1 && broker && worker && is_idle && queued && kill -STOP $producer && resume; }
wait_PRODUCER_SILENT () { export WM_TIME_SCALE=2 && broker && queued && kill -STOP $producer; }
wait_PRODUCER_WAITS ()
{
    listen=tcp://127.0.0.1:$((port + 4)) && broker && worker && is_idle &&
        { python3 tests/fault/stranger.py waits x $((port + 4)) "a tape is mounted" & }
}
wait_COPIES () { serve_files fine 40000 && broker && input=$web/waits.h5 && producer --scratch "$at/s"; }
wait_AWAY () { web=http://127.0.0.1:$((port + 9)) && broker && input=$web/waits.h5 && producer --scratch "$at/s"; }
wait_WORKER_SILENT () { export WM_TIME_SCALE=2 && broker && worker && is_idle && kill -STOP $worker && producer; }
wait_WORKER_STARTS () { broker && producer && worker WM_KILLER_OPEN_MS=25000; }
wait_MODEL ()
{
    listen=tcp://127.0.0.1:$((port + 12)) && broker && producer && connect=tcp://127.0.0.1:$((port + 7)) &&
        { python3 tests/fault/elsewhere.py slow $((port + 7)) $((port + 12)) 20000 & } && worker
}
wait_SAMPLE () { precision=fast && engine=sparse && broker && worker; }
# Each engine that the worker starts is stopped when it computes, not before: until then it would be one that starts.
wait_ENGINE_HUNG ()
{
    broker && worker WM_KILLER_SLOW_MS=1000 && is_idle && producer && {
        while kill -0 $worker 2>/dev/null; do
            until_true 60 state '"state":"busy"' && kill -STOP "$(engine_of $worker)"
            sleep 0.2
        done 2>/dev/null &
    }
}
# Whatever engine the worker starts gets a limit that its first batch passes: the kernel kills it. Its next takes a while to
# start, so that a slow machine finds time to look before the worker gives up.
wait_NO_MEMORY ()
{
    local group=/sys/fs/cgroup/memory/wm-waits-$$ limit=memory.limit_in_bytes
    [ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/wm-waits-$$ limit=memory.max
    mkdir "$group" && echo "$group" >>"$work/groups" && echo 1M >"$group/$limit" && broker && worker WM_KILLER_SLOW_MS=500 WM_KILLER_OPEN_MS=4000 && is_idle && producer &&
        {
            while kill -0 $worker 2>/dev/null; do
                until_true 60 state '"state":"busy"'
                engine_of $worker >"$group/cgroup.procs"
                sleep 0.1
            done 2>/dev/null &
        }
}
serve_files () # mode, bytes per second
{
    mkdir -p "$at/data" && cp "$events" "$at/data/" && echo "$1" >"$at/data/mode" || return 1
    local behind=$((port + 2)) front=$((port + 2))
    [ -z "$2" ] || behind=$((port + 3)) front=$((port + 1))
    python3 tests/fault/elsewhere.py http $behind "$at/data" &
    [ -z "$2" ] || python3 tests/fault/elsewhere.py slow $front $behind "$2" &
    web=http://127.0.0.1:$front
    until_true 60 curl -sf -o "$at/x" "$web/mode"
}

# ---- where it is reported ----------------------------------------------------------------------------
look_status () { "$bin/wiremill" status "$campaign" | grep -E "^waiting for: $pattern\$|^stopped: $pattern|waits: .*\($pattern, for"; }
look_json () { "$bin/wiremill" status "$campaign" --json | grep -E "\"(reason|waiting_for)\": *\"$pattern\""; }
look_why () { "$bin/wiremill" why --campaign "$campaign" | grep -E "^waiting for: $pattern; |waits: .*\($pattern, for"; }
look_top () { "$bin/wiremill" top --once "$campaign" | grep -E "^(waiting for: )?$pattern|^$short|^ .*: $pattern"; }
look_served () { curl -sf "$http/status.json" | grep -E "\"(reason|waiting_for)\": ?\"$pattern\""; }
look_page () { curl -sf "$http/" | grep -E "<p[^>]*>$pattern: |<strong>$pattern</strong>"; }
look_ready () { curl -s "$http/health/ready" | grep -E "^waits: $pattern: "; }
look_named () { curl -s "$http/health/ready" | grep -E "^waits: $pattern: .*$at/.* needs up to [0-9.]+ MB"; }
look_code () { [ "$(curl -s -o /dev/null -w '%{http_code}' "$http/health/ready")" = "$wanted_code" ]; }
look_metric () { curl -sf "$http/metrics" | grep -E "^wiremill_waiting\{.*reason=\"$pattern\"\} 1"; }
look_told () { grep -E "^$pattern: campaign .*(hands out nothing|waits)" "$at/told"; }
look_no_eta () { "$bin/wiremill" status "$campaign" --json | grep -E '"eta_s": *(null|0)'; }
everywhere () # row: prints where it is not reported
{
    local at=$work/$1 campaign=$work/$1/c listen='' connect='' precision='' engine='' input='' pattern short wanted_code=200 look looks
    local name server producer worker http failed=0
    mkdir -p "$at"
    name=$(name_of "$1") && [ -n "$name" ] || { echo "no name"; return 1; }
    pattern=$(sed 's/[()]/\\&/g' <<<"$name") short=${pattern% \\(*}
    "wait_$1" >"$at/begun" 2>&1 || { echo "cannot begin:"; tail -n 5 "$at/begun" "$at/broker"; return 1; }
    looks="status json why"
    if [ "$1" != NO_BROKER ]; then
        [ "$1" != DISK ] || campaign=$at/disk/c
        "$bin/wiremill" serve "$campaign" --interval 1 --listen 127.0.0.1:0 >"$at/serve" 2>&1 &
        until_true 60 grep -q ' is the page' "$at/serve"
        http=$(sed -n 's|.*\(http://[0-9.:]*\)/ is the page.*|\1|p' "$at/serve")
        looks="status json why top served page ready code metric"
        ! is_critical_pause "$1" || wanted_code=503
        ! is_pause "$1" || looks+=" told no_eta"
        [ "$1" != OUTPUT_DISK ] || looks+=" named"
    fi
    for look in $looks; do
        until_true ${PATIENCE:-40} "look_$look" || { echo "$name is not in: $look"; failed=1; }
    done
    is_pause "$1" || [ ! -e "$at/told" ] || grep -qE "paused" "$at/told" || { echo "--on-pause ran for it"; failed=1; }
    [ $failed = 0 ] || tail -n 3 "$at"/{broker,producer,worker,serve,begun} 2>/dev/null
    return $failed
}
# Each alone in a subshell, all at once; their processes end with it.
one () # row
{
    trap 'for p in $(jobs -p); do kill -CONT $p 2>/dev/null; kill -9 $p 2>/dev/null; done' EXIT
    everywhere "$1" >"$work/$1.said" 2>&1
    echo $? >"$work/$1.code"
}
at_exit 'while read -r m; do umount -l "$m"; done < <(grep -o "$work/[^ ]*" /proc/mounts); groups=$(cat "$work/groups" 2>/dev/null); finish; [ -z "$groups" ] || { sleep 0.2; rmdir $groups 2>/dev/null; }'
has_wait () { local row; for row in $rows_all; do declare -F "wait_$row" >/dev/null || { echo "no real wait of $row"; return 1; }; done; }
ok "each row of the table has a real wait in this test" has_wait
if ! { mkdir "$work/try" && mount -t tmpfs -o size=1m none "$work/try" 2>/dev/null && umount "$work/try"; }; then
    rows=$(tr ' ' '\n' <<<"$rows" | grep -v DISK) # a tmpfs can be mounted by root only
fi
n=0 rows_running=()
for row in $rows; do
    one "$row" &
    rows_running+=($!)
    n=$((n + 1))
    [ $((n % ${AT_ONCE:-6})) != 0 ] || { wait "${rows_running[@]}"; rows_running=(); }
done
wait "${rows_running[@]}"
passed () { cat "$work/$1.said"; [ "$(cat "$work/$1.code")" = 0 ]; }
for row in $rows; do ok "$(name_of "$row"): status, JSON, why, top, page, readiness, metrics, alerts, --on-pause" passed "$row"; done

# ---- alerts: each wait that needs a person has one that fires ----------------------------------------
fires () # row
{
    local name
    name=$(name_of "$1")
    cat >"$work/alert.yml" <<END
rule_files: [$PWD/ops/serve/alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'wiremill_waiting{campaign="a",reason="$name"}', values: '1x200'}
      - {series: 'wiremill_waiting{campaign="a",reason="${name% (*}"}', values: '1x200'}
$([ "$1" != PRODUCER_LATE ] || echo "      - {series: 'wiremill_producers_late{campaign=\"a\"}', values: '1x200'}")
    promql_expr_test:
      - expr: 'count(ALERTS{alertstate="firing",campaign="a"}) > bool 0'
        eval_time: 190m
        exp_samples: [{labels: '{}', value: 1}]
END
    promtool test rules "$work/alert.yml"
}
if has promtool; then
    alerted () { local row; for row in $rows_all; do is_info "$row" || [ "$row" = NO_BROKER ] || fires "$row" || { echo "no alert for $row"; return 1; }; done; }
    ok "each wait that is no mere information has an alert that fires" alerted
else
    skip "promtool is not there (make deps-farm)"
fi
done_testing
