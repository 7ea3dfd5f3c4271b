#!/bin/bash
# container.t - each program as process 1 of a PID namespace, as a container's entry point is: it works, signals end it, and
# what it did not start is no child that it waits for.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
alone=(env --default-signal unshare -pf --mount-proc --kill-child) # a shell's background processes ignore SIGINT
"${alone[@]}" true 2>/dev/null || alone+=(-Ur)
"${alone[@]}" true 2>/dev/null || { echo "1..0 # SKIP no PID namespace may be made here: $("${alone[@]}" true 2>&1)"; exit 0; }
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
cp "$made/one.h5" "$work/one.h5"

declare -A of=() # name: the process that unshare started
first () # name, command...: starts it as process 1; its output in $work/words.NAME
{
    "${alone[@]}" "${@:2}" >"$work/words.$1" 2>&1 &
    of[$1]=$!
}
one () { cat "/proc/${of[$1]}/task/${of[$1]}/children" 2>/dev/null; } # name: process 1, as seen from here
stands () { grep -qx wm-init "/proc/$(($(one "$1")))/comm"; }          # name
stop () { until_true 60 stands "$1" && kill "-$2" $(one "$1"); }       # name, signal
gone () { ! kill -0 "${of[$1]}"; }                                     # name
ends () # name, exit code: it ends with this
{
    local code
    until_true 60 gone "$1" || return 1
    wait "${of[$1]}"
    code=$?
    [ $code = "$2" ] || { echo "$1 ended with $code, not $2"; tail -n 5 "$work/words.$1"; return 1; }
}

# Every verb of every program, new ones too, at a place where no handler is set: its help is held up by a full pipe.
mkfifo "$work/full" && exec {full}<>"$work/full" || bail "no pipe"
dd if=/dev/zero of="$work/full" bs=4096 oflag=nonblock 2>/dev/null
verbs () # program: its verbs, or an empty line where it has none
{
    "$bin/$1" --help | awk '/VERB \[OPTIONS\]$/ { verbs = 1 } verbs && /^  [a-z]+  +[a-z]/ { print $1 } END { if (!verbs) print "" }'
}
held_up=()
for program in "$bin"/wiremill*; do
    program=${program##*/}
    while read -r verb; do
        # shellcheck disable=SC2086 # no verb, no word
        "${alone[@]}" "$bin/$program" $verb --help >&$full 2>&1 &
        of[$program-$verb]=$!
        held_up+=("$program-$verb")
    done < <(verbs "$program")
done
any ()
{
    local i how=(TERM INT) code=(143 130)
    [ ${#held_up[@]} -gt 40 ] || { echo "only ${#held_up[@]} verbs: ${held_up[*]}"; return 1; }
    for i in "${!held_up[@]}"; do stop "${held_up[i]}" ${how[i % 2]} || return 1; done
    for i in "${!held_up[@]}"; do ends "${held_up[i]}" ${code[i % 2]} || return 1; done
}
ok "SIGTERM or SIGINT ends each of ${#held_up[@]} verbs" any
exec {full}>&-

# A campaign by processes each of which is process 1.
"$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --batch-hits 64 --output "$work/whole" "$work/one.h5" \
    >"$work/said" 2>&1 || bail "wiremill run does not work"
slow_engine # what is signalled is at work then, on any machine
export WM_KILLER_SLOW_MS=100
out=$work/out slow=(--engine openvino)
done_of () { "$bin/wiremill" status --json "$1" | grep -A 3 '"hits": {' | sed -n 's/.*"done": *\([0-9]*\).*/\1/p'; } # output
moves () { [ "$(done_of "$1")" -gt "${2:-0}" ]; } # output, hits: more than these are scored
produce=("$bin/wiremill" produce --broker "ipc://$work/b" "$work/one.h5")
parts=(broker work team farm serve gateway)
first broker "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --batch-hits 64 --listen "ipc://$work/b"
until_true 60 test -e "$out$beside/endpoint.json" || bail "no broker"
first work "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --threads 1 "${slow[@]}"
first team "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --workers 2 "${slow[@]}"
first farm "$bin/wiremill" farm "$out" --system local --interval 0.2 --worth 0s --min 1 --max 1 --work-option=--engine --work-option=openvino
first serve "$bin/wiremill" serve "$out" --listen 127.0.0.1:0
first gateway "$bin/wiremill" gateway --model "m=$made/model-${small}1.onnx" --threads 1 --http 127.0.0.1:0 --grpc 127.0.0.1:0
first produce "${produce[@]}"
# Ctrl-C of its terminal reaches both processes, and counts once: a second one ends a worker at once.
mkfifo "$work/keys" || bail "no pipe"
script -qec "$(printf '%q ' "${alone[@]}" "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --threads 1 \
    "${slow[@]}")" /dev/null <"$work/keys" >"$work/words.keys" 2>&1 &
of[keys]=$!
exec {keys}>"$work/keys"
# A signal to its whole process group, as of timeout(1), counts once, too: process 1 is not in that group.
setsid "${alone[@]}" "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --threads 1 "${slow[@]}" >"$work/words.group" 2>&1 &
of[group]=$!
drained () { until_true 60 moves "$out" && stop produce TERM && ends produce 75; }
once ()
{
    until_true 60 moves "$out" 64 && until_true 60 grep -q 'session with' "$work/words.keys" && printf '\003' >&$keys && ends keys 75 &&
        grep 'leaves ipc' "$work/words.keys"
}
ok "a worker's terminal: Ctrl-C drains it" once
group ()
{
    until_true 60 grep -q 'session with' "$work/words.group" && stands group && ! pgrep -x wm-init -g "${of[group]}" && kill -INT "-${of[group]}" && ends group 75 &&
        grep 'leaves ipc' "$work/words.group"
}
ok "a signal to the whole group drains it" group
ok "produce is at work, and SIGTERM drains it" drained
first produce "${produce[@]}"
again () { ends produce 0 && same_scores one "$out" "$work/whole"; }
ok "the same command ends by itself, with the output of an undisturbed run" again
# The hang-up of a terminal goes to the leader of its session alone.
script -qec "$(printf '%q ' exec "${alone[@]}" setsid -c "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --threads 1 \
    "${slow[@]}")" /dev/null </dev/null >"$work/words.hangup" 2>&1 &
of[hangup]=$!
hangup ()
{
    until_true 60 grep -q 'session with' "$work/words.hangup" || return 1
    local pid=$(($(one hangup)))
    kill -9 "${of[hangup]}" && until_true 60 eval "! kill -0 $pid"
}
ok "a hang-up of its terminal ends it" hangup
exec {keys}>&-
# What another process of the container has left behind is no child that a program waits for, and stays no zombie. The farm
# waits for many.
whole () { ! grep -qs '^State:.Z' $(sed 's:[0-9][0-9]*:/proc/&/status:g' "/proc/$1/task/$1/children"); } # pid: no child is a zombie
reaped () # name
{
    local pid
    pid=$(($(one "$1")))
    # shellcheck disable=SC2016 # the inner shell's
    nsenter --target=$pid --pid --mount setsid -f sh -c 'until grep -q "^PPid:.1$" /proc/$$/status; do :; done; echo >"$0"' "$work/orphan"
    until_true 60 test -e "$work/orphan" && rm "$work/orphan" && until_true 60 whole $pid
}
as=(nsenter --target=$(($(one broker))) --pid --mount)
if "${as[@]}" true 2>/dev/null; then
    for name in "${parts[@]}"; do ok "$name: an orphan is reaped" reaped "$name"; done
else
    skip "this user may not enter a PID namespace"
fi
codes=(0 75 75 75 0 0) # a worker that is stopped may be started again
all ()
{
    local i failed=0
    for ((i = ${#parts[@]} - 1; i >= 0; i--)); do stop "${parts[i]}" TERM; done
    for i in "${!parts[@]}"; do ends "${parts[i]}" "${codes[i]}" || failed=1; done
    return $failed
}
ok "SIGTERM ends each of ${parts[*]}" all

# The same by one command, as ops/bundle/Containerfile has it.
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --batch-hits 64 "${slow[@]}" --threads 1 -w 1 --input "$work/one.h5" --output "$work/run")
export WM_KILLER_SLOW_MS=30
first run "${run[@]}"
term () { until_true 60 moves "$work/run" && stop run TERM && ends run 75 && grep -q 'type this to continue' "$work/words.run"; }
ok "run is at work, and SIGTERM drains it" term
export WM_KILLER_SLOW_MS=0
first run "${run[@]}"
finish_it () { ends run 0 && same_scores one "$work/run" "$work/whole"; }
ok "... and the same command ends by itself, with the output of an undisturbed run" finish_it
done_testing
