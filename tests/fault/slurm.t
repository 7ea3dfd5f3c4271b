#!/bin/bash
# slurm.t - wiremill farm on a real Slurm: scales, is preempted, requeued, cancelled, restarted, drained; the same bits.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/farm.sh
. tests/fault/slurm.sh
has_slurm || { echo "1..0 # SKIP slurm-wlm and munge are not installed (make deps-slurm)"; exit 0; }
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache
n=$(size 3000 10000 10000)
make_model 1 && make_events "slurm-$n" --events 2 --seed 8 --hits "$n" --tpcs 1 || bail "no model or events"
out=$work/out folder=$work/out$beside/farm/s
unset WM_JOIN_FILE WM_BROKER

finish_slurm () { [ -z "$SLURM_CONF" ] || slurm_down >/dev/null; finish; }
at_exit finish_slurm
ok "a Slurm of three nodes" slurm_up 3
[ $failures = 0 ] || done_testing

# Each node has an instruction set of its own, as far as this CPU has it; c computes the same bits, slowly.
cat >"$work/prologue" <<'PROLOGUE'
case $node in n1) export WM_ISA=c ;; n2) export WM_ISA=avx2 ;; n3) export WM_ISA=avx512 ;; esac
PROLOGUE
has_isa () { WM_ISA=$1 "$bin/wiremill" bench --events 1 --hits 16 --judged 0 --seconds 0.01 --threads 1 --batch 16 \
    --precision fp32 -q >/dev/null 2>&1; }
for isa in avx2 avx512; do has_isa $isa || sed -i "s/WM_ISA=$isa /WM_ISA=c /" "$work/prologue"; done
isas=$(grep -o 'WM_ISA=[a-z0-9]*' "$work/prologue" | sort -u | wc -l)

farm=("$bin/wiremill" farm "$out" --system slurm --name s --interval 0.3 --worth 0s --idle-timeout 3 --wall-time 1h)
slow=(--work-option=--isa --work-option=c) # jobs meet a campaign that is not over yet
jobs_of () { squeue --me -h --array --name "wm-$id-s" --states="${1:-all}" -o '%i %T' | grep -Ev 'COMPLETED|CANCELLED' | cut -d' ' -f1 | sort; }
status () { "$bin/wiremill" status "$out" --json; }
counters () { status | grep -Eo '"(n_fail|duplicate|late|again)": *[0-9]+'; }
produce () { "$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/slurm-$n.h5" >"$work/produce" 2>&1 & producer=$!; }

ok "a broker" serve --listen "ipc://$work/b"
id=$(status | sed -n 's/.*"id": *"\([0-9a-f]\{8\}\).*/\1/p')
start --max 6 "${slow[@]}"
waits () { grep -q '0 batches; jobs: 0 wanted' "$work/farm"; }
ok "without work the farm waits" until_true 60 waits
ok "and has no job" count 0
produce
ok "with work it has as many as --max allows" until_true 60 sees 6
used () { [ "$(squeue --me -h -o %N --states=RUNNING --array | sort -u | wc -l)" = 3 ]; }
ok "on all nodes" used
cancelled=$(jobs_of RUNNING | head -n 3)
# shellcheck disable=SC2086 # several
scancel $cancelled
others () { sees 6 && ! jobs_of | grep -Fx "$cancelled"; }
ok "half of them are cancelled: others take their places" until_true 60 others
if [ "$(size '' 1 1)" ]; then
    again=$(jobs_of RUNNING | head -n 1)
    scontrol requeue "$again"
    twice () { [ "$(grep -c 'connects to' "$folder/log/$again.log")" = 2 ]; }
    ok "one that is requeued starts again, with the same id and log" until_true 60 twice
    ok "and all are there again" until_true 60 sees 6
    drained=$(cat "$folder"/log/*.log | grep -c 'draining: stopped by a signal')
    sbatch -Q --partition=first --ntasks=1 --cpus-per-task=2 --output=/dev/null --wrap 'sleep 3' >/dev/null
    preempted () { [ "$(cat "$folder"/log/*.log | grep -c 'draining: stopped by a signal')" -ge $((drained + 2)) ]; }
    ok "a job of higher priority takes a node: the two workers there drain" until_true 60 preempted
    ok "and come back after it" until_true 60 sees 6
fi
ok "the campaign ends, then no job is left, and no failure was reported" finishes
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/slurm-$n.h5" --output "$work/alone" --batch-hits 16 \
        --workers 1 >"$work/run" 2>&1
ok "the output is that of one machine" same_scores "slurm-$n" "$out" "$work/alone"

if [ "$(size '' 1 1)" ]; then
    # The farm itself is killed, started again, ended.
    "$bin/wiremill" kick "$out" 1 >/dev/null
    produce
    ok "more work: jobs come again" until_true 60 sees 6
    before=$(jobs_of)
    kill -9 $farm_pid
    start --max 6 "${slow[@]}"
    found () { grep -q '6 running, 6 of them connected' "$work/farm"; }
    ok "a farm that was killed: the next one finds its jobs" until_true 60 found
    ok "and submits nothing twice" test "$before" = "$(jobs_of)"
    before=$(counters)
    start_s=$SECONDS
    kill -TERM $farm_pid
    ends () { wait $farm_pid; [ $? = 75 ]; }
    ok "SIGTERM ends the farm with 75" ends
    echo "# drained in $((SECONDS - start_s)) s"
    ok "and all its jobs" count 0
    same () { [ "$(counters)" = "$before" ] || { echo "$before"; counters; return 1; }; }
    ok "nothing failed or was computed twice" same

    # The rest by nodes of several instruction sets.
    start --max 6 --prologue "$work/prologue"
    wait $producer
    ok "a farm of $isas instruction sets finishes" test $? = 0
    kill -TERM $farm_pid && wait $farm_pid
    ok "with the output of one machine" same_scores "slurm-$n" "$out" "$work/alone"

    # A node on which nothing starts is excluded; its tasks run elsewhere.
    cat >"$work/bad" <<'PROLOGUE'
[ $node != n2 ] || { echo "no such module here"; exit 1; }
PROLOGUE
    "${farm[@]}" --max 6 --min 6 --prologue "$work/bad" --name bad >"$work/farm" 2>&1 &
    farm_pid=$!
    avoided () { grep -q 'node n2 is excluded' "$work/farm" && grep -q '^n2 ' "$out$beside/farm/bad/bad-nodes"; }
    ok "a node on which jobs fail is excluded, and listed" until_true 60 avoided
    elsewhere () { squeue --me -h --array --states=PENDING,RUNNING --name "wm-$id-bad" -o %i | grep -q . && ! squeue --me -h --array --states=RUNNING --name "wm-$id-bad" -o %N | grep -q n2; }
    ok "and the farm goes on with the others" until_true 60 elsewhere
    kill -TERM $farm_pid && wait $farm_pid

    # Slurm's controller is away for a while.
    "${farm[@]}" --max 2 --min 2 --name away >"$work/farm" 2>&1 &
    farm_pid=$!
    both () { grep -q '"connected": 2' "$out$beside/farm/away/farm.json"; }
    ok "two jobs that stay" until_true 60 both
    ids () { squeue --me -h --array --states=PENDING,RUNNING --name "wm-$id-away" -o '%i %T' | sort; }
    before=$(ids)
    slurmctld_stop
    away () { grep -Eq 'squeue (ended by|did not end).*the farm tries again and submits nothing meanwhile' "$work/farm"; }
    ok "slurmctld is stopped: the farm reports it" until_true 120 away
    slurmctld_start
    ok "and when it answers again" until_true 120 grep -q 'slurm answers again' "$work/farm"
    stayed () { [ -n "$before" ] && [ "$(ids)" = "$before" ] && ! grep -E 'failed|ends:' "$work/farm"; }
    ok "its jobs are those of before, and none is taken for failed" until_true 60 stayed
    kill -TERM $farm_pid && wait $farm_pid

    # The wall time: a worker leaves before its end; a job that is still not connected then has failed.
    "${farm[@]}" --max 1 --min 1 --name wall --wall-time 20s >"$work/farm" 2>&1 &
    farm_pid=$!
    replaced () { [ "$(grep -l '"connected": true' "$out$beside"/farm/wall/log/*.json | wc -l)" = 2 ]; }
    ok "a worker whose wall time nears its end leaves, and another comes" until_true 120 replaced
    by_itself () { grep -q 'wall time' "$out$beside"/farm/wall/log/*.log && ! grep -E 'failed|ends:' "$work/farm"; }
    ok "which is no failure" by_itself
    kill -TERM $farm_pid && wait $farm_pid
    echo "trap '' TERM; sleep 600" >"$work/hangs"
    "${farm[@]}" --max 1 --min 1 --name late --wall-time 20s --prologue "$work/hangs" --failures 1 >"$work/farm" 2>&1 &
    farm_pid=$!
    timed_out () { grep -Eq 'job [0-9_]+ on n[1-3]: Slurm reports TIMEOUT; its log' "$work/farm"; }
    ok "a job that Slurm ends at its wall time, before it connected, has failed" until_true 240 timed_out
    gives_up () { wait $farm_pid; [ $? = 1 ] && grep -q 'ends: 1 jobs in a row failed to connect' "$work/farm"; }
    ok "and ends the farm" gives_up
fi
kill -TERM $farm_pid 2>/dev/null && wait $farm_pid

# The submit file for those who want no loop.
plain ()
{
    PATH=$bin:$PATH sbatch -Q --array=1-2 --output="$work/plain-%a" ops/farm/worker.sbatch "$out" --idle-timeout 1 &&
        until_true 60 grep -q 'no work for its idle time' "$work/plain-1" &&
        until_true 60 grep -q 'no work for its idle time' "$work/plain-2"
}
ok "ops/farm/worker.sbatch: workers come and leave by themselves" plain

# Jobs that nobody admits; a Slurm that refuses.
kill $broker && wait $broker
ok "a broker with keys" serve --listen "tcp://127.0.0.1:$port" --keys
"$bin/wiremill" keys add "$out" --role worker --output "$work/join" >/dev/null
"$bin/wiremill" keys revoke "$out" --id "$("$bin/wiremill" keys list "$out" | awk '$1 == "worker" { k = $2 } END { print k }')" \
        >/dev/null
broken ()
{
    refused 7 "ends: [3-9] jobs in a row failed to connect" "$bin/wiremill" farm --system slurm --min 3 --max 5 \
            --broker "tcp://127.0.0.1:$port" --join-file "$out$beside/join-operator" --join-file "$work/join" \
            --folder "$work/f" --interval 0.3 && says "job [0-9_]+ on n[1-3]: exit code 7" &&
        says "wiremill-worker: key refused: worker"
}
ok "jobs that are refused end the farm, with job, node and reason" broken
secret ()
{
    grep -rFq "$(cut -c 20-60 "$work/join")" "$work/f" "$work/slurm" && return 1
    grep -q -- "--join-file $work/join" "$work/f/worker.sh"
}
ok "no secret is in scripts, logs or Slurm's state, only the file's path" secret
partition ()
{
    refused 1 "slurm refused 3 submissions in a row" "${farm[@]}" --min 1 --max 1 --partition none && says "Invalid partition"
}
ok "a partition that does not exist" partition
dry ()
{
    keep "${farm[@]}" --min 2 --max 3 --memory 2G --partition main --account 'a b' --dry-run &&
        says "^sbatch --parsable --job-name=wm-$id-s --array=1-2 --output=$folder/log/%A_%a.log --open-mode=append --requeue" &&
        says "'--account=a b'" && says "--mem=2G --time=1:00:00 --signal=B:TERM@120 --partition=main" &&
        says "^    --wall-time 3480 " && count 0
}
ok "--dry-run prints the whole submission" dry
done_testing
