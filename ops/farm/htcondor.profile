# HTCondor: a submission is one cluster, and jobs are found by their batch name. Never run in a pool:
# tests use stand-ins for its commands, and its own parser and expressions (tests/e2e/farmcondor.t).
# An evicted job gets SIGTERM, goes back into the queue and keeps its id; one that is removed gets
# SIGTERM too, and stays in the queue as removed until it has drained. The script writes the log
# itself: HTCondor would begin it again with each start of the job. In a submit file $ begins a
# macro, and between single quotes a quote is written twice.
submit = condor_submit -terse {file}

# JobStatus: 1 idle, 2 running, 3 removed, 4 completed, 5 held. A removed job without a host is over.
list = condor_q -constraint 'JobBatchName == "{name}"'
    -autoformat:t ClusterId ProcId JobStatus RemoteHost LastRemoteHost HoldReason
list = awk -F\t '
    function machine(slot) { sub(/.*@/, "", slot); return slot == "undefined" ? "" : slot }
    NF >= 5 { print $1 "." $2 "|" ($3 == 3 && $4 == "undefined" ? 4 : $3) "|" machine($3 == 5 ? $5 : $4) "|" $6 }'
over = 4
failed = 5
pending = 1
reason = HTCondor holds it: {text}

# Held jobs are pending, too: they never begin by themselves.
withdraw = condor_rm -constraint
    '(JobStatus == 1 || JobStatus == 5) && stringListMember(strcat(ClusterId, ".", ProcId), "{ids}")'
drain = condor_rm -constraint 'stringListMember(strcat(ClusterId, ".", ProcId), "{ids}")'
kill = condor_rm -constraint 'stringListMember(strcat(ClusterId, ".", ProcId), "{ids}")'
kill = condor_rm -constraint 'stringListMember(strcat(ClusterId, ".", ProcId), "{ids}")' -forcex
harmless = *Couldn't find/remove*

job = job=$WM_CONDOR_JOB node=$(sed -n 's/^Machine = "\(.*\)"$/\1/p' "${_CONDOR_MACHINE_AD:-/dev/null}")
    node=${node:-$(hostname)}
    exec >>"${0%/*}/log/$job.log" 2>&1

[worker.sub]
batch_name = {name}
executable = /bin/bash
arguments = "'{script/$/$(DOLLAR)/'/''}' {idle-s}"
arguments = "'{script/$/$(DOLLAR)/'/''}'"{!idle-s}
environment = "WM_CONDOR_JOB=$(ClusterId).$(ProcId)"
transfer_executable = false
should_transfer_files = no
initialdir = {folder/$/$(DOLLAR)}
output = /dev/null
error = /dev/null
log = {folder/$/$(DOLLAR)}/htcondor.log
request_cpus = {cpus}
request_memory = {memory}
accounting_group = {account}
kill_sig = SIGTERM
remove_kill_sig = SIGTERM
want_graceful_removal = true
job_max_vacate_time = {drain-s}
allowed_job_duration = {wall-s}
periodic_remove = JobStatus == 5 && time() - EnteredCurrentStatus > 600
{submit-option}
requirements = ($(requirements:true)) && !stringListMember(TARGET.Machine, "{bad-nodes}")
queue {n}
