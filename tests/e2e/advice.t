#!/bin/bash
# advice.t - what a campaign's messages advise to type, typed: each does what it says. The table of sites at the end has every
# place in the sources that prints such advice; one that is not in it, or is not typed here, fails. Each line
# `wiremill-result` on the way has all its keys.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 PATH=$bin:$PATH
make_model "${small}1" && make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 || bail "no model or events"
listen=ipc://$work/b spare=ipc://$work/spare
folder="$work/it's a folder" # all lies in it: what is typed needs quotes
mkdir "$folder" "$work/elsewhere" && cd "$folder" || bail "no folder"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --workers 1)
by_hand=("$bin/wiremill" broker --model "$made/model-${small}1.wmm" --listen "$listen")
good () { cp "$made/layout.h5" "$1"; }
bad () { echo 'no events' >"$1"; }

# The line for wrappers: all keys, once, each file in one of three places.
keys='^wiremill-result exit=[0-9]+ files=[0-9]+ written=[0-9]+ held=[0-9]+ left=[0-9]+ changed=[0-9]+ asking=(none|ended|failed|stopped) hits=([0-9]+|-) hits_held=([0-9]+|-) output=.'
n_lines=0
result () # pattern: of the last command's line
{
    local line n
    line=$(grep '^wiremill-result ' "$work/said") && grep -Eq "$keys" <<<"$line" && [ "$(wc -l <<<"$line")" = 1 ] || { echo "its line: $line"; return 1; }
    for n in exit files written held left changed; do local "n_$n=$(sed "s/.* $n=\([0-9]*\).*/\1/" <<<"$line")"; done
    # shellcheck disable=SC2154
    [ "$n_files" = $((n_written + n_held + n_left)) ] && [ "$n_changed" -le "$n_written" ] && grep -Eq -- "$1" <<<"$line" || { echo "not $1: $line"; return 1; }
}
gives () # code, pattern of its line, command...
{
    exits "$1" keep timeout 120 "${@:3}" && result "$2"
}

# What is typed: in backticks, or on the line behind "type:" and its like.
declare -A typed=()
ticked () { grep -oE "\`wiremill $1[^\`]*\`" "$work/said" | head -n 1 | tr -d '`'; } # verb, or the beginning of it
behind () { grep -A1 -E 'type( this[^:]*)?:$' "$work/said" | sed -n '2s/^ *//p'; }
types () # site, code, command: in another folder, as a user whose shell it is
{
    [ -n "$3" ] || { echo "nothing to type in:"; cat "$work/said"; return 1; }
    echo "\$ $3"
    typed[$1]=1
    (cd "$work/elsewhere" && exits "$2" timeout 120 bash -c "$3" >"$work/did" 2>&1)
    local code=$?
    cat "$work/did"
    return $code
}
did () { grep -Eq -- "$1" "$work/did" || { echo "it did not print $1"; return 1; }; }
broker= worker=
start_broker () # options of by_hand...
{
    rm -f "$work/broker"
    "${by_hand[@]}" "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "type on" "$work/broker"
}
end () { local p; for p in "$@"; do kill "$p" && { wait "$p"; true; }; done 2>/dev/null; }

bad a.h5
held () { gives 5 'exit=5 files=1 written=0 held=1 left=0 changed=0 asking=none hits=0' "${run[@]}" --output out --input "$folder/a.h5" --output "$folder/out"; }
ok "a held input" held
good a.h5
ok "... is put right, and the command typed that is printed" types held 0 "$(behind)"
ok "... which scores it" test -s out/a.scores.h5
other () { gives 5 'exit=5 files=1 written=0 held=0 left=1 .*hits=-' "${run[@]}" --output "$folder/out" --input a.h5 --batch-hits 50; }
ok "other settings, once something is scored" other
ok "... another --output" eval 'says "give another --output, or" && typed[another]=1 && gives 0 "written=1" "${run[@]}" --output other --input a.h5 --batch-hits 50'
removed ()
{
    other >/dev/null
    local names
    names=$(sed -n 's/.*to begin again, remove \(.*\) and \(.*\)$/\1 \2/p' "$work/said")
    types remove 0 "rm -r $names" && [ ! -e out ] && [ ! -e out.wiremill ] && gives 0 'written=1' "${run[@]}" --output "$folder/out" --input a.h5 --batch-hits 50
}
ok "... what it names is removed, and the command begins again" removed
own () { "${run[@]}" --output o2 --campaign c2 --input a.h5; gives 5 'left=1' "${run[@]}" --output o2 --campaign c2 --input a.h5 --batch-hits 50; }
ok "... of a campaign in a folder of its own" own
ok "... another --output and --campaign" eval 'says "give another --output and --campaign, or" && gives 0 "written=1" "${run[@]}" --output o3 --campaign c3 --input a.h5 --batch-hits 50'
mv o2 o4
ok "outputs that were moved" gives 5 'left=1' "${run[@]}" --output o4 --campaign c2 --input a.h5
place () { ticked rebuild | sed "s|DIR$|\"$folder/o4\" --dry-run|"; }
once () { keep wiremill "$@" && [ "$(grep -c 'the folder of the 1 output, .* cannot be read' "$work/said")" = 1 ]; }
ok "... status names them once" once status c2
ok "... by a command that finds them where they are" types place 0 "$(place)"
ok "... report too, which asks for more" once report c2 -o c2.html
gives 5 'left=1' "${run[@]}" --output o4 --campaign c2 --input a.h5
ok "... are taken by the command that is printed" types moved 0 "$(ticked rebuild)"
ok "... after which the campaign goes on" gives 0 'written=1' "${run[@]}" --output o4 --campaign c2 --input a.h5
ok "... as rebuild prints" eval 'typed[rebuilt]=1; did "the same .wiremill run. with --campaign .*c2.* --output .*o4.* goes on"'

# A second broker, pauses, kicks.
start_broker --output "$folder/out" --batch-hits 50 || bail "no broker: $(cat "$work/broker")"
second () { gives 75 'exit=75 files=1 written=0 held=0 left=1 .*hits=-' "${run[@]}" --output "$folder/out" --input "$folder/a.h5" --batch-hits 50; }
ok "a second broker" second
again=$(behind)
ok "... the first is asked" types asked 0 "$(ticked status)"
ok "... which answers" did "^broker $listen"
for order in "pause" "pause"; do
    ok "a paused campaign" keep wiremill $order "$folder/out"
    ok "... is resumed" types resume 0 "$(ticked resume)"
    ok "... as printed" did "^resumed"
    wiremill pause "$folder/out" >/dev/null
done
ok "... as status prints" keep wiremill status out
ok "... too" types status-resume 0 "$(ticked resume)"
ok "a worker that is not there" exits 1 keep wiremill drain out --worker none
ok "... status has their names" types drain-status 0 "$(ticked status)"
end $broker
ok "the second, once the first has ended" types continue 0 "$again"

# Much is held.
mkdir many && for i in {01..12}; do bad many/$i.h5; done
many () { gives 5 'files=12 written=0 held=12' "${run[@]}" --output many-out --input 'many/*.h5'; }
ok "many held inputs" many
ok "... are listed" types many-held 0 "$(ticked held)"
ok "... by the command that is printed" did 'many/01.h5'
ok "... status" keep wiremill status many-out
ok "... also has it" types status-held 0 "$(ticked held)"
ok "no such input" exits 1 keep wiremill why many-out nonesuch.h5
ok "... they are listed" types why-files 0 "$(ticked 'status --files')"
kick_none () { refused 4 'let the same wiremill run command with --retry-held score again what is held' wiremill kick many-out --all-held; }
ok "no broker to kick with" kick_none
good many/02.h5
stale () { gives 3 'files=12 written=0 held=12' "${run[@]}" --output many-out --input 'many/*.h5' || says 'many/02.h5: .*; the file has changed since: --retry-held scores it as it is now' && ! says '01.h5: .*changed since'; }
ok "a file that was repaired keeps its reason, and the message has that it is another now" stale
ok "... --retry-held scores it" eval 'typed[kick-none]=1; gives 3 "files=12 written=1 held=11" "${run[@]}" --output many-out --input "many/*.h5" --retry-held'
ok "why of one" keep wiremill why many-out "$folder/many/04.h5"
good many/04.h5
ok "... the command with --retry-held" types why-same 3 "$(behind)"
ok "... scores it" did "written=2 held=10"
good many/05.h5
ok "held" keep wiremill held many-out
ok "... has the command as well" types held-same 3 "$(behind)"
ok "... scores it" did "written=3 held=9"
start_broker --output "$folder/many-out" || bail "no broker: $(cat "$work/broker")"
ok "why of one" keep wiremill why many-out "$folder/many/03.h5"
good many/03.h5
ok "... kicks it while a broker runs" types kick 0 "$(ticked kick)"
ok "... that one" did '^1 will be scored again'
ok "held, while a broker runs" keep wiremill held many-out
ok "... kicks all" types kick-all 0 "$(ticked kick)"
ok "... that are left" did '^8 will be scored again'
ok "no worker" eval '"$bin/wiremill" produce --quiet --broker "$listen" --input "$folder/many/03.h5" >"$work/producer" 2>&1 & producer=$!
    waits () { keep wiremill why many-out && says "wiremill work"; }; until_true 60 waits'
wiremill why many-out >"$work/said" 2>&1
(cd "$work/elsewhere" && exec bash -c "exec $(ticked work) --cache '$work/cache'") >"$work/worker" 2>&1 &
worker=$!
ok "... one is started by the command that is printed" eval 'typed[work]=1; wait $producer && [ -s many-out/03.scores.h5 ]'
end $worker $broker

# What continues a campaign that is left: of a broker by hand three commands.
start_broker --output "$folder/left" || bail "no broker: $(cat "$work/broker")"
"$bin/wiremill" produce --quiet --broker "$listen" --input "$folder/a.h5" >"$work/producer" 2>&1 &
producer=$!
open () { "$bin/wiremill" status left --json | grep -Eq '"open": *1'; }
until_true 60 open && wiremill pause left >/dev/null || bail "no open input"
ok "why of a pause" keep wiremill why left
ok "... prints what ends it" types why-resume 0 "$(ticked resume)"
end $producer
ok "one that was stopped by a signal" eval 'cp "$work/producer" "$work/said"; result "exit=75 files=1 written=0 held=0 left=1 changed=0 asking=none hits=0"'
end $broker
ok "a campaign that is left" keep wiremill status left
line () { sed -n "s|^  \(cd .* $1 .*\)|\1|p" "$work/said" | sed "s|\.\.\. #.*|a.h5|; s| #.*||"; } # verb
continued ()
{
    local code
    rm -f "$work/broker"
    (cd "$work/elsewhere" && exec bash -c "$(line broker | sed 's/&& /\&\& exec /')") >"$work/broker" 2>&1 &
    broker=$!
    (cd "$work/elsewhere" && exec bash -c "$(line work | sed 's/&& /\&\& exec /') --give-up 60 --cache '$work/cache'") >"$work/worker" 2>&1 &
    worker=$!
    until_true 60 grep -q 'type on' "$work/broker" && types left 0 "$(line produce)"
    code=$?
    end $worker $broker
    return $code
}
ok "... goes on by the commands that are printed" continued
ok "... to its end" test -s left/a.scores.h5

# Six files with a patch of NaNs each.
[ -z "$small" ] && edge=48 || edge=16
for i in {1..6}; do
    { printf '\223NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, $edge, $edge), }"
        head -c $((4 * edge * edge)) /dev/zero | tr '\0' '\377'; } >nan-$i.npy
done
ok "held hits of many files" gives 3 'files=6 written=6 held=0 left=0 changed=0 .*hits=0 hits_held=6' "${run[@]}" --output nan --input 'nan-*.npy'
ok "... are listed" types many-files 0 "$(ticked 'held --all')"
ok "... by file" did 'nan-6.npy'

# A campaign that is paused while `wiremill run` waits for files.
"${run[@]}" --output waits --files-from-command "until [ -e '$work/enough' ]; do sleep 0.1; done" >"$work/runs" 2>&1 &
running=$!
until_true 60 test -s waits.wiremill/endpoint.json && until_true 60 wiremill pause waits || bail "not paused: $(cat "$work/runs")"
ok "run prints that it is paused" until_true 60 grep -q ' paused: ' "$work/runs"
cp "$work/runs" "$work/said"
ok "... and what resumes it" types run-resume 0 "$(ticked resume)"
touch "$work/enough"
wait $running

# An input that is open, and changed.
start_broker --output "$folder/open" || bail "no broker: $(cat "$work/broker")"
cp a.h5 c.h5
"$bin/wiremill" produce --quiet --broker "$listen" --input c.h5 >"$work/producer" 2>&1 &
producer=$!
open () { "$bin/wiremill" status open --json | grep -Eq '"open": *1'; }
until_true 60 open || bail "no open input"
end $producer $broker
touch c.h5
ok "all that is open has changed" eval 'keep wiremill status open && says "type the same wiremill produce command with --retry-held"'
ok "... which scores it" eval 'typed[open-changed]=1; gives 0 "written=1" "${run[@]}" --output open --input c.h5 --retry-held'

# What was changed since.
echo x >>left/a.scores.h5
mixed () { gives 3 'exit=3 files=1 written=1 held=0 left=0 changed=1' "${run[@]}" --output left --input a.h5; }
ok "an output that was changed" mixed
ok "... which the summary counts" says 'files +1 written, 0 held, 1 changed'
ok "... --retry-held keeps it" eval 'says "retry-held keeps it as .*left/a.scores.h5.changed-1" && typed[edited]=1 && gives 0 "written=1 .*changed=0" "${run[@]}" --output left --input a.h5 --retry-held && [ -s left/a.scores.h5.changed-1 ]'
touch a.h5
ok "an input that was changed" gives 3 'written=1 .*changed=1' "${run[@]}" --output left --input "$folder/a.h5" --output "$folder/left"
ok "... --retry-held scores it again" types changed 0 "$(behind)"

# A copy of a campaign that was running.
start_broker --output "$folder/left" || bail "no broker"
cp -r left.wiremill copy.wiremill && cp -r left copy
end $broker
ok "a copy" refused 5 'is a copy of a campaign' "${run[@]}" --output copy --input a.h5
ok "... is repaired by the command that is printed" types copy 0 "$(ticked rebuild) --output \"$folder/copy\""
ok "... and goes on" gives 0 'written=1' "${run[@]}" --output copy --input a.h5

# What the commands of --on-held and --on-pause get.
cat >"$work/tell" <<'END'
printf '%s\n' "$WIREMILL_TEXT" >>"$1"
END
bad b.h5
ok "a command for what is held" gives 5 'held=1' "${run[@]}" --output told --input b.h5 --on-held "sh '$work/tell' '$work/told-held'"
ok "... its text has a command" eval 'cp "$work/told-held" "$work/said"; types told-held 0 "$(ticked held)" && did b.h5'
start_broker --output "$folder/told" --on-pause "sh '$work/tell' '$work/told-pause'" || bail "no broker"
wiremill pause told >/dev/null
ok "a command for what stands still" until_true 60 test -s "$work/told-pause"
ok "... its text has a command" eval 'cp "$work/told-pause" "$work/said"; types told-pause 0 "$(ticked why)" && did paused'
end $broker

# The line of a producer, whose keys decide what it knows, and of files that a command gives.
keyed=("$bin/wiremill" produce --quiet --broker "tcp://127.0.0.1:$port" --input a.h5 --join-file keyed.wiremill/join-producer)
start_broker --output "$folder/keyed" --listen "tcp://127.0.0.1:$port" --keys || bail "no broker: $(cat "$work/broker")"
"$bin/wiremill" work --broker "tcp://127.0.0.1:$port" --join-file keyed.wiremill/join-worker --cache "$work/cache" >"$work/worker" 2>&1 &
worker=$!
ok "a producer with one key" gives 0 "exit=0 files=1 written=1 held=0 left=0 changed=0 asking=none hits=- hits_held=- output=$folder/keyed" "${keyed[@]}"
ok "... with a monitor's, too" gives 0 "exit=0 files=1 written=1 .*hits=[1-9][0-9]* hits_held=0 output=$folder/keyed" "${keyed[@]}" --join-file keyed.wiremill/join-monitor
ok "run --broker" gives 0 'exit=0 files=1 written=1 .*hits=-' "$bin/wiremill" run "${keyed[@]:2}"
end $worker $broker
good "$work/elsewhere/a.h5" && echo "$work/elsewhere/a.h5" >next
ok "files that a command gives" gives 0 'files=1 written=1 held=0 left=0 changed=0 asking=ended' "${run[@]}" --output asked --files-from-command 'mv next taken && cat taken; true'
json () { keep "${run[@]}" --output asked --input b.h5 --json && return 1; says '"changed": 0' && says '"written": 0' && says '"state": "finished"'; }
ok "... the summary as JSON has the same, and status the same word" json
state () { keep wiremill status asked --json && says '"state": "finished"'; }
ok "... without a broker, too" state

# Every site: what is typed for it above, or why it is not.
cd "$OLDPWD" || exit 1
sites ()
{
    perl -0777 -ne '
        s{/\*.*?\*/}{}gs;
        print "$ARGV verb $1\n" while /wm_command_verb \([^"]*?"([a-z -]+)"/g;
        while (/((?:"(?:[^"\\]|\\.)*"\s*)+)/g) {
            my ($raw, $before) = ($1, substr ($_, 0, $-[0]));
            next if $before =~ /(?:\.(?:help|text|summary)\s*=|_text\[\]\s*=)\s*$/;
            my $text = join "", $raw =~ /"((?:[^"\\]|\\.)*)"/g;
            print "$ARGV $1\n" while $text =~ /(`wiremill [^`]*`?|\btype(?=[: ])(?: this| the same)?|give another [^,;]*|--retry-held [a-z]+|to begin again, [^;]*)/g;
        }' broker/wm_*.c broker/{campaign,core}/wm_*.c producer/session/wm_produce*.c \
        ops/{run,held,status,control}.c schema/wm_wait.h ops/*/wm_{account,ask,command,processes,setup_folders,workflow}.c | sort -u
}
cat >"$work/sites" <<'END'
broker/campaign/wm_campaign.c `wiremill rebuild %s --output %s` => moved
broker/campaign/wm_campaign.c `wiremill rebuild %s` => copy
broker/campaign/wm_campaign.c `wiremill status %s` => asked
broker/campaign/wm_campaign.c give another %s => another
broker/campaign/wm_campaign.c give another --campaign folder => (a journal without its CAMPAIGN record and no ledger: test_broker_damage)
broker/campaign/wm_campaign.c give another folder with --campaign => (a folder that cannot be written: refuse.t)
broker/campaign/wm_campaign.c to begin again, remove %s and %s => remove
broker/core/wm_core_on_input.c --retry-held scores => kick-none
broker/core/wm_core_distrust.c `wiremill kick` => (names verbs, as the core knows no folder: liar.t types them)
broker/core/wm_core_distrust.c `wiremill status` => (the same)
broker/core/wm_core_distrust.c `wiremill trust` => (the same)
broker/wm_notify.c `wiremill held %.2000s` => told-held
broker/wm_notify.c `wiremill why %.2000s` => told-pause
broker/campaign/wm_outputs.c --retry-held keeps => edited
broker/campaign/wm_outputs.c `wiremill rebuild %s --output DIR` => place
broker/wm_snapshot.c `wiremill rebuild %s` => (a damaged ledger of another user)
broker/wm_query.c `wiremill sql DIR` => (sql.t)
broker/campaign/wm_rebuild.c `wiremill run` => rebuilt
ops/control.c verb resume => resume
ops/control.c verb status => drain-status
ops/held.c --retry-held score => kick-none
ops/held.c `wiremill work --broker %s` => work
ops/held.c `wiremill resume` => why-resume
ops/held.c verb held --all => (more than 1,000 lines: mistakes.t, in make proof)
ops/held.c type => kick-all
ops/held.c type the same => (a command that is known to its user)
ops/held.c verb resume => why-resume
ops/held.c verb status --files => why-files
ops/run.c `wiremill broker` => (names the verb of a usage error)
ops/run.c `wiremill work` => (the same)
ops/run.c type => (the words behind which the command stands)
ops/run.c verb held => many-held
ops/run.c verb resume => run-resume
ops/status.c verb held => status-held
ops/status.c verb resume => status-resume
ops/ask/wm_account.c --retry-held scores => (hits without an event: join.t)
ops/ask/wm_account.c verb held --all => many-files
ops/ask/wm_account.c verb status => (more inputs of a distrusted worker than are named: liar.t)
ops/ask/wm_ask.c --retry-held to => open-changed
ops/ask/wm_ask.c type the same => open-changed
ops/process/wm_command.c `wiremill %s %s => (what prints the others)
ops/process/wm_command.c type the same => (a campaign whose command is not known)
ops/process/wm_command.c type this => left
ops/campaign/wm_setup_folders.c `wiremill help confinement` => (a page: manual.t)
ops/campaign/wm_setup_folders.c give another place for it => (a campaign's folder that cannot be made)
ops/campaign/wm_setup_folders.c `wiremill status %s` => (a campaign of another user: process.t)
ops/campaign/wm_processes.c type the same => (workers that the broker sends away: liar.t)
ops/workflow/wm_workflow.c type the same => (files that no producer has tried: justin.t)
producer/session/wm_produce_confine.c `wiremill help confinement` => (a page, which doc.t asks for)
producer/session/wm_produce_write.c --retry-held keeps => edited
schema/wm_wait.h `wiremill produce` => (a command that is known to its user)
schema/wm_wait.h `wiremill resume` => why-resume
schema/wm_wait.h `wiremill run` => (the same)
schema/wm_wait.h `wiremill work` => work
schema/wm_wait.h type the same => (the same)
schema/wm_wait.h type => (the same)
END
known () { sed 's/ *=> .*//' "$work/sites" | sort -u | diff - <(sites); }
ok "every site is known" known
tried () { local site code=0; while read -r site; do [ "${typed[$site]}" ] || { echo "not typed: $site"; code=1; }; done < <(sed -n 's/.* => \([a-z-]*\)$/\1/p' "$work/sites"); return $code; }
ok "... and typed" tried
done_testing
