#!/bin/bash
# condor.sh - stands in for HTCondor's commands in a test: condor_submit, condor_q, condor_rm, by the name it is called by.
#
# Links to it are first in PATH; CONDOR is a folder with the queue: a file CLUSTER.PROC for each job with its batch name,
# status, host and reason. Jobs start at once, as a startd would start them; at most $CONDOR/slots of them. A submit file is
# understood as far as wiremill writes it, and any other line of it is refused. $CONDOR/down: no schedd answers.
set -eu
cd "$CONDOR"
exec 9>lock && flock 9
[ ! -e down ] || { echo "Error: Couldn't contact the condor_schedd" >&2; exit 1; }

field () { sed -n "$2p" "$1"; } # job, line: 1 batch name, 2 status, 3 host, 4 pid, 5 why it is held, 6 the last host
put () { printf '%s\n' "${@:2}" >"$1.part" && mv "$1.part" "$1"; } # job, fields...
alive () { [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; } # pid
# Jobs whose process has ended leave; others begin while there are slots.
tend ()
{
    local job pid running=0 host
    for job in [0-9]*.[0-9]*; do
        [ -e "$job" ] || continue
        case $job in *.*.*) continue ;; esac
        pid=$(field "$job" 4)
        if [ "$pid" != 0 ] && ! alive "$pid"; then rm "$job" && rm -f "$job.job"; continue; fi
        [ "$pid" = 0 ] || running=$((running + 1))
    done
    for job in $(find . -maxdepth 1 -name "*.*" -printf "%f\n" | grep -Ex '[0-9]+\.[0-9]+' | sort -t. -k1,1n -k2,2n); do
        [ "$(field "$job" 2)" = 1 ] && [ $running -lt "$(cat slots)" ] || continue
        host=node$((running % 2 + 1)).pool
        if grep -Eq "stringListMember\(TARGET.Machine, \"(.*,)?$host[,\"]" "$job.job"; then host=node$(((running + 1) % 2 + 1)).pool; fi
        printf 'Machine = "%s"\n' "$host" >"$job.ad"
        ( cd "$(sed -n 's/^initialdir = //p' "$job.job")" && eval "set -- $(sed -n 's/^arguments = "\(.*\)"/\1/p' "$CONDOR/$job.job")"
          # as if a daemon started it: without descriptors of whoever called
          for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
          exec setsid env "_CONDOR_MACHINE_AD=$CONDOR/$job.ad" "WM_CONDOR_JOB=$job" \
              "$(sed -n 's/^executable = //p' "$CONDOR/$job.job")" "$@" </dev/null >/dev/null 2>&1 ) &
        put "$job" "$(field "$job" 1)" 2 "slot1_1@$host" $! undefined undefined
        running=$((running + 1))
    done
}
condor_submit () # -terse, file
{
    local cluster n i name
    [ "$1" = -terse ] || exit 1
    if grep -vE '^(#|$)|^(batch_name|executable|arguments|environment|transfer_executable|should_transfer_files|initialdir|output|error|log|request_cpus|request_memory|accounting_group|kill_sig|remove_kill_sig|want_graceful_removal|job_max_vacate_time|allowed_job_duration|periodic_remove|requirements|\+[A-Za-z]+) = |^queue [0-9]+$' "$2" >&2; then
        echo "ERROR: on Line 1 of submit file: not understood" >&2; exit 1
    fi
    cluster=$(($(cat clusters 2>/dev/null || echo 0) + 1)) && echo $cluster >clusters
    cp "$2" submitted.$cluster
    n=$(sed -n 's/^queue //p' "$2") name=$(sed -n 's/^batch_name = //p' "$2")
    for ((i = 0; i < n; i++)); do
        cp "$2" $cluster.$i.job
        put $cluster.$i "$name" "$([ -e hold ] && echo 5 || echo 1)" undefined 0 "$([ -e hold ] && cat hold || echo undefined)" \
            "$([ -e hold ] && echo slot1@node1.pool || echo undefined)"
    done
    echo "$cluster.0 - $cluster.$((n - 1))"
    tend
}
condor_q () # -constraint, JobBatchName == "NAME", -autoformat:t, attributes...
{
    local job name=${2#JobBatchName == \"}
    [ "$1 $3 ${*:4}" = "-constraint -autoformat:t ClusterId ProcId JobStatus RemoteHost LastRemoteHost HoldReason" ] || exit 1
    tend
    for job in $(find . -maxdepth 1 -name "*.*" -printf "%f\n" | grep -Ex '[0-9]+\.[0-9]+'); do
        [ "$(field "$job" 1)" = "${name%\"}" ] || continue
        printf '%s\t%s\t%s\t%s\t%s\t%s\n' "${job%.*}" "${job#*.}" "$(field "$job" 2)" "$(field "$job" 3)" "$(field "$job" 6)" \
            "$(field "$job" 5)"
    done
}
condor_rm () # -constraint, (JobStatus == ... && )stringListMember(strcat(ClusterId, ".", ProcId), "N.M,..."), perhaps -forcex
{
    local job pid found=0 status
    [ "$1" = -constraint ] || exit 1
    for job in $(grep -oE '[0-9]+\.[0-9]+' <<<"$2"); do
        [ -e "$job" ] || continue
        status=$(field "$job" 2) pid=$(field "$job" 4)
        case $2 in '(JobStatus'*) [ "$status" = 1 ] || [ "$status" = 5 ] || continue ;; esac
        [ "$status" != 3 ] || [ "${3:-}" = -forcex ] || continue
        found=1
        echo "$job $*" >>removed
        if [ "$pid" = 0 ] || [ "${3:-}" = -forcex ]; then
            rm "$job"
            [ "$pid" = 0 ] || kill -KILL -- "-$pid" 2>/dev/null || true
        else
            put "$job" "$(field "$job" 1)" 3 "$(field "$job" 3)" "$pid" undefined undefined
            kill -TERM "$pid" 2>/dev/null || true
        fi
    done
    [ $found = 1 ] || { echo "Couldn't find/remove all jobs matching constraint $2" >&2; exit 1; }
}
"${0##*/}" "$@"
