#!/bin/bash
# confine.t - a reader of events or an import of a model that a hostile file has taken over cannot leave its process.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
"$bin/wiremill" model new emtrkmichel --wire 8 --bin 8 -o "$work/model.onnx" || bail "no ONNX model"
lacks=$("$bin/wiremill" doctor | sed -n 's/^[a-z]* *confinement *//p')
export HOME=$work/home
mkdir -p "$HOME/.ssh" && echo secret >"$HOME/.ssh/key"
cp "$made/one.h5" "$HOME/one.h5" && cp "$work/model.onnx" "$HOME/model.onnx"
shim=$bin/../tests/fault/confine_shim.so

# A campaign whose producer does ACT when it reads; in $output what it logged.
campaign () # act, variables...
{
    local act=$1
    shift
    drop "$work/out"
    rm -rf "$work/mark"
    env "$@" LD_PRELOAD="$shim" WM_SHIM_DO="$act" WM_SHIM_MARK="$work/mark" "$bin/wiremill" run --quiet \
        --model "$made/model-${small}1.wmm" --input "$HOME/one.h5" --output "$work/out" >"$work/said" 2>&1
    code=$?
    cat "$work/out$beside"/log/producer* >>"$work/said" 2>/dev/null ||
        find "$work/out" -name 'producer*.log' -exec cat {} + >>"$work/said"
    cat "$work/said"
}
import () # act, variables...
{
    local act=$1
    shift
    rm -rf "$work/model.wmm" "$work/mark"
    env "$@" LD_PRELOAD="$shim" WM_SHIM_DO="$act" WM_SHIM_MARK="$work/mark" \
        "$bin/wiremill" import "$HOME/model.onnx" -o "$work/model.wmm" >"$work/said" 2>&1
    code=$?
    cat "$work/said"
}

# The shim works: without confinement each act succeeds (but ptrace, which other rules of a machine may refuse).
acts () # campaign or import
{
    local act
    for act in socket listen kill write steal environ; do
        "$1" $act WM_CONFINE=0 >/dev/null
        says "shim: $act: done" && [ $code = 0 ] || { echo "$act: exit code $code"; return 1; }
    done
    "$1" fork WM_CONFINE=0 >/dev/null
    test -e "$work/mark"
}
ok "with WM_CONFINE=0 a reader of events can do all of it" acts campaign
ok "and so can an import" acts import

# Calls that fail, and are logged: the work goes on.
calls () # campaign or import
{
    local act
    for act in socket listen kill; do
        "$1" $act >/dev/null
        says "shim: $act: Operation not permitted" && says "refused the system call" && [ $code = 0 ] ||
            { echo "$act: exit code $code"; return 1; }
    done
}
# Calls that end the process.
ends () # campaign or import, exit code
{
    local act
    for act in exec fork ptrace; do
        "$1" $act >/dev/null
        ! says "shim: $act" && says "refused the system call" && [ $code = "$2" ] && [ ! -e "$work/mark" ] ||
            { echo "$act: exit code $code"; return 1; }
    done
}
files () # campaign or import
{
    local act
    for act in write steal environ; do
        "$1" $act >/dev/null
        says "shim: $act: Permission denied" && [ ! -e "$work/mark" ] && [ $code = 0 ] ||
            { echo "$act: exit code $code"; return 1; }
    done
}
if [[ $lacks = *"no seccomp"* ]]; then
    skip "this kernel has no seccomp: $lacks"
else
    ok "a reader of events makes no sockets but its own, and signals nobody: refused, logged, and its work goes on" \
        calls campaign
    ok "a reader that starts a program, a process or a trace is ended, and its input held" ends campaign 5
    ok "an import makes no sockets and signals nobody" calls import
    ok "an import that starts a program, a process or a trace is ended, and makes nothing" ends import 5
fi
# The caller takes only a plain file out of an import's folder.
planted ()
{
    import plant >/dev/null
    says 'shim: plant: done' && says 'left no plain file' && [ $code = 5 ] && [ ! -L "$work/model.wmm" ] &&
        ! compgen -G "$work/model.wmm.import-*"
}
ok "a link that an import leaves as its .wmm is not taken" planted
# The output folder itself is open to a producer, but not for links.
linked ()
{
    mkdir -p "$work/out"
    env LD_PRELOAD="$shim" WM_SHIM_DO=link WM_SHIM_MARK="$work/out/link.h5" "$bin/wiremill" run --quiet \
        --model "$made/model-${small}1.wmm" --input "$HOME/one.h5" --output "$work/out" >"$work/said" 2>&1
    cat "$work"/out$beside/log/producer* >>"$work/said"
    says 'shim: link: Permission denied' && [ ! -L "$work/out/link.h5" ]
}
if [[ $lacks = *"no Landlock"* ]]; then
    skip "this kernel has no Landlock: $lacks"
else
    ok "a reader of events writes and reads no other files, also where its input lies in a home" files campaign
    ok "nor does an import" files import
    drop "$work/out"
    ok "a reader of events makes no symbolic links, also in the output folder" linked
fi
# The verbs that read files without a broker.
"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --input "$HOME/one.h5" --output "$work/read" >/dev/null 2>&1 ||
    bail "wiremill run does not work"
verb () # act, variables...: each verb in turn, what they print is kept
{
    local act=$1
    shift
    for command in "cut --input $HOME/one.h5 --event 0 --patches $work/cut.npy" "show $work/read/one.scores.h5" \
        "verify $work/read --sample 20"; do
        # shellcheck disable=SC2086 # it is split
        env "$@" LD_PRELOAD="$shim" WM_SHIM_DO="$act" WM_SHIM_MARK="$work/mark" "$bin/wiremill" $command \
            >"$work/said" 2>&1
        code=$?
        grep -a '^shim\|refused the system' "$work/said" | tee -a "$work/all"
    done
}
each_verb () # what happened thrice, act, variables...
{
    rm -f "$work/mark" "$work/all"
    verb "${@:2}"
    [ "$(grep -ac "$1" "$work/all")" = 3 ] && [ $code = 0 ] && [ -s "$work/cut.npy" ]
}
ok "without confinement each of these verbs can do it" each_verb 'shim: write: done' write WM_CONFINE=0
rm -f "$work/mark"
[[ $lacks = *"no seccomp"* ]] || ok "with it none makes a socket" each_verb 'shim: socket: Operation not permitted' socket
if [[ $lacks != *"no Landlock"* ]]; then
    ok "none writes another file" each_verb 'shim: write: Permission denied' write
    ok "none reads one" each_verb 'shim: steal: Permission denied' steal
    ok "and no file was made" test ! -e "$work/mark"
fi
# The campaign's folder, wherever the input lies: below a home, or beside that folder.
d=$work/data out=$work/data/out # not above the home, whose rules are stricter
mkdir "$d" && cp "$made/one.h5" "$d/one.h5" && cp "$work/model.onnx" "$d/model.onnx"
spoils () # input, model, variables and options of run...
{
    local input=$1 model=$2
    shift 2
    drop "$out"
    env LD_PRELOAD="$shim" WM_MODEL_CACHE=off WM_SHIM_DO=spoil WM_SHIM_MARK="$out$beside" "$@" \
        --quiet --workers 1 --model "$model" --input "$input" --output "$out" >"$work/run.words" 2>&1
    code=$?
    cat "$work/run.words" "$out"*/log/producer* "$out"/.wiremill/log/producer* >"$work/said" 2>/dev/null
    cat "$work/said"
}
open_without () # all of it is open to a process that is not confined, so the library works
{
    spoils "$d/one.h5" "$d/model.onnx" WM_CONFINE=0 "$bin/wiremill" run
    [ $code = 0 ] && says "opens $out$beside/ledger.db" && [ "$(grep -c 'shim: spoil: done' "$work/said")" -ge 2 ]
}
ok "with WM_CONFINE=0 a reader of events and an import can read and write in the campaign's folder" open_without
untouched () # code, lines: each reader and import was refused all of it
{
    [ $code = "$1" ] && ! says 'shim: opens' >/dev/null && [ ! -e "$out$beside/new" ] &&
        [ "$(grep -c 'shim: spoil: Permission denied' "$work/said")" -ge "$2" ] || { echo "exit code $code"; return 1; }
}
kept () # input, model, lines: of the producer one, and of the import at least one
{
    spoils "$1" "$2" "$bin/wiremill" run && untouched 0 "$3"
}
# The producer has its broker from the campaign's folder, and its key.
by_folder ()
{
    local pid producer
    drop "$out"
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --keys --listen "tcp://127.0.0.1:$port" \
        >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json" || return 1
    env LD_PRELOAD="$shim" WM_SHIM_DO=spoil WM_SHIM_MARK="$out$beside" "$bin/wiremill" produce \
        --campaign "$out" --input "$d/one.h5" >"$work/said" 2>&1 &
    pid=$!
    until_true 60 grep -q 'shim: spoil' "$work/said" || return 1
    until_true 60 child $pid wiremill-producer || { cat "$work/said"; return 1; }
    producer=$(child $pid wiremill-producer)
    tr '\0' ' ' <"/proc/$producer/cmdline" >"$work/cmdline"
    grep -q "join-producer" "$work/cmdline" && ! grep -q "join-operator" "$work/cmdline" ||
        { echo "command of $producer: $(cat "$work/cmdline")"; return 1; }
    # Both files are replaced, and the broker by one at another address: the producer finds it.
    "$bin/wiremill" keys rotate "$out" --role producer && kill $broker && wait $broker
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --keys \
        --listen "tcp://127.0.0.1:$((port + 4))" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json" || return 1
    "$bin/wiremill" work "$out" --cache "$work/cache" --threads 1 >"$work/worker" 2>&1 &
    local worker=$!
    wait $pid
    code=$?
    kill $worker $broker
    wait $worker $broker
    untouched 0 1 || { tail -n 20 "$work/said" "$work/broker" "$work/worker"; return 1; }
}
# Below the output folder it cannot be kept from a producer: earlier versions' place.
inside ()
{
    spoils "$d/one.h5" "$made/model-${small}1.wmm" WM_SHIM_MARK="$out/.wiremill" "$bin/wiremill" run \
        --campaign "$out/.wiremill"
    [ $code = 0 ] && says "opens $out/.wiremill/ledger.db" &&
        says "warning: the campaign $out/.wiremill lies in the output folder.*.wiremill help confinement" &&
        [ "$(grep -c 'lies in the output folder' "$work/said")" = 1 ]
}
if [[ $lacks != *"no Landlock"* ]]; then
    ok "the campaign's folder is closed to a reader of events, and to the import of its model" kept "$HOME/one.h5" \
        "$HOME/model.onnx" 2
    ok "also where input and model lie beside it" kept "$d/one.h5" "$d/model.onnx" 2
    ok "and to a producer that has broker and key from there; it finds both when they change" by_folder
    ok "where it lies in the output folder, run warns that it is open" inside
fi
# A kernel without both: the work is done, and the log has one line about it.
old ()
{
    local what='not fully confined on this machine: .*seccomp: Function not implemented'
    campaign old >/dev/null
    says "$what" && says 'Landlock: Function not implemented' && [ $code = 0 ] || return 1
    [ "$(cat "$work"/out$beside/log/producer* | grep -c 'not fully')" = 1 ] || { echo "more than once"; return 1; }
    import old >/dev/null
    says "$what" && [ $code = 0 ]
}
ok "a kernel that has neither is named once, and the work is done" old
left () { ! compgen -G "$work/model.wmm.import-*" && [ -s "$work/model.wmm" ]; }
ok "an import leaves its .wmm and nothing else" left
done_testing
