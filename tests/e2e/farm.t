#!/bin/bash
# farm.t - wiremill farm with processes of this machine: scales from nothing, finds its jobs again, stops, drains.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/farm.sh
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache
make_model 1 && make_events farms --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
out=$work/out batch_hits=8 folder=$work/out$beside/farm/here
unset WM_JOIN_FILE WM_BROKER
slow_engine # the same bits, 0.1 s a batch: jobs meet a campaign that is not over yet, on any machine
slow=(--work-option=--engine --work-option=openvino)
export WM_KILLER_SLOW_MS=100

farm=("$bin/wiremill" farm "$out" --system local --name here --interval 0.2 --worth 0s "${slow[@]}")
# The jobs there are, by the rule that the farm has itself.
jobs_of ()
{
    local file pid
    for file in $(grep -lzxs "WM_FARM=wm-$id-here" /proc/[0-9]*/environ); do
        pid=${file#/proc/} && pid=${pid%/environ}
        grep -qzxs "WM_JOB=$pid" "$file" && echo "$pid"
    done
    true
}

ok "a broker serves" serve --listen "ipc://$work/b"
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{8\}\).*/\1/p')
wrong ()
{
    refused 2 "more than --max" "${farm[@]}" --max 2 --min 3 &&
        refused 2 "--wall-time takes a time such as 90s, .*, not .3y." "${farm[@]}" --max 2 --wall-time 3y &&
        refused 2 "'--engine' is called --system now" "$bin/wiremill" farm "$out" --engine=local --max 2 &&
        refused 2 "'-e' is called --system now" "$bin/wiremill" farm "$out" -e local --max 2 &&
        refused 2 "'--walltime' is called --wall-time now" "${farm[@]}" --max 2 --walltime 1h &&
        refused 2 "at most 24 letters" "${farm[@]}" --max 2 --name "a b" &&
        refused 2 "folder DIR is missing" "$bin/wiremill" farm --system local --max 1 --broker "ipc://$work/b" &&
        refused 2 "batch systems do not take" "${farm[@]}" --max 2 --folder "$work/a\"b" &&
        refused 2 "--partition does not go with --system local" "${farm[@]}" --max 2 --partition x &&
        refused 2 "--account does not go with --system local" "${farm[@]}" --max 2 --account x &&
        refused 2 "--memory does not go with --system local" "${farm[@]}" --max 2 --memory 2G &&
        refused 2 "--submit-option does not go with --system local" "${farm[@]}" --max 2 --submit-option=--qos=low &&
        refused 2 "prologue" "${farm[@]}" --max 2 --prologue "$work/absent" &&
        refused 2 "max" "${farm[@]}"
}
ok "options that do not go" wrong
nothing () { keep "${farm[@]}" --max 4 --dry-run && says "nothing would be submitted: 0 batches, 0 jobs, 0 wanted"; }
ok "without work nothing would be submitted" nothing
start --max 3 --idle-timeout 5
waits () { grep -q '0 batches; jobs: 0 wanted' "$work/farm"; }
ok "without work the farm waits" until_true 60 waits
ok "and has no job" count 0
"$bin/wiremill" pause "$out" >/dev/null
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/farms.h5" >"$work/produce" 2>&1 &
producer=$!
has_queue () { "$bin/wiremill" status "$out" --json | grep -Eq '"queued": [1-9][0-9]'; }
ok "a queue" until_true 60 has_queue
dry ()
{
    keep "${farm[@]}" --max 4 --dry-run --cpus 2 --cache "$work/a b" --wall-time 1h --work-option=--pin
}
paused () { dry && says "takes no work now"; }
ok "a paused campaign gets no jobs" paused
ok "nor from the farm" count 0
"$bin/wiremill" resume "$out" >/dev/null
ok "with work it has as many as --max allows" until_true 60 count 3
ok "which connect" until_true 60 sees 3
is_exact ()
{
    dry && says "^1 times: setsid --fork bash $folder/worker.sh 60" && says "^    --cache '$work/a b' " && says "^    --threads 2 " &&
        says "^    --wall-time 3480 " && says "^    --pin " && says "^folder=$folder\$"
}
ok "--dry-run prints what would be submitted beside these" is_exact

# A farm that is killed leaves its jobs, and the next one finds them.
before=$(jobs_of)
kill -9 $farm_pid
start --max 3 --idle-timeout 5
again () { grep -q '3 running, 3 of them connected' "$work/farm"; }
ok "a farm that was killed: the next one finds its jobs" until_true 60 again
ok "and submits nothing twice" test "$before" = "$(jobs_of)"
second () { refused 75 "another farm called here" "${farm[@]}" --max 3; }
ok "two farms of one name" second
victim=$(jobs_of | head -n 1)
kill -KILL -- "-$victim"
ok "a job that is killed is replaced" until_true 60 count 3
ok "the campaign ends, then no job is left, and no failure was reported" finishes
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/farms.h5" --output "$work/alone" \
        --batch-hits 8 --workers 1 >"$work/run" 2>&1
ok "the output is that of one worker" same_scores farms "$out" "$work/alone"

# SIGTERM to a farm in the middle of work.
"$bin/wiremill" kick "$out" 1 >/dev/null
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/farms.h5" >"$work/produce" 2>&1 &
producer=$!
ok "more work: jobs come again" until_true 60 sees 3
busy () { [ "$("$bin/wiremill" status "$out" --json | grep -c '"state": *"busy"')" = "$1" ]; } # n
ok "and all compute" until_true 60 busy 3
states () { local job; for job in $(jobs_of); do grep -q '"connected": true, "label": ".*/'"$job"'"' "$folder/log/$job.json" || return 1; done; }
ok "each has told that it connected" states
counters () { "$bin/wiremill" status "$out" --json | grep -Eo '"(n_fail|n_lost|duplicate|late|again)": *[0-9]+'; }
counted=$(counters)
kill -TERM $farm_pid
ends () { wait $farm_pid; [ $? = 75 ]; }
ok "SIGTERM ends the farm with 75" ends
ok "and its jobs" count 0
drained () { [ "$(grep -l 'draining: stopped by a signal' "$folder"/log/*.log | wc -l)" -ge 3 ]; }
ok "which drained" drained
same () { [ "$(counters)" = "$counted" ] || { echo "$counted"; counters; return 1; }; }
ok "nothing failed, was lost or was computed twice" same
start --max 2 --min 2 --idle-timeout 1
WM_KILLER_SLOW_MS=0 "$bin/wiremill" work "$out" --engine openvino --idle-timeout 3 >"$work/fast" 2>&1 & # a fast worker beside them
wait $producer
ok "the next farm finishes" test $? = 0
idle () { count 2 && ! grep -q 'idle time' $(jobs_of | sed "s|.*|$folder/log/&.log|"); }
ok "--min jobs stay when the queue is empty" idle
kill -TERM $farm_pid && wait $farm_pid
# Batch systems signal a shell and all below it, and the shell hands the signal on.
"$bin/wiremill" work "$out" --threads 1 >"$work/twice" 2>&1 &
worker=$!
ok "a worker" until_true 60 grep -q 'session with' "$work/twice"
kill -TERM $worker && kill -TERM $worker
leaves () { wait $worker; [ $? = 75 ] && grep -q 'leaves .* after' "$work/twice"; }
ok "takes SIGTERM twice in a moment as once" leaves
kill $broker && wait $broker

# Jobs that cannot join: the farm stops after three and shows why.
ok "a broker with keys" serve --listen "tcp://127.0.0.1:$port" --keys
key ()
{
    "$bin/wiremill" keys add "$out" --role worker --output "$work/join" >"$work/added" || return 1
    local id
    id=$("$bin/wiremill" keys list "$out" | awk '$1 == "worker" { id = $2 } END { print id }')
    "$bin/wiremill" keys revoke "$out" --id "$id"
}
no_key ()
{
    refused 2 "need a key, too" "$bin/wiremill" farm --system local --max 1 --broker "tcp://127.0.0.1:$port" \
            --join-file "$out$beside/join-operator" --folder "$work/f"
}
ok "an operator's key alone does not do" no_key
by_pipe ()
{
    refused 2 "cannot read the worker's key" "$bin/wiremill" farm --system local --max 1 --folder "$work/f" --broker \
            "tcp://127.0.0.1:$port" --join-file "$out$beside/join-operator" --join-file - <"$out$beside/join-worker"
}
ok "nor a worker's from standard input" by_pipe
ok "a key that is revoked" key
broken ()
{
    refused 7 "ends: [3-9] jobs in a row failed to connect" "$bin/wiremill" farm --system local --min 3 --max 5 \
            --broker "tcp://127.0.0.1:$port" --join-file "$out$beside/join-operator" --join-file "$work/join" \
            --folder "$work/f" --interval 0.2 &&
        says "  job [0-9]+ on .*: exit code 7 .the broker refused its key.; its log $work/f/log/[0-9]+.log ends with" &&
        says "    wiremill-worker: key refused"
}
ok "jobs that are refused end the farm, with the reason" broken
secret () { grep -rFq "$(cut -c 20-60 "$work/join")" "$work/f" && return 1; grep -q -- "--join-file $work/join" "$work/f/worker.sh"; }
ok "no secret is in what it wrote, only the file's path" secret
absent ()
{
    refused 1 "ends: [3-9] jobs" "$bin/wiremill" farm "$out" --system local --min 3 --max 3 --name absent \
            --program /proc/nowhere/wiremill --interval 0.2 && says "/proc/nowhere/wiremill"
}
ok "a program that is not there" absent
kill $broker && wait $broker
away () { refused 75 "no broker serves" "${farm[@]}" --max 1 --dry-run; }
ok "without a broker there is no --dry-run" away
done_testing
