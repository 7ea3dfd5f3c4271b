# Grid Engine: array jobs. Tried on a real Grid Engine 8.1.9 of one node (tests/fault/sge.t).
# -notify: a job that is deleted or stopped gets SIGUSR2, all its processes do, and is killed after
# the queue's notify time, 60 s unless the site changed it. The script turns that into SIGTERM.
# More than one CPU needs a parallel environment called smp.
at-once = 500
submit = qsub -terse -notify -N {name} -t 1-{n} -r y -j y -o ':{folder}/log/$JOB_ID.$TASK_ID.log'
    -S /bin/bash
    -pe smp {many-cpus}
    -l h_rt={wall-s}
    -l mem_free={memory}
    -l hostname=!({bad-nodes/,/|})
    -q {partition}
    -A {account}
    {submit-option}
    {script}
    {idle-s}

# qstat's table cuts names, its XML does not; each element of that is on a line of its own. A job
# that cannot be started stays in the queue as Eqw.
list = qstat -u {user} -g d -xml
list = awk -F[<>] -v name={name} '
    $2 ~ /^job_list/ { split("", job) }
    { job[$2] = $3 }
    $2 == "/job_list" && job["JB_name"] == name {
        node = job["queue_name"]
        if (!sub(/.*@/, "", node)) node = ""
        print job["JB_job_number"] "." (job["tasks"] ? job["tasks"] : 1) "|" job["state"] "|" node "|" job["JB_job_number"]
    }'
failed = *E*
pending = *qw*
reason = Grid Engine cannot start it ({state}; qstat -j {text} explains it)

# qdel is the only signal there is. It fails for ids of jobs that have ended meanwhile, after it has
# deleted the others.
withdraw = qdel
    {id}
drain = qdel
    {id}
kill = qdel -f
    {id}
harmless = *

job = job=$JOB_ID.$SGE_TASK_ID node=${HOSTNAME:-$(hostname)}
