#!/bin/bash
# slurm.sh - a real Slurm on this machine for a test: `slurm_up N`, `slurm_down`, `slurmctld_stop`; after helper.sh.
#
# munged, slurmctld and a slurmd for each of N pretended nodes n1..nN, on loopback, with private keys, sockets and
# state in $work/slurm. They end by their process ids, with the test or by slurm_down. Each leads a session, so that a signal
# to the test's process group (Ctrl-C, timeout) leaves them up until the test's trap has cancelled the jobs. Needs slurm-wlm and munge.
# shellcheck shell=bash
has_slurm () { PATH=$PATH:/usr/sbin has munged slurmctld slurmd squeue; }

slurm_conf () # folder, nodes, host
{
    cat <<CONF
ClusterName=wiremill
SlurmctldHost=$3(127.0.0.1)
SlurmctldPort=$((port + 8))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$1/munge.socket,cred_expire=6
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool-%n
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd-%n.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=10
NodeName=n[1-$2] NodeHostname=$3 NodeAddr=127.0.0.1 Port=[$((port + 9))-$((port + 8 + $2))] CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=first Nodes=ALL State=UP PriorityTier=9 PreemptMode=OFF
CONF
}
slurm_up () # nodes (7 at most)
{
    local s=$work/slurm i
    PATH=$PATH:/usr/sbin
    mkdir -p "$s/state" && (umask 077; head -c 128 /dev/urandom >"$s/munge.key")
    slurm_conf "$s" "$1" "$(hostname)" >"$s/slurm.conf"
    export SLURM_CONF=$s/slurm.conf
    setsid munged -F --force --socket="$s/munge.socket" --key-file="$s/munge.key" --log-file="$s/munge.log" \
            --pid-file="$s/munge.pid" --seed-file="$s/munge.seed" >"$s/munge.out" 2>&1 &
    slurm_pids=($!)
    until_true 60 test -S "$s/munge.socket" || return 1
    setsid slurmctld -D -i -f "$SLURM_CONF" >"$s/slurmctld.out" 2>&1 &
    slurm_pids+=($!)
    for ((i = 1; i <= $1; i++)); do
        mkdir -p "$s/spool-n$i"
        setsid slurmd -D -N "n$i" -f "$SLURM_CONF" >"$s/slurmd-n$i.out" 2>&1 &
        slurm_pids+=($!)
    done
    slurm_idle () { [ "$(sinfo -h -p main -t idle -o %D)" = "$1" ]; }
    until_true 60 slurm_idle "$1" || { tail -n 5 "$s"/*.out "$s"/*.log; return 1; }
}
# The controller ends, and comes again with the state that it saved; nodes and jobs go on meanwhile.
slurmctld_stop () { kill "${slurm_pids[1]}" && wait "${slurm_pids[1]}"; true; }
slurmctld_start ()
{
    setsid slurmctld -D -i -f "$SLURM_CONF" >>"$work/slurm/slurmctld.out" 2>&1 &
    slurm_pids[1]=$!
}
slurm_empty () { [ -z "$(squeue -h --me)" ]; }
slurm_down ()
{
    scancel --quiet --me 2>/dev/null
    until_true 60 slurm_empty
    kill "${slurm_pids[@]}" 2>/dev/null
}
