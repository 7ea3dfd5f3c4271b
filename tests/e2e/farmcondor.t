#!/bin/bash
# farmcondor.t - wiremill farm --system htcondor: its submit file by HTCondor's own parser, its loop with stand-ins.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/farm.sh
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache CONDOR=$work/condor
python=$PWD/build/venv/bin/python
n=$(size 400 6000 6000)
make_model 1 && make_events "condor-$n" --events 2 --seed 8 --hits "$n" --tpcs 1 || bail "no model or events"
out=$work/out folder=$work/out$beside/farm/h
unset WM_JOIN_FILE WM_BROKER
mkdir -p "$CONDOR" "$work/path" && echo 2 >"$CONDOR/slots"
for name in condor_submit condor_q condor_rm; do ln -s "$PWD/tests/standin/condor.sh" "$work/path/$name"; done
PATH=$work/path:$PATH
# What the stand-in started ends with the test.
end_jobs ()
{
    local job pid
    for job in "$CONDOR"/[0-9]*.[0-9]; do
        pid=$(sed -n 4p "$job" 2>/dev/null)
        [ "${pid:-0}" -le 1 ] || kill -KILL -- "-$pid" 2>/dev/null
    done
    finish
}
at_exit end_jobs

farm=("$bin/wiremill" farm "$out" --system htcondor --name h --interval 0.3 --worth 0s --idle-timeout 3 --wall-time 1h)
jobs_of () { condor_q -constraint "JobBatchName == \"wm-$id-h\"" -autoformat:t ClusterId ProcId JobStatus RemoteHost \
    LastRemoteHost HoldReason; }
slow=(--work-option=--isa --work-option=c) # jobs meet a campaign that is not over yet

ok "a broker" serve --listen "ipc://$work/b"
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{8\}\).*/\1/p')

# The submission, as HTCondor's own parser reads it.
cat >"$work/parse.py" <<'PYTHON'
import sys, warnings
warnings.simplefilter("ignore")
import htcondor2
text = open(sys.argv[1]).read()
submit = htcondor2.Submit(text[:text.index("\ncondor_submit ")] + "\n")
for key in submit:
    print(key.lower(), "=", submit.expand(key))
print("queue", submit.getQArgs())
PYTHON
dry ()
{
    "${farm[@]}" --min 2 --max 3 --memory 2G --account group_dune.x --name 'h' --folder "$work/a \$b" \
        --submit-option='requirements = TARGET.HasAVX2' --submit-option='+ProjectName = "dune"' --dry-run >"$work/dry" &&
        cp "$work/dry" "$work/said"
}
shared () { keep "${farm[@]}" --max 3 --dry-run && says 'the nodes must see .* at this path; where they do not, give --broker'; }
ok "nodes that do not see the campaign's folder are spoken of" shared
ok "--dry-run prints the whole submission" dry
lines ()
{
    says "^batch_name = wm-$id-h\$" && says '^queue 2$' && says '^job_max_vacate_time = 120$' &&
        says "^condor_submit -terse '$work/a \\\$b/worker.sub'\$" && says "^    --wall-time 3480 " &&
        says '^exec >>"\$\{0%/\*\}/log/\$job.log" 2>&1$' && bash -n <(sed '0,/^condor_submit /d' "$work/dry")
}
ok "... byte for byte, with the script" lines
if "$python" -c 'import htcondor2' 2>/dev/null; then
    parses ()
    {
        CONDOR_CONFIG=ONLY_ENV keep "$python" "$work/parse.py" "$work/dry" && says '^queue 2$' &&
            says "^executable = /bin/bash\$" && says "^arguments = \"'$work/a \\\$b/worker.sh'\"\$" &&
            says '^environment = "WM_CONDOR_JOB=[0-9]+\.[0-9]+"$' && says "^initialdir = $work/a \\\$b\$" &&
            says '^requirements = TARGET.HasAVX2$' && says '^(my\.|\+)projectname = "dune"$' &&
            says '^request_memory = 2G$' && says '^accounting_group = group_dune.x$'
    }
    ok "HTCondor's parser (htcondor2.Submit) reads it, with its macros expanded" parses
else
    skip "the package htcondor is not in build/venv: PyPI was not reached (make deps-farm)"
fi
no_partition () { refused 2 "partition does not go with --system htcondor" "${farm[@]}" --max 1 --partition x; }
ok "a partition is refused: HTCondor has none" no_partition

# A schedd that is away at the farm's end: a second signal ends the farm at once.
start --max 1
waits () { grep -q '0 batches; jobs: 0 wanted' "$work/farm"; }
ok "a farm without work" until_true 60 waits
touch "$CONDOR/down"
kill -TERM $farm_pid
away () { grep -q "contact the condor_schedd; the farm asks for its jobs for .* s more, and ends at once at a further signal" "$work/farm"; }
ok "no schedd answers at the end: that is reported" until_true 60 away
kill -TERM $farm_pid
ends () { wait $farm_pid; [ $? = 75 ]; }
ok "... and a further signal ends the farm" ends
left () { grep -q "jobs called wm-$id-h may still run: look for them" "$work/farm"; }
ok "... which names what may be left" left
rm "$CONDOR/down"

# The loop.
if [ "$(size '' 1 1)" ]; then
"$bin/wiremill" pause "$out" >/dev/null
start --max 3 "${slow[@]}"
ok "without work the farm waits" until_true 60 waits
ok "and has no job" count 0
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/condor-$n.h5" >"$work/produce" 2>&1 &
producer=$!
has_queue () { "$bin/wiremill" status "$out" --json | grep -Eq '"queued": [1-9][0-9]'; }
ok "a queue" until_true 60 has_queue
"$bin/wiremill" resume "$out" >/dev/null
ok "with work it submits as many as --max allows, and those for which there are slots connect" until_true 60 sees 2
one_cluster () { [ "$(cat "$CONDOR/clusters")" = 1 ] && grep -q '^queue 3$' "$CONDOR/submitted.1" && count 3; }
ok "as one cluster" one_cluster
touch "$CONDOR/down"
noted () { grep -q "condor_q ended by exit code 1.*: Error: Couldn't contact the condor_schedd; the farm tries again" "$work/farm"; }
ok "a schedd that does not answer is reported" until_true 60 noted
rm "$CONDOR/down"
again () { grep -q 'htcondor answers again' "$work/farm"; }
ok "and when it answers again" until_true 60 again
unchanged () { [ "$(cat "$CONDOR/clusters")" = 1 ]; }
ok "nothing was submitted meanwhile" unchanged
before=$(jobs_of)
kill -9 $farm_pid
start --max 3 "${slow[@]}"
found () { grep -q '1 pending, 2 running, 2 of them connected' "$work/farm"; }
ok "a farm that was killed: the next one finds its jobs" until_true 60 found
same () { [ "$before" = "$(jobs_of)" ] && unchanged; }
ok "and submits nothing twice" same
ok "the campaign ends, then no job is left, and no failure was reported" finishes
kill -TERM $farm_pid && wait $farm_pid
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/condor-$n.h5" --output "$work/alone" --batch-hits 16 \
        --workers 1 >"$work/run" 2>&1
ok "the output is that of one machine" same_scores "condor-$n" "$out" "$work/alone"

# The end of a farm drains its jobs, which are marked as removed until they have left.
start --max 3 --min 3
ok "jobs that stay" until_true 60 sees 2
kill -TERM $farm_pid
ok "SIGTERM ends the farm with 75" ends
ok "and all its jobs" count 0
drained () { [ "$(grep -l 'draining: stopped by a signal' "$folder"/log/*.log | wc -l)" = 2 ]; }
ok "those that ran drained" drained

# HTCondor holds each job.
echo "Error from slot1@node1.pool: Failed to execute '/bin/bash': (errno=13: 'Permission denied')" >"$CONDOR/hold"
held ()
{
    refused 1 "ends: [1-9] jobs in a row failed to connect" "${farm[@]}" --min 2 --max 2 --failures 2 --node-failures 9 &&
        says "job [0-9]+\.[0-9] on node1.pool: HTCondor holds it: Error from slot1@node1.pool: Failed to execute"
}
ok "jobs that HTCondor holds end the farm, with the reason" held
ok "and do not stay in its queue" count 0
rm "$CONDOR/hold"

# A node on which nothing starts is excluded.
cat >"$work/bad" <<'PROLOGUE'
[ $node != node1.pool ] || { echo "no such module here"; exit 1; }
PROLOGUE
"${farm[@]}" --max 2 --min 2 --prologue "$work/bad" --node-failures 1 >"$work/farm" 2>&1 &
farm_pid=$!
avoided () { grep -q 'node node1.pool is excluded' "$work/farm" && grep -q '^node1.pool ' "$folder/bad-nodes"; }
ok "a node on which jobs fail is excluded" until_true 60 avoided
elsewhere () { grep -Fqx 'requirements = ($(requirements:true)) && !stringListMember(TARGET.Machine, "node1.pool")' "$folder/worker.sub" && sees 2; }
ok "by the requirements of later submissions" until_true 60 elsewhere
kill -TERM $farm_pid && wait $farm_pid
fi
kill $broker && wait $broker
done_testing
