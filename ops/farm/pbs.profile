# OpenPBS and PBS Professional: a submission is one job. Tried with a stand-in of its commands only
# (tests/standin/pbs.sh), never with PBS itself: look at --dry-run first.
# qdel sends SIGTERM, and SIGKILL after the queue's kill_delay, 10 s unless the site changed it; qsig
# sends SIGTERM alone. The script writes the log itself: PBS would bring it at the job's end.
submit = qsub -N {name} -r y -j oe -o /dev/null
    {!memory} -l select=1:ncpus={cpus}
    -l select=1:ncpus={cpus}:mem={memory}
    -l walltime={wall-hms}
    -q {partition}
    -A {account}
    {submit-option}
    -- /bin/bash {script}
    {idle-s}

list = qstat -f
list = awk -v name={name} '
    function show() { if (job == name) print id "|" state "|" node }
    /^Job Id:/ { show(); id = $3; sub(/[.].*/, "", id); job = state = node = "" }
    $1 == "Job_Name" { job = $3 }
    $1 == "job_state" { state = $3 }
    $1 == "exec_host" { node = $3; sub(/[\/+*].*/, "", node) }
    END { show() }'
over = F X M
pending = Q H W T
# A job that is held is pending, and its reason is in qstat -f; none is listed as failed.

withdraw = qdel
    {id}
drain = qsig -s SIGTERM
    {id}
kill = qdel
    {id}
harmless = *

job = job=${PBS_JOBID%%.*} node=$(hostname)
    exec >>"${0%/*}/log/$job.log" 2>&1
