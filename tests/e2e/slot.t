#!/bin/bash
# slot.t - wiremill run in an allocation: it reports what it found, and CPUs and memory stay within it.
#
# Variables and made-up cgroups everywhere; one CPU by affinity; a cgroup of its own where root may make one.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
unset WM_THREADS JUSTIN_PROCESSORS SLURM_CPUS_PER_TASK NSLOTS OMP_NUM_THREADS SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU
make_model 1 && make_events slot --events 5 --seed 8 --hits 3000 --tpcs 1 || bail "no model or events"
cpus=$(getconf _NPROCESSORS_ONLN)

# A machine whose cgroup has this much memory. The rest is as in the kernel's own files.
fake () # name, bytes
{
    mkdir -p "$work/$1/proc/self" "$work/$1/sys/fs/cgroup/job"
    echo '0::/job' >"$work/$1/proc/self/cgroup"
    echo '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw' >"$work/$1/proc/self/mountinfo"
    echo "$2" >"$work/$1/sys/fs/cgroup/job/memory.max"
}
fake two $((2 << 30))
fake small $((200 << 20))
run () # folder, options...
{
    local out=$1
    shift
    keep "$bin/wiremill" run --model "$made/model-1.wmm" --input "$made/slot.h5" --output "$work/$out" "$@"
}

export WM_CGROUP_ROOT=$work/two JUSTIN_PROCESSORS=1 NSLOTS='4(x2)'
slot="allocation: 1 of $cpus CPUs? \(JUSTIN_PROCESSORS\), 2.0 GiB \(cgroup\)\$"
named="ignored, since it is no whole number above 0: NSLOTS='4\(x2\)'\$"
doctor () { keep "$bin/wiremill" doctor "$work" && says "^ok +${slot/:/ +}" && says "^warn +allocation +$named"; }
ok "doctor says what the allocation has, and from where" doctor
said () { run one && says "^$slot" && says "^$named" && says ', 1 worker x 1 thread$' &&
    [ "$(grep -c allocation: "$work/said")" = 1 ]; }
ok "wiremill run too" said
# The worker's number is the one that wiremill run gave it.
log () { keep cat "$work/one$beside/log/worker-1.log" && says "wiremill-worker: ${slot/JUSTIN_PROCESSORS/--threads}"; }
ok "and its worker, in its log" log
by_hand ()
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$work/hand" --listen "ipc://$work/hand.b" >"$work/hand.broker" 2>&1 &
    until_true 60 test -s "$work/hand$beside/endpoint.json" && keep cat "$work/hand.broker" &&
        says "wiremill-broker: $slot" && exits 0 keep "$bin/wiremill" work "$work/hand" --idle-timeout 1 --cache "$work/cache" &&
        says "wiremill-worker: $slot"
}
ok "a broker and a worker by hand, too" by_hand
budget () { keep "$bin/wiremill" status "$work/hand" --json && says '"budget": *536870912'; }
ok "the broker's budget is a quarter of the memory" budget
alone ()
{
    echo "$made/slot.h5" >"$work/list"
    exits 4 keep "$bin/wiremill-producer" produce --broker "ipc://$work/nobody" --input-list "$work/list" --give-up 1 &&
        says "wiremill-producer: $slot"
}
ok "a producer, too" alone
farm ()
{
    exits 4 keep "$bin/wiremill" produce --broker "ipc://$work/nobody" --input "$made/slot.h5" --give-up 1 &&
        says "^$slot" && [ "$(grep -c allocation: "$work/said")" = 1 ]
}
ok "wiremill produce says it once" farm
over () { run over --threads 2 && says 'on 1 core: leave --threads out' && says "^allocation: 2 of $cpus CPUs? \(--threads\)"; }
ok "--threads is taken as it is typed, with a warning" over
typed () { WM_THREADS=$(nproc) run typed && says "^allocation: $(nproc) of $cpus CPUs? \(WM_THREADS\)"; }
ok "WM_THREADS comes before a batch system's variables" typed
ok "the scores are the same" same_scores slot "$work/one" "$work/typed"

# Too small: nothing begins.
small ()
{
    WM_CGROUP_ROOT=$work/small exits 1 run none &&
        says '^wiremill run: this allocation has 200 MiB of memory \(cgroup\), and a run with 1 worker needs at least [0-9]+ MiB: ask' &&
        [ ! -e "$work/none" ]
}
ok "an allocation too small to work: an error before the work begins" small
general ()
{
    fake medium $((300 << 20))
    WM_CGROUP_ROOT=$work/medium exits 1 run none --engine openvino &&
        says 'this allocation has 300 MiB of memory \(cgroup\), and a run with 1 worker needs at least 480 MiB: ask' &&
        [ ! -e "$work/none" ]
}
ok "OpenVINO needs more" general
# The same once the model turns out to be none of the sparse engine's.
imported ()
{
    "$bin/wiremill" import "$made/model-1.onnx" --general -o "$work/general.wmm" &&
        WM_CGROUP_ROOT=$work/medium exits 1 keep "$bin/wiremill" run --model "$work/general.wmm" --input "$made/slot.h5" \
            --output "$work/none" && says 'a run with 1 worker needs at least 480 MiB: ask'
}
ok "... also where only the model tells" imported
unfit () { WM_CGROUP_ROOT=$work/small exits 1 keep "$bin/wiremill" doctor "$work" && says '^FAIL  allocation .*needs at least'; }
ok "doctor fails in an allocation that is too small" unfit
unset JUSTIN_PROCESSORS NSLOTS WM_CGROUP_ROOT

# Measured: CPU time and most memory of each process come from their traces, which end with both.
traced () # folder, command...: $cpu_ms, $wall_ms, $peak_mib (of all processes together, what they share counted twice)
{
    local trace=$work/$1.trace start code
    mkdir "$trace"
    start=$(date +%s%N)
    WM_TRACE=$trace keep "${@:2}" --model "$made/model-1.wmm" --input "$made/slot.h5" --output "$work/$1"
    code=$?
    wall_ms=$((($(date +%s%N) - start) / 1000000))
    cpu_ms=$(cat "$trace"/* | awk '$2 == "cpu" { ns += $6 } END { printf "%d", ns / 1e6 }')
    peak_mib=$(cat "$trace"/* | awk '$2 == "memory" { bytes += $6 } END { printf "%d", bytes / 2^20 }')
    echo "# $1: $cpu_ms ms of CPU in $wall_ms ms, at most $peak_mib MiB" >&2
    # shellcheck disable=SC2012 # broker, producer, worker, engine, wiremill run
    [ "$(ls "$trace" | wc -l)" = 5 ] || { ls "$trace"; return 1; }
    return $code
}
first=$(taskset -cp $$ | sed 's/.*: *//; s/[^0-9].*//')
pinned ()
{
    traced pinned taskset -c "$first" "$bin/wiremill" run && says "^allocation: 1 of $cpus CPUs? \(affinity\)|^allocation: 1 of 1 CPU," &&
        [ $cpu_ms -le $((wall_ms + wall_ms / 50)) ] && [ $cpu_ms -gt 0 ]
}
ok "on one CPU all of them together take one CPU" pinned
ok "... and less than half of 2 GiB" test "$peak_mib" -lt 1024 -a "$peak_mib" -gt 0
ok "... and give the same scores" same_scores slot "$work/one" "$work/pinned"

variable ()
{
    JUSTIN_PROCESSORS=1 traced variable "$bin/wiremill" run && says '1 worker x 1 thread' &&
        [ $cpu_ms -le $((wall_ms + wall_ms / 20)) ]
}
ok "a variable alone keeps them within one CPU, too" variable
ok "... and the scores are the same" same_scores slot "$work/one" "$work/variable"

# A cgroup with one CPU and hardly more than what is asked for: version 2, or 1 where CPU and memory have trees of
# their own. `limits` writes both limits; `killed` is true if the kernel killed a process because memory ran out.
group=wiremill-slot-$$ limit=$((288 << 20))
if mkdir "/sys/fs/cgroup/$group" 2>/dev/null && [ -e "/sys/fs/cgroup/$group/memory.max" ] && [ -e "/sys/fs/cgroup/$group/cpu.max" ]; then
    trees=("/sys/fs/cgroup/$group")
    limits () { echo "100000 100000" >"$trees/cpu.max" && echo $limit >"$trees/memory.max" && echo 0 >"$trees/memory.swap.max"; }
    killed () { ! grep -qx 'oom_kill 0' "$trees/memory.events"; }
else
    rmdir "/sys/fs/cgroup/$group" 2>/dev/null
    trees=("/sys/fs/cgroup/cpu/$group" "/sys/fs/cgroup/memory/$group")
    limits ()
    {
        mkdir "${trees[@]}" && echo 100000 >"${trees[0]}/cpu.cfs_period_us" && echo 100000 >"${trees[0]}/cpu.cfs_quota_us" &&
            echo $limit >"${trees[1]}/memory.limit_in_bytes"
    }
    killed () { ! grep -qx 'oom_kill 0' "${trees[1]}/memory.oom_control"; }
fi
grouped ()
{
    local tree by=cgroup
    [ "$(nproc)" != 1 ] || by=affinity # where this test has one of the machine's
    (for tree in "${trees[@]}"; do echo $BASHPID >"$tree/cgroup.procs" || exit 1; done
        traced grouped "$bin/wiremill" run && says "^allocation: 1 of $cpus CPUs? \(($by|cgroup)\), 288 MiB \(cgroup\)$" &&
            [ $cpu_ms -le $((wall_ms + wall_ms / 20)) ]) && ! killed && same_scores slot "$work/one" "$work/grouped"
}
if limits 2>"$work/limits"; then
    ok "in a cgroup of one CPU and 288 MiB it is done, within both" grouped
else
    skip "no cgroup can be made here: $(tail -n 1 "$work/limits")"
fi
rmdir "${trees[@]}" 2>/dev/null
done_testing
