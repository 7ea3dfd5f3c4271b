#!/bin/bash
# sge.t - wiremill farm on a real Grid Engine: scales, loses jobs, is killed and ended; -notify drains; the same bits.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/farm.sh
. tests/fault/sge.sh
[ "$(size '' 1 1)" ] || { echo "1..0 # SKIP only make proof runs this"; exit 0; }
has_sge || { echo "1..0 # SKIP gridengine-master and -exec are not installed, or no network namespace here (make deps-sge)"; exit 0; }
rm -rf "$work" && sge_alone "$PWD/tests/fault/sge.t" && mkdir -p "$work"
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache
make_model 1 && make_events sge --events 2 --seed 8 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out folder=$work/out$beside/farm/g
unset WM_JOIN_FILE WM_BROKER
finish_sge () { [ -z "$SGE_ROOT" ] || sge_down >/dev/null; finish; }
at_exit finish_sge
ok "a Grid Engine of one node" sge_up 3
[ $failures = 0 ] || done_testing

ok "a broker" serve --listen "ipc://$work/b"
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{8\}\).*/\1/p')
farm=("$bin/wiremill" farm "$out" --system sge --name g --interval 0.5 --worth 0s --idle-timeout 3 --wall-time 1h)
slow=(--work-option=--isa --work-option=c) # jobs meet a campaign that is not over yet
jobs_of () { qstat -g d -xml | tr -d '\n' | sed 's|</job_list>|&\n|g' | sed -n "s|.*<JB_job_number>\([0-9]*\)<.*<JB_name>wm-$id-g<.*<tasks>\([0-9]*\)<.*|\1.\2|p" | sort; }
counters () { "$bin/wiremill" status "$out" --json | grep -Eo '"(n_fail|duplicate|late|again)": *[0-9]+'; }

dry ()
{
    keep "${farm[@]}" --min 2 --max 3 --memory 2G --partition all.q --account 'a b' --cpus 2 --dry-run &&
        says "^qsub -terse -notify -N wm-$id-g -t 1-2 -r y -j y -o ':$folder/log/\\\$JOB_ID.\\\$TASK_ID.log' -S /bin/bash -pe smp 2" &&
        says "-l h_rt=3600 -l mem_free=2G -q all.q -A 'a b' $folder/worker.sh" && says "^    --wall-time 3480 " && count 0
}
ok "--dry-run prints the whole submission" dry
"$bin/wiremill" pause "$out" >/dev/null
start --max 4 "${slow[@]}"
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/sge.h5" >"$work/produce" 2>&1 &
producer=$!
has_queue () { "$bin/wiremill" status "$out" --json | grep -Eq '"queued": [1-9][0-9]'; }
ok "a queue" until_true 60 has_queue
"$bin/wiremill" resume "$out" >/dev/null
ok "with work it has as many as there are slots" until_true 60 sees 3
pending () { grep -q '1 pending, 3 running, 3 of them connected' "$work/farm" && count 4; }
ok "and one that waits, of --max" until_true 60 pending
victim=$(jobs_of | head -n 1)
qdel "$victim" >/dev/null
warned () { grep -q 'draining: stopped by a signal' "$folder/log/$victim.log"; }
ok "one that is deleted is warned by SIGUSR2 (-notify), and drains" until_true 60 warned
others () { before=$(jobs_of); sees 3 && [ "$(wc -l <<<"$before")" = 4 ] && ! grep -Fqx "$victim" <<<"$before"; }
ok "others take its place" until_true 60 others
kill -9 $farm_pid
start --max 4 "${slow[@]}"
found () { grep -q '1 pending, 3 running, 3 of them connected' "$work/farm"; }
ok "a farm that was killed: the next one finds its jobs" until_true 60 found
ok "and submits nothing twice" test "$before" = "$(jobs_of)"
before=$(counters)
kill -TERM $farm_pid
ends () { wait $farm_pid; [ $? = 75 ]; }
ok "SIGTERM ends the farm with 75" ends
ok "and all its jobs" count 0
same () { [ "$(counters)" = "$before" ] || { echo "$before"; counters; return 1; }; }
ok "nothing failed or was computed twice" same
start --max 2
wait $producer
ok "the next farm finishes" test $? = 0
ok "then no job is left" until_true 60 count 0
kill -TERM $farm_pid && wait $farm_pid
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/sge.h5" --output "$work/alone" --batch-hits 16 --workers 1 \
        >"$work/run" 2>&1
ok "the output is that of one machine" same_scores sge "$out" "$work/alone"

# A worker without the farm takes its threads from its allocation.
plain ()
{
    echo "'$bin/wiremill' work '$out' --idle-timeout 1" >"$work/plain.sh"
    qsub -terse -S /bin/bash -pe smp 2 -j y -o ":$work/plain" "$work/plain.sh" && until_true 60 grep -Eq 'NSLOTS' "$work/plain" &&
        cp "$work/plain" "$work/said" && says 'allocation: 2 of [0-9]+ CPUs \(NSLOTS'
}
ok "a worker knows its allocation (NSLOTS)" plain

# Jobs that Grid Engine cannot start: their log's folder is not there.
start --min 2 --max 2 --failures 2 --node-failures 9 --submit-option=-o --submit-option=/proc/nowhere/x
error () { wait $farm_pid; [ $? = 1 ] && grep -q 'Grid Engine cannot start it (Eqw; qstat -j [0-9]* explains it)' "$work/farm"; }
ok "jobs that it cannot start end the farm, with the reason" error
ok "and do not stay in its queue" until_true 60 count 0
queue () { refused 1 "sge refused 3 submissions in a row" "${farm[@]}" --min 1 --max 1 --partition none && says 'Unknown queue|unknown queue|does not exist'; }
ok "a queue that does not exist" queue
kill $broker && wait $broker
done_testing
