# Slurm: job arrays. Tried on a real Slurm 22.05 of three pretended nodes (tests/fault/slurm.t).
# --signal sends SIGTERM to the shell alone, which hands it on. A requeued task keeps its id and
# appends to its log. An array has MaxArraySize - 1 tasks at most, 1000 unless a site changed it.
at-once = 500
submit = sbatch --parsable --job-name={name} --array=1-{n} --output={folder/%/%%}/log/%A_%a.log
    --open-mode=append --requeue --ntasks=1 --cpus-per-task={cpus}
    --mem={memory}
    --time={wall-hms} --signal=B:TERM@{drain-s}
    --partition={partition}
    --account={account}
    --exclude={bad-nodes}
    {submit-option}
    {script}
    {idle-s}

# Slurm lists a job for minutes after its end.
list = squeue --me --name {name} --array --states=all -h --format=%i|%T|%N
over = COMPLETED CANCELLED PREEMPTED DEADLINE REVOKED
failed = FAILED NODE_FAIL OUT_OF_MEMORY BOOT_FAIL TIMEOUT
pending = PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD
reason = Slurm reports {state}

withdraw = scancel --quiet --state=PENDING
    {id}
drain = scancel --quiet --batch --signal=TERM
    {id}
kill = scancel --quiet
    {id}

job = job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
    node=${SLURMD_NODENAME:-$(hostname)}
