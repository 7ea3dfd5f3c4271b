#!/bin/bash
# pbs.sh - stands in for PBS's commands in a test: qsub, qstat, qsig, qdel, by the name it is called by.
#
# Links to it are first in PATH; PBS is a folder with the queue: a file N for each job with its name, state, host and pid,
# and N.job with the words it runs. Jobs start at once, as a server would start them, at most $PBS/slots of them. Options
# are understood as far as wiremill's profile has them, and any other is refused. What it prints is that of OpenPBS 22.
set -eu
cd "$PBS"
exec 9>lock && flock 9
[ ! -e down ] || { echo "${0##*/}: cannot connect to server pbs (errno=111)" >&2; exit 1; }

field () { sed -n "$2p" "$1"; } # job, line: 1 name, 2 state, 3 host, 4 pid
put () { printf '%s\n' "${@:2}" >"$1.part" && mv "$1.part" "$1"; } # job, fields...
alive () { [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; } # pid
jobs_of () { find . -maxdepth 1 -name '[0-9]*' -printf '%f\n' | grep -x '[0-9]*' | sort -n; }
# Jobs whose process has ended leave; others begin while there are slots.
tend ()
{
    local job pid running=0
    for job in $(jobs_of); do
        pid=$(field "$job" 4)
        if [ "$pid" != 0 ] && ! alive "$pid"; then rm "$job" "$job.job"; continue; fi
        [ "$pid" = 0 ] || running=$((running + 1))
    done
    for job in $(jobs_of); do
        [ "$(field "$job" 4)" = 0 ] && [ $running -lt "$(cat slots)" ] || continue
        ( mapfile -t words <"$job.job"
          # as if a daemon started it: without descriptors of whoever called
          for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
          exec setsid env PBS_JOBID="$job.pbs" "${words[@]}" </dev/null >/dev/null 2>&1 ) &
        put "$job" "$(field "$job" 1)" R "node$((running % 2 + 1))/$running" $!
        running=$((running + 1))
    done
}
qsub () # options of the profile, --, words
{
    local job name=
    while [ "$1" != -- ]; do
        case $1 in
        -N) name=$2 ;;
        -r | -j | -o | -q | -A) ;;
        -l) [[ $2 =~ ^(select=1:ncpus=[0-9]+(:mem=[0-9]+gb)?|walltime=[0-9]+:[0-5][0-9]:[0-5][0-9])$ ]] ||
            { echo "qsub: Unknown resource type  $2" >&2; exit 1; } ;;
        *) echo "qsub: invalid option -- '$1'" >&2; exit 2 ;;
        esac
        shift 2
    done
    shift
    [ ! -e refuse ] || { echo "qsub: Unknown queue" >&2; exit 170; }
    job=$(($(cat last 2>/dev/null || echo 0) + 1)) && echo $job >last
    printf '%s\n' "$@" >$job.job
    put $job "$name" Q - 0
    echo "$job.pbs"
    tend
}
qstat () # -f
{
    local job state host
    [ "$*" = -f ] || exit 2
    tend
    for job in $(jobs_of); do
        state=$(field "$job" 2) host=$(field "$job" 3)
        printf 'Job Id: %s.pbs\n    Job_Name = %s\n    Job_Owner = me@login\n    job_state = %s\n    queue = workq\n' "$job" \
            "$(field "$job" 1)" "$state"
        [ "$state" != R ] || printf '    exec_host = %s\n    exec_vnode = (%s:ncpus=1)\n' "$host" "${host%/*}"
        printf '    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=C,\n\tPBS_O_SYSTEM=Linux\n\n'
    done
}
signal () # signal, ids...: those that are not there make it fail, after the others
{
    local job pid code=0
    for job in "${@:2}"; do
        [ -e "$job" ] || { echo "${0##*/}: Unknown Job Id $job.pbs" >&2; code=153; continue; }
        pid=$(field "$job" 4)
        echo "$job $0" >>removed
        if [ "$pid" = 0 ]; then rm "$job" "$job.job"; else kill "-$1" -- "-$pid" 2>/dev/null || true; fi
    done
    exit $code
}
qsig () { [ "$1 $2" = "-s SIGTERM" ] || exit 2; signal TERM "${@:3}"; }
qdel () { signal TERM "$@"; }
"${0##*/}" "$@"
