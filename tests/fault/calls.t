#!/bin/bash
# calls.t - one call of the C library fails in one process (a write, an fsync, an open, a rename, an
# allocation...: the k-th, or all from the k-th on), CALLS times: no wrong answer, a word on it from
# whoever ends of it, and the next start goes on to the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
n=${CALLS:-$(size 4 400 20000)} RANDOM=${SEED:-1}
echo "# CALLS=$n SEED=${SEED:-1} FAIL=${FAIL:-any}"
crew_model --events 1 --hits 1200
disk=(write pwrite fsync fdatasync open rename ftruncate fallocate mmap read)
errors=(EIO ENOSPC)

# Starts a process after another has ended; the first of $victim gets the shim.
start () # role
{
    if [ "$1" = $victim ] && [ -n "$fail" ]; then
        crew_start "$1" LD_PRELOAD="$proof/fail_shim.so" WM_SHIM_PROGRAM=$program WM_SHIM_FAIL=$fail WM_SHIM_HIT="$work/hit"
        fail= victim_pid=$pid
        (sleep 3; kill -9 $victim_pid) 2>/dev/null & # what waits for its disk for ever has waited enough
        timers+=" $!"
    else
        crew_start "$1"
    fi
}
campaign () # victim, program, WM_SHIM_FAIL
{
    local victim=$1 program=$2 fail=$3 failures=0 timers=
    crew_new
    rm -f "$work/hit"
    start broker
    start worker-1
    start producer
    while crew_wait; do
        if [ "$role$code" = producer0 ]; then
            [ "$crew_input" != "${crew_inputs[1]}" ] || break
            crew_input=${crew_inputs[1]}
        elif [ "$code" != 137 ]; then
            grep -q . "$work/words.$role" || echo "$role ended with $code and without a word"
            # An input that could not be read, or an event, is held by name: asked for again.
            [ "$role" != producer ] || retry_held=--retry-held
            [ $((failures += 1)) -lt 9 ] || { echo "$role ended with $code" "$(tail -n 2 "$work/words.$role")"; break; }
        fi
        start "$role"
    done
    [ "$role$code" = producer0 ] || echo 'nobody ends any more'
    # shellcheck disable=SC2086 # pids
    kill $timers 2>/dev/null
    wait $timers 2>/dev/null
    crew_stop
    crew_same
}
declare -A tried=([P4]=0 [P6]=0 [P3]=0) wrong=([P4]=0 [P6]=0 [P3]=0)
for ((i = 0; i < n; i++)); do
    room=$((RANDOM % 3))
    victim=$(cut -d' ' -f$((room + 1)) <<<"broker producer worker-1")
    program=$(cut -d' ' -f$((room + 1)) <<<"wiremill-broker wiremill-producer wiremill-worker")
    k=$((1 + RANDOM % (1 << RANDOM % 8)))
    if [ $((RANDOM % 4)) = 0 ]; then
        call=malloc error=ENOMEM promise=P6
    else
        call=${disk[$((RANDOM % ${#disk[@]}))]} error=${errors[$((RANDOM % 2))]} promise=P4
        [ $error = EIO ] || promise=P3
    fi
    fail=$call:$k$([ $((RANDOM % 3)) = 0 ] && echo +):$error
    if [ -n "$FAIL" ]; then read -r victim program fail <<<"$FAIL"; fi
    campaign $victim $program $fail >"$work/said" 2>/dev/null
    same=$?
    [ -e "$work/hit" ] || [ -s "$work/said" ] || [ $same != 0 ] || { i=$((i - (RANDOM % 4 > 0))); continue; } # it was never called so often
    tried[$promise]=$((${tried[$promise]} + 1))
    [ $same = 0 ] && [ ! -s "$work/said" ] && continue
    wrong[$promise]=$((${wrong[$promise]} + 1))
    crew_tell "FAIL='$victim $program $fail': $(head -n 5 "$work/said" | tr '\n' ';')"
done
ok "every campaign ends with the output of an undisturbed run" test "${wrong[P3]}${wrong[P4]}${wrong[P6]}" = 000
for promise in P3 P4 P6; do proved $promise ${tried[$promise]} $((${tried[$promise]} - ${wrong[$promise]})); done
done_testing
