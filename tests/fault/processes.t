#!/bin/bash
# processes.t - every process that wiremill starts is in the table of tests/README.md, and is killed: here each as it begins,
# those that work long also while they do.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
model=$made/model-${small}1
cp "$made/one.h5" "$work/one.h5"
rows=$(sed -n '/^## Every process/,/^## The/ s/^| `\(.*\) |$/`\1/p' tests/README.md)

# ---- what makes a process, in the sources ----
# A function that only hands on what it is given is a name here; its callers are in the table.
makes='\b(fork|vfork|clone3?|posix_spawnp?|popen|system|daemon|wm_process_start|wm_process_apart|wm_spawn|wm_spawn_reader|wm_child_start|wm_respawn_new|wm_respawn_once) \('
hands_on='schema/base/wm_process.c|ops/process/wm_spawn.c|ops/process/wm_child.c|producer/serving/wm_respawn.c'
made_in () # "FILE n" for each file that makes processes; definitions begin in the first column
{
    grep -rnE --include='*.c' "^ .*$makes" schema broker producer gpuworker kernels ops | grep -vE "^($hands_on):|\"[^\"]*$makes" |
        cut -d: -f1 | sort | uniq -c | awk '{ print $2, $1 }'
}
named_in () { cut -d'|' -f2 <<<"$rows" | grep -oE '`[^`]*\.c`( [0-9]+)?' | tr -d '`' | awk '{ n[$1] += $2 ? $2 : 1 } END { for (f in n) print f, n[f] }' | sort; }
in_table ()
{
    local file n table
    declare -A table=()
    while read -r file n; do table[$file]=$n; done < <(named_in)
    while read -r file n; do
        [ "${table[$file]:-0}" = "$n" ] || { echo "$file makes $n processes, the table has ${table[$file]:-none} of them"; return 1; }
        unset "table[$file]"
    done < <(made_in)
    [ ${#table[@]} = 0 ] || { echo "these make no process: ${!table[*]}"; return 1; }
}
ok "each place that makes a process is in the table" in_table
rooms_named () # what is forked and goes on as it is has a name of its own
{
    local file
    for file in $(grep -rlE --include='*.c' '\bfork \(\)' schema broker producer gpuworker kernels ops | grep -v wm_process.c); do
        grep -q 'wm_process_name (' "$file" || { echo "$file: a process without a name"; return 1; }
    done
}
ok "each fork has a name" rooms_named
tests_are_there ()
{
    local test
    for test in $(grep -o '`[a-z0-9]*/[a-z]*\.t` |$' <<<"$(sed 's/$/ |/' <<<"$rows")" | tr -d '`|'); do
        grep -q 'kill\|WM_FAILPOINT' "tests/$test" || { echo "$test kills nothing"; return 1; }
    done
}
ok "each test that the table names kills" tests_are_there
# So many rows are known to have no kill; a new process adds none.
untried () { [ "$(grep -c '| not tried$' <<<"$rows")" -le 3 ]; }
ok "the others are not more than they were" untried

# ---- what a campaign shows ----
names=$(grep -o '`[^`]*`' <<<"$rows" | tr -d '`')
mark=(env WM_CASE="$work") # in the environment of what is looked at, and of what that starts
name_of () # pid
{
    local comm words
    read -r comm <"/proc/$1/comm" && mapfile -d '' -t words <"/proc/$1/cmdline" || return
    case $comm in
    wm-* | wiremill-engine) echo "$comm" ;;
    *) case ${words[0]##*/} in
        wiremill | wiremill-producer) echo "${words[0]##*/} ${words[1]}" ;;
        *) echo "${words[0]##*/}" ;;
        esac ;;
    esac
}
seen () # appends the names of all processes, until $work/enough is there
{
    local file pid
    until [ -e "$work/enough" ]; do
        for file in $(grep -lzxs "WM_CASE=$work" /proc/[0-9]*/environ); do
            pid=${file#/proc/} && pid=${pid%/environ}
            echo "$pid $(name_of "$pid" 2>/dev/null)"
        done
        sleep 0.01
    done >"$work/seen"
}
look () { rm -f "$work/enough" && : >"$work/typed" && { seen & looks=$!; }; }
typed () { "${mark[@]}" "$@" & echo $! >>"$work/typed"; } # command...: in the background, $!; it is no process of another's
known () # names...: all that were seen are in the table, and these were
{
    local name strange
    touch "$work/enough" && wait $looks
    awk 'NR == FNR { typed[$1]; next } !($1 in typed) && NF > 1 { $1 = ""; print substr ($0, 2) }' "$work/typed" "$work/seen" | sort | uniq -c |
        sed 's/^ *[0-9]* //' >"$work/names"
    # a child that is not yet another program still has the name of who was typed
    awk 'NR == FNR { typed[$1]; next } $1 in typed && NF > 1 { $1 = ""; print substr ($0, 2) }' "$work/typed" "$work/seen" >"$work/own"
    strange=$(grep -vxF "$names" "$work/names" | grep -vxF -f "$work/own")
    [ -z "$strange" ] || { echo "not in the table: $strange"; return 1; }
    for name; do grep -qx "$name" "$work/names" || { echo "not seen: $name; but: $(paste -sd, "$work/names")"; return 1; }; done
}

# Files by a command, sidecars, a command at the end, and a model that is imported: all that `run` starts.
# shellcheck disable=SC2016 # the command's shell expands it
run=("$bin/wiremill" run --model "$model.onnx" --quiet --batch-hits 128 --workers 2 --threads 1 --sidecars --on-done 'echo >>done'
    --files-from-command 'read -r line <next && : >next && echo "$line"; true' --output)
begin () { mkdir -p "$work/asked-$1" && cd "$work/asked-$1" && echo "scope:one.h5 $work/one.h5 HERE" >next && rm -f done; } # output
whole () { (begin "$1" && exec timeout 120 env "${@:2}" "${run[@]}" "$work/$1"); } # output, NAME=VALUE...
written () { same_scores one "$work/$1" "$work/whole" && [ -s "$work/$1/one.scores.h5.json" ]; } # output
whole whole >"$work/said" 2>&1 || bail "wiremill run does not work: $(cat "$work/said")"
slow_engine
slow=(--engine openvino)
export WM_KILLER_SLOW_MS=15
look
shown_run ()
{
    (begin shown && exec "${mark[@]}" "${run[@]}" "$work/shown" "${slow[@]}") &
    echo $! >>"$work/typed"
    wait $! && known wiremill-broker wiremill-worker wiremill-engine 'wiremill-producer produce' && written shown
}
ok "run: each of its processes is in the table" shown_run
look
shown_hand ()
{
    typed "$bin/wiremill" broker --model "$model.wmm" --output "$work/hand" --batch-hits 128 --listen "ipc://$work/b" >"$work/words.broker" 2>&1
    broker=$!
    until_true 60 test -e "$work/hand$beside/endpoint.json" || return 1
    typed "$bin/wiremill" work --broker "ipc://$work/b" --cache "$work/cache" --workers 2 "${slow[@]}" >"$work/words.work" 2>&1
    typed "$bin/wiremill" farm "$work/hand" --system local --interval 0.2 --worth 0s --min 1 --max 1 >"$work/words.farm" 2>&1
    typed "$bin/wiremill" serve "$work/hand" --listen 127.0.0.1:0 >"$work/words.serve" 2>&1
    typed "$bin/wiremill" gateway --model "m=$model.onnx" --threads 1 --http 127.0.0.1:0 --grpc 127.0.0.1:0 >"$work/words.gateway" 2>&1
    until_true 60 grep -q 'is ready' "$work/words.gateway" || return 1
    typed "$bin/wiremill" produce --campaign "$work/hand" "$work/one.h5" >"$work/words.produce" 2>&1
    wait $! && until_true 60 grep -q " bash$" "$work/seen"
    kill $(cat "$work/typed") 2>/dev/null
    for pid in $(cat "$work/typed"); do wait "$pid"; done
    known 'wiremill-producer produce' wiremill-worker wiremill-engine wm-courier wm-spare bash 'wiremill run' wm-client && same_scores one "$work/hand" "$work/whole"
}
ok "broker, work, produce, farm, serve, gateway: so is each of theirs" shown_hand

# ---- kills ----
tried=
# Each at its first start, side by side: $work/NAME.died shows that it was there.
of_kills=()
kills () # failpoint, what, exit code, exit code of the same command then (none: it is not typed)
{
    tried+=" $1"
    of_kills+=("$1" "$2" "${*:3}")
    {
        whole "out-$1" "WM_FAILPOINT=$1:1:$work/$1.died" "XDG_CACHE_HOME=$work/$1.cache"
        echo $? >"$work/$1.codes"
        [ -z "$4" ] || { whole "out-$1"; echo $? >>"$work/$1.codes"; }
    } >"$work/$1.words" 2>&1 &
    of_kills+=($!)
}
dies () # failpoint, exit codes, process
{
    wait "$3"
    cat "$work/$1.words"
    [ -e "$work/$1.died" ] && [ "$(paste -sd' ' "$work/$1.codes")" = "$2" ] && written "out-$1"
}
kills wm-import 'the same command continues' 137 0
kills wm-sidecars 'it is started again' 0
kills facts 'the same command writes the sidecar' 0 0
kills sh 'its command is asked again' 0
for ((i = 0; i < ${#of_kills[@]}; i += 4)); do
    ok "${of_kills[i]} is killed as it begins: ${of_kills[i + 1]}" dies "${of_kills[i]}" "${of_kills[i + 2]}" "${of_kills[i + 3]}"
done

# The courier is there where the broker is named by its file.
by_file () # NAME=VALUE...: a campaign of parts; $broker, $produce
{
    drop "$work/parts" && rm -f "$work/died"
    "$bin/wiremill" broker --model "$model.wmm" --output "$work/parts" --batch-hits 128 --listen "ipc://$work/p" >>"$work/words.broker" 2>&1 &
    broker=$!
    until_true 60 test -e "$work/parts$beside/endpoint.json" || return 1
    [ -z "$paused" ] || "$bin/wiremill" pause "$work/parts" || return 1
    "$bin/wiremill" work --broker "ipc://$work/p" --cache "$work/cache" "${slow[@]}" >"$work/words.work" 2>&1 &
    worker=$!
    "${mark[@]}" "$@" "$bin/wiremill" produce --campaign "$work/parts" "$work/one.h5" >"$work/words.produce" 2>&1 &
    produce=$!
}
ends_well () # every process of it ends, with the output of an undisturbed run
{
    wait $produce || { cat "$work/words.produce"; return 1; }
    kill $broker $worker && wait $broker $worker
    same_scores one "$work/parts" "$work/whole"
}
of_comm () { local file; for file in $(grep -lxs "$1" /proc/[0-9]*/comm); do grep -qzxs "WM_CASE=$work" "${file%comm}environ" && basename "${file%/comm}" && return; done; false; }
again () { grep -c 'starting it again' "$work/words.produce"; }
courier_dies () { by_file "WM_FAILPOINT=$1:1:$work/died" && ends_well && [ -e "$work/died" ] && [ "$(again)" = "$2" ]; } # name, restarts of its producer
tried+=' wm-courier wm-spare'
ok "wm-courier is killed as it begins, before there is a spare: its producer ends as it did, and is started again" courier_dies wm-courier 1
ok "wm-spare is killed as it begins: the courier makes another" courier_dies wm-spare 0
moves () { [ "$("$bin/wiremill" status --json "$work/parts" | grep -A 3 '"hits": {' | sed -n 's/.*"done": *\([0-9]*\).*/\1/p')" -gt "${1:-0}" ]; }
# Each of the two is killed while it waits, and then the broker, so that the next is asked. The campaign is paused meanwhile:
# its producer would end before the last turn.
turn () # NAME
{
    local pid
    until_true 60 of_comm wm-spare && until_true 60 of_comm "$1" && pid=$(of_comm "$1") && kill -9 "$pid" && until_true 60 of_comm wm-spare ||
        { echo "no turn of $1"; tail -n 20 "$work"/words.{broker,produce,work}; return 1; }
}
turns ()
{
    local i paused=1
    by_file || return 1
    for ((i = 1; i <= $(size 2 10 50); i++)); do
        turn $([ $((i % 2)) = 0 ] && echo wm-spare || echo wm-courier) || return 1
    done
    kill -9 $broker
    wait $broker
    rm -f "$work/parts$beside/endpoint.json"
    "$bin/wiremill" broker --model "$model.wmm" --output "$work/parts" --batch-hits 128 --listen "ipc://$work/p" >>"$work/words.broker" 2>&1 &
    broker=$!
    until_true 60 "$bin/wiremill" resume "$work/parts" && ends_well && [ "$(again)" = 0 ] && ! grep -i 'broken pipe' "$work/words.produce"
}
ok "each of the two is killed, by turns, and then the broker: the producer finds it again" turns
both ()
{
    by_file && until_true 60 of_comm wm-spare && until_true 60 moves || return 1
    local courier spare
    courier=$(of_comm wm-courier) spare=$(of_comm wm-spare)
    kill -STOP "$courier" && kill -9 "$spare" "$courier" && kill -9 $broker
    wait $broker
    "$bin/wiremill" broker --model "$model.wmm" --output "$work/parts" --batch-hits 128 --listen "ipc://$work/p" >>"$work/words.broker" 2>&1 &
    broker=$!
    ends_well && [ "$(again)" = 1 ] && grep 'wm-courier and wm-spare, .*were both killed' "$work/words.produce"
}
ok "both at once: the producer ends at once, and is started again" both

# Verbs that are over in a moment: a part that is killed ends them with a message; the same command does what was asked.
part () # failpoint, pattern, command...
{
    rm -f "$work/died"
    ! WM_FAILPOINT=$1:1:$work/died keep "${@:3}" && [ -e "$work/died" ] && says "$2" && keep "${@:3}"
}
parts () { tried+=" $1"; ok "$1 is killed as it begins: ${*:3:2} ends with what to do" part "$@"; } # as part
parts wm-apart 'the process that read the files was ended by signal 9' "$bin/wiremill" compare "$work/whole/one.scores.h5" "$work/parts/one.scores.h5" --page "$work/page.html"
parts sample 'ended by signal 9 .*type the same command again' "$bin/wiremill" verify --sample 20 "$work/whole"
cc -fPIC -shared -o "$work/hits.so" ops/lib/examples/engine_hits.c -I gpuworker || bail "no plug-in"
parts wm-plugin 'was killed while it described itself' "$bin/wiremill" import "$work/hits.so" -o "$work/hits.wmm"
ok "... and so does plugin check" part wm-plugin 'crashes by signal 9' "$bin/wiremill" plugin check "$work/hits.so"
lacks () # a page that lacks a part has why there, and is still a page
{
    rm -f "$work/died"
    WM_FAILPOINT=report:1:$work/died keep "$bin/wiremill" report --output "$work/report.html" "$work/whole" && [ -e "$work/died" ] &&
        says 'ended by signal 9 .*type the same command again' && grep -q 'the process that reads them failed' "$work/report.html"
}
tried+=' report'
ok "report is killed as it begins: the page has no scores, and why" lacks
told ()
{
    rm -f "$work/died" && drop "$work/out"
    WM_FAILPOINT=sh:1:$work/died keep "$bin/wiremill" run --model "$model.wmm" --quiet --batch-hits 128 --on-done 'echo >>done' --output "$work/out" "$work/one.h5" &&
        [ -e "$work/died" ] && says 'on-done: its command was ended by signal 9' && same_scores one "$work/out" "$work/whole"
}
ok "sh of --on-done: the log names it" told

# Inputs on a server are copied by a process above the one that reads.
if command -v curl >/dev/null; then
    echo fine >"$work/mode"
    python3 tests/fault/elsewhere.py http "$port" "$work" &
    until_true 60 curl -sf "http://127.0.0.1:$port/mode" -o "$work/answer" || bail "no server"
    remote ()
    {
        rm -f "$work/died" && drop "$work/out"
        WM_FAILPOINT=$1:1:$work/died keep "$bin/wiremill" run --model "$model.wmm" --quiet --batch-hits 128 --output "$work/out" \
            "http://127.0.0.1:$port/one.h5" && [ -e "$work/died" ] && same_scores one "$work/out" "$work/whole"
    }
    ok "wm-reader is killed as it begins: the producer is started again" remote wm-reader
    ok "curl is killed as it begins: the file is copied again" remote curl
else
    skip "no curl"
fi
tried+=' wm-reader curl'

# Process 1 of a container takes all others along.
alone=(unshare -pf --mount-proc --kill-child)
if "${alone[@]}" true 2>/dev/null; then
    contained ()
    {
        local -x WM_KILLER_SLOW_MS=100
        local command=("$bin/wiremill" run --model "$model.wmm" --quiet --batch-hits 128 "${slow[@]}" --output "$work/parts" "$work/one.h5")
        drop "$work/parts"
        "${alone[@]}" "${command[@]}" >"$work/words" 2>&1 &
        until_true 60 moves && kill -9 $(cat "/proc/$!/task/$!/children")
        ! wait $! && WM_KILLER_SLOW_MS=0 "${command[@]}" && same_scores one "$work/parts" "$work/whole"
    }
    ok "wm-init is killed: the same command continues" contained
else
    skip "no PID namespace may be made here"
fi
tried+=' wm-init'

all ()
{
    local name
    while read -r name; do
        [[ " $tried " = *" ${name##* } "* ]] || { echo "the table says that $name is killed here"; return 1; }
    done < <(grep 'fault/processes.t`$' <<<"$rows" | sed 's/^`\([^`]*\)`.*/\1/')
}
ok "each process that is to be killed here was" all
done_testing
