# Processes of this machine. They outlive the farm, as a batch system's jobs do.
# A job is the process whose environment names the farm (WM_FARM) and itself as the job (WM_JOB);
# its worker has the same variables and another pid. The script begins again with them, and gives
# the farm's lock up only then: from that moment on `list` shows it.
submit = setsid --fork bash {script}
    {idle-s}
job = [ "$WM_JOB" = $$ ] || { WM_FARM={name} WM_JOB=$$ exec bash "$0" "$@" >>"${0%/*}/log/$$.log" 2>&1; exit 127; }
    exec {lock}>&-
    job=$$ node=$(hostname)

list = bash -c 'for file in $(grep -lzxsF "WM_FARM=$0" /proc/[0-9]*/environ); do
        pid=${file#/proc/} && pid=${pid%/environ}
        if grep -qzxsF "WM_JOB=$pid" "$file"; then echo "$pid|runs|$HOSTNAME"; fi
    done' {name}

# The script hands SIGTERM on. Else its whole process group is killed, and an engine, which has a
# group of its own, ends with its worker.
drain = bash -c 'kill -TERM "$@"' -
    {id}
kill = bash -c 'kill -KILL -- "$@"' -
    -{id}
harmless = *
