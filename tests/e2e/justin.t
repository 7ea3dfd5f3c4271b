#!/bin/bash
# justin.t - files from a command, lists of processed ones, sidecars, the last line, and the jobscript for justIN.
# (tests/fault/justin.t kills all of it.)
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=20
for n in 1 2 3; do make_events "justin-$n" --events $n --seed "4$n" --hits 300 --tpcs 1 || bail "no events"; done
made_once "$made/stage.onnx" "$bin/wiremill" model new emtrkmichel --seed 1 --wire 16 --bin 16 -o "$made/stage.onnx" || bail "no model"
export JUSTIN_PATH=$work/justin JUSTIN_FILES=$work/files
mkdir "$JUSTIN_PATH" "$work/data" && cp tests/e2e/justin-get-file.sh "$JUSTIN_PATH/justin-get-file"
cp "$made"/justin-?.h5 "$work/data" && head -c 4000 "$made/justin-1.h5" >"$work/data/broken.h5"
one=(--workers 1 --threads 1)
"$bin/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --input "$work/data/justin-?.h5" --output "$work/plain" \
    >"$work/output" 2>&1 || { cat "$work/output"; bail "wiremill run does not work"; }

# A workflow system with files, which does what `modes` says; the command as a jobscript types it.
offer () # files...; modes on standard input
{
    local name
    rm -rf "$JUSTIN_FILES" && mkdir "$JUSTIN_FILES" && cat >"$JUSTIN_FILES/modes"
    for name; do echo "test:$name $work/data/$name.h5 RSE"; done >"$JUSTIN_FILES/files"
}
ask='justin-get-file --seconds-needed 60'
export PATH=$JUSTIN_PATH:$PATH
run () # output, options...
{
    local to=$work/$1
    shift
    keep timeout 60 "$bin/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --output "$to" --files-from-command "$ask" \
        --processed-pfns "$to.pfns" --processed-dids "$to.dids" --sidecars "$@"
}
calls () { [ "$(wc -l <"$JUSTIN_FILES/calls")" = "$1" ] || { echo "calls:"; cat "$JUSTIN_FILES/calls"; return 1; }; }
same () { local to=$1 n; shift; for n; do same_scores "$n" "$work/plain" "$work/$to" || return 1; done; } # output, names...
listed () # output, names...: these are in both lists, each once
{
    local to=$work/$1
    shift
    diff <(printf "$work/data/%s.h5\n" "$@" | sort) <(sort "$to.pfns") && diff <(printf 'test:%s\n' "$@" | sort) <(sort "$to.dids")
}
sidecars () # output, names...: they are true, and there is no other
{
    python3 - "$work/$1" "${@:2}" <<'PY'
import json, os, sys, zlib
folder, names = sys.argv[1], sys.argv[2:]
have = sorted(n for n in os.listdir(folder) if n.endswith(".json"))
assert have == sorted(n + ".scores.h5.json" for n in names), have
for n in names:
    path = f"{folder}/{n}.scores.h5"
    s, data = json.load(open(path + ".json")), open(path, "rb").read()
    assert s["name"] == n + ".scores.h5" and s["size"] == len(data), s
    assert s["checksums"] == {"adler32": "%08x" % zlib.adler32(data)}, s
    assert s["parents"] == [{"did": "test:" + n}], s
    m, count = s["metadata"], int(n[-1])
    assert m["core.event_count"] == count and m["core.file_format"] == "hdf5", m
    assert m["core.last_event_number"] - m["core.first_event_number"] == count - 1, m
    assert [r // 100000 for r in m["core.runs_subruns"]] == m["core.runs"] and len(m["core.runs"]) == 1, m
    assert m["wiremill.hits"] > 0 and m["wiremill.hits_held"] == 0 and len(m["wiremill.model_sha256"]) == 64, m
PY
}
result () { tail -n 1 "$work/said" | grep -E "^wiremill-result $1" || { tail -n 3 "$work/said"; return 1; }; } # pattern

all=(justin-1 justin-2 justin-3)
files ()
{
    offer "${all[@]}" </dev/null
    run out && result 'exit=0 files=3 written=3 held=0 left=0 changed=0 asking=ended hits=[0-9]+ hits_held=0 output=' && same out "${all[@]}" &&
        listed out "${all[@]}" && calls 4
}
ok "each file that the command gives is scored, and listed; it is asked once more" files
ok "sidecars have size, adler32, parents and counts" sidecars out "${all[@]}"
again ()
{
    sha256sum "$work"/out/* "$work"/out.[pd]* >"$work/before"
    rm "$work/out/justin-2.scores.h5.json"
    sed -i 's/"size": ./&1/' "$work/out/justin-3.scores.h5.json" # as of another output
    run out && says 'nothing was left to do' && calls 5 && sha256sum --quiet -c "$work/before"
}
ok "the same command again scores nothing, lists nothing twice, and makes up for a sidecar" again

odd () # each oddity costs a call, and none a file
{
    offer "${all[@]}" <<<$'die\nhang\n\nrepeat\n\n\nrepeat'
    run odd --command-timeout 5 && result 'exit=0 files=3 written=3 held=0 left=0 changed=0 asking=ended' && same odd "${all[@]}" &&
        listed odd "${all[@]}" && calls 8 && says 'exit code 137|signal 9' && says 'did not end within 5 s' &&
        says 'offered a file again that is [a-z ]*: .*justin-1.h5'
}
ok "a command that dies, hangs and repeats: every file once" odd
rubbish ()
{
    offer justin-1 justin-2 <<<$'\nrubbish'
    exits 1 run rubbish && says 'printed no file .no word of it is a path or a URL.: Internal Server Error: no more files' &&
        result 'exit=1 files=1 written=1 held=0 left=0 changed=0 asking=failed' && listed rubbish justin-1 && calls 2
}
ok "rubbish ends the asking; what is in hand is finished and listed" rubbish
lines () { echo lines >"$JUSTIN_FILES/modes"; exits 1 run rubbish && says 'several lines' && result 'exit=1 files=1'; }
ok "two lines at a time are refused, since each call is for one" lines
mended () { run rubbish && result 'exit=0 files=2 written=2' && listed rubbish justin-1 justin-2; }
ok "the same command goes on" mended
no_such () { ask=/proc/nowhere/get exits 1 run none && says 'the shell finds no such program'; }
ok "a command that is not there" no_such
hangs () { ask='sleep 600' exits 75 run none --command-timeout 1 && says 'did not end within 1 s .--command-timeout., three times'; }
ok "a command that hangs three times: exit code 75" hangs
ask="echo '$work/data/justin-1.h5' # SECRET"
always () { exits 1 run always && result 'exit=1 files=1 written=1' && says 'nothing but files that it gave before'; }
ok "a command that gives one file for ever ends, and the file is scored once; a path alone will do" always
secret () { ! grep -rl SECRET "$work/always" "$work/always$beside" && grep -q -e ' --files-from-command [.][.][.] ' "$work/always$beside/command"; }
ok "... and the command's text, which may hold credentials, is in no output and not in the campaign" secret
no_parents () { [ ! -s "$work/always.dids" ] && grep -q '"parents": \[\]' "$work/always/justin-1.scores.h5.json"; }
ok "... and has no DID" no_parents
ask='justin-get-file --seconds-needed 60'
cat >"$work/late" <<EOF
if mkdir $work/calls 2>/dev/null; then
    (until [ -e $work/calls/second ]; do sleep 0.02; done; echo late; >$work/calls/written) &
else
    >$work/calls/second
    until [ -e $work/calls/written ]; do sleep 0.02; done
fi
$ask
EOF
late () { offer justin-1 justin-2 </dev/null; ask="sh $work/late" run later && result 'exit=0 files=2 written=2' && listed later justin-1 justin-2; }
ok "what a call left running cannot write into the next call's answer" late
none () { offer </dev/null; run none && result 'exit=0 files=0' && calls 1 && [ ! -s "$work/none.pfns" ]; }
ok "no file at all is no failure" none

echo fine >"$work/data/mode"
python3 tests/fault/elsewhere.py http "$port" "$work/data" &
web=http://127.0.0.1:$port
until_true 60 curl -sf "$web/mode" || bail "no HTTP server"
held ()
{
    offer broken </dev/null
    printf 'test:%s RSE\n' "justin-1 $web/justin-1.h5?authz=SECRET" "far davs://host/far.h5" \
        "same $web/justin-1.h5?authz=SECOND" >>"$JUSTIN_FILES/files"
    exits 3 run held && says 'offered a file again .*justin-1.h5' && ! grep SECOND "$work/said" && result 'exit=3 files=3 written=1 held=2' && same held justin-1 && says 'wiremill copies root://' &&
        [ "$(cat "$work/held.pfns")" = "$web/justin-1.h5" ] && [ "$(cat "$work/held.dids")" = test:justin-1 ] &&
        ! grep -rl SECRET "$work/held$beside" "$work/held.pfns" "$work/said"
}
ok "files that cannot be read are held, and not listed: exit code 3; a URL is copied" held
untried () # something is in the way of an output: its producer ends with 5
{
    offer justin-1 justin-2 </dev/null
    mkdir "$work/untried" && echo mine >"$work/untried/justin-2.scores.h5"
    exits 5 run untried --held-ok && result 'exit=5 files=2 written=1 held=0 left=1' && same untried justin-1 &&
        listed untried justin-1 && says '1 of 2 files .*not tried' && says "^  $work/data/justin-2.h5"
}
ok "a file that is never tried: exit code 5, with --held-ok, too, and it is named" untried
torn () # an unfinished last line of a list
{
    printf '%s' "${web:0:3}" >>"$work/held.pfns" && printf 'foreign' >>"$work/held.dids"
    run held --held-ok && result 'exit=0 files=2 written=1 held=1' && [ "$(cat "$work/held.pfns")" = "$web/justin-1.h5" ] &&
        [ "$(tail -n 1 "$work/held.dids")" = foreign ]
}
ok "--held-ok makes it 0; a torn line of a list goes, a foreign one stays" torn
with_input () # of one that is scored already: nothing is computed
{
    echo '{"core.data_tier": "scores", "core.file_format": "HDF5"}' >"$work/metadata"
    keep "$bin/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --input "$work/data/justin-1.h5" --output "$work/given" \
        --processed-pfns "$work/given.pfns" --sidecars --sidecar-metadata "$work/metadata" --json >"$work/json" 2>"$work/said" || return 1
    grep -q '"core.data_tier": "scores"' "$work/given/justin-1.scores.h5.json" && grep -q '"HDF5"' "$work/given/justin-1.scores.h5.json" &&
        grep -q '"asking": "none"' "$work/json" && [ "$(cat "$work/given.pfns")" = "$work/data/justin-1.h5" ]
}
ok "lists and sidecars of inputs that are given; more metadata" with_input
# A producer that begins to read an output for its sidecar, and waits until $work/go is there, or writes for ever where $work/flood
# is; $work/reads has its environment then, $work/args the arguments of other producers.
mkdir "$work/slow" && cp "$bin/wiremill" "$work/slow" && for program in "$bin"/wiremill-*; do ln -s "$program" "$work/slow"; done
rm "$work/slow/wiremill-producer" && cat >"$work/slow/wiremill-producer" <<EOF && chmod 755 "$work/slow/wiremill-producer"
#!/bin/bash
if [ "\$1" = facts ]; then
    ls -l /proc/\$PPID/fd >"$work/fds" && env >"$work/reads.part" && mv "$work/reads.part" "$work/reads"
    [ ! -e "$work/flood" ] || exec yes '['
    until [ -e "$work/go" ]; do sleep 0.05; done
fi
echo "\$*" >>"$work/args"
exec "$bin/wiremill-producer" "\$@"
EOF
slow () # options...: in the background
{
    rm -f "$work/given/justin-1.scores.h5.json" "$work/reads"
    "$work/slow/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --output "$work/given" --sidecars "$@" >"$work/said" 2>&1 &
    pid=$!
    until_true 60 [ -e "$work/reads" ] || { cat "$work/said"; return 1; }
}
deaf ()
{
    slow --stage-bytes 4000 --files-from-command "mkdir '$work/asked' && echo '$work/data/justin-1.h5' || exec sleep 600" && kill $pid &&
        until_true 60 grep -q '^stopping' "$work/said" && kill $pid && exits 75 wait $pid && [ ! -e "$work/given/justin-1.scores.h5.json" ] &&
        result 'exit=75 files=1 written=0 held=0 left=1'
}
ok "a run answers signals while an output is read for its sidecar; the second leaves that to the next run" deaf
shares () { grep -Eq -e ' --stage-bytes 1000( |$)' "$work/args"; }
ok "... --stage-bytes is for four producers together" shares
last () { BEARER_TOKEN=SECRET X509_USER_PROXY=SECRET slow --input "$work/data/justin-1.h5" && until_true 60 says 'sidecars of 1 outputs are still' && kill $pid && exits 75 wait $pid; }
ok "... also when nothing else is left to do" last
bare () { grep -q '^PATH=' "$work/reads" && ! grep SECRET "$work/reads" && [ "$(grep -c -- '->' "$work/fds")" -le 6 ] && ! grep socket: "$work/fds"; }
ok "what reads an output has no credentials, and its parent only its pipes" bare
flood () { : >"$work/flood" && slow --input "$work/data/justin-1.h5" && exits 1 wait $pid && says 'justin-1.scores.h5 cannot be read for its sidecar'; }
ok "... and is ended when it writes more than 16 MiB" flood
rm -f "$work/flood"
given () { keep "$bin/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --output "$work/given" --sidecars --input "$work/data/justin-1.h5"; }
thrice () { WM_FAILPOINT=sidecar-write:1 exits 75 given && says 'justin-1.scores.h5 was killed 3 times' && says 'type this to continue'; }
ok "the process that writes it is killed three times: exit code 75" thrice
read_thrice () { WM_FAILPOINT=facts-read:1 exits 75 given && says 'justin-1.scores.h5 for its sidecar ended by signal 9' && says 'type this to continue'; }
ok "... also where the process that reads the output is" read_thrice
read_again () { WM_FAILPOINT=facts-read:1:$work/read-once given && [ -e "$work/read-once" ] && [ -s "$work/given/justin-1.scores.h5.json" ] && rm "$work/given/justin-1.scores.h5.json"; }
ok "... which is started again" read_again
waits () { : >"$work/go" && slow --input "$work/data/justin-1.h5" && exits 0 wait $pid && [ -s "$work/given/justin-1.scores.h5.json" ]; }
ok "a run ends when its sidecars are written" waits

no () { refused 2 "$1" "$bin/wiremill" run --model "$made/stage.onnx" --output "$work/no" "${@:2}"; } # pattern, options...
twice () # one file by two names
{
    ln -s justin-1.h5 "$work/data/other.h5"
    keep "$bin/wiremill" run --model "$made/stage.onnx" "${one[@]}" --quiet --input "$work/data/justin-1.h5" --input "$work/data/other.h5" \
        --output "$work/twice" --processed-pfns "$work/twice.pfns" && result 'exit=0 files=2 written=2 held=0 left=0' &&
        diff <(printf "$work/data/%s.h5\n" justin-1 other) <(sort "$work/twice.pfns")
}
ok "a file that is given by two names is listed by both" twice
wrong ()
{
    echo words >"$work/data/words"
    no 'not both' --input a.h5 --files-from-command true && no 'goes with --files-from-command' --input a.h5 --files-ahead 1 &&
        no "goes with --files-from-command" --input a.h5 --processed-dids d && no 'goes with --sidecars' --input a.h5 --sidecar-metadata "$work/data/words" &&
        no 'no JSON object' --files-from-command true --sidecars --sidecar-metadata "$work/data/words" &&
        no 'cannot be written in /proc/nowhere' --files-from-command true --processed-pfns /proc/nowhere/list &&
        no 'nowhere/record' --files-from-command true --asked-files /proc/nowhere/record
}
ok "options that do not go" wrong
foreign () # text...: a file of it is refused, and left as it is
{
    printf "$1" >"$work/foreign" && cp "$work/foreign" "$work/before" &&
        refused "${foreign_code:-5}" 'is no record of files|is no list of files' "$bin/wiremill" run --model "$made/stage.onnx" --output "$work/no" \
            --files-from-command true --asked-files "$work/foreign" && cmp "$work/before" "$work/foreign"
}
foreigns () { foreign "$(printf '%03000d' 1)" && foreign_code=2 && foreign '\0\n' && foreign 'test:a /a.h5 -\na\0b\n'; foreign_code=$((5 * !$?)); [ $foreign_code = 5 ]; }
ok "a file that is no record of files is left as it is" foreigns
no_end () # ... of which a kill left a part; then the answer that it was of is there
{
    rm -f "$work"/foreign* && foreign 'mine' && says 'its last line has no end' && foreign 'test:a /a.h5 -\n/b.h5' || return 1
    offer </dev/null
    printf 'test:justin-1 %s' "$work/data/jus" >"$work/foreign" && echo "test:justin-1 $work/data/justin-1.h5 RSE" >"$work/foreign.next"
    run no_end --asked-files "$work/foreign" && result 'exit=0 files=1 written=1' && grep -qx "test:justin-1 $work/data/justin-1.h5 -" "$work/foreign"
}
ok "... also one whose last line has no end, unless it is a part of the last answer" no_end
answer_only ()
{
    rm -f "$work"/foreign* && echo mine >"$work/foreign.next"
    no_such () { [ ! -e "$work/foreign" ] && [ "$(cat "$work/foreign.next")" = mine ]; }
    refused 5 'foreign.next is there, but not' "$bin/wiremill" run --model "$made/stage.onnx" --output "$work/no" --files-from-command true \
        --asked-files "$work/foreign" && no_such
}
ok "... and a file with the name of its answer" answer_only

# A broker elsewhere; nobody scores at first.
offer "${all[@]}" </dev/null
"$bin/wiremill" broker --model "$made/stage.onnx" --output "$work/far" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
broker=$!
serves () { "$bin/wiremill" status --broker "ipc://$work/b"; }
until_true 60 serves || bail "no broker"
far () # options...; it is the process itself
{
    cd "$work" && exec "$bin/wiremill" produce --broker "ipc://$work/b" --quiet --files-from-command "$ask" --processed-pfns far.pfns \
        --processed-dids far.dids --sidecars "$@" >"$work/said" 2>&1
}
far &
producer=$!
announced () { "$bin/wiremill" status --broker "ipc://$work/b" --json | grep -Eq '"queued": [1-9]'; }
waits () { until_true 60 announced && sleep 0.5 && calls 1; }
ok "while nothing is scored no second file is asked for" waits
stopped () { kill $producer && exits 75 wait $producer && result 'exit=75 files=1 written=0 held=0 left=1 changed=0 asking=stopped'; }
ok "SIGTERM ends it with 75" stopped
far --files-ahead 1 &
producer=$!
ahead () { until_true 60 calls 2 && sleep 0.5 && calls 2; }
ok "the same command with --files-ahead 1 asks for one more" ahead
"$bin/wiremill" work --broker "ipc://$work/b" --threads 1 >"$work/worker" 2>&1 &
produced () { wait $producer && result 'exit=0 files=3 written=3' && same far "${all[@]}" && listed far "${all[@]}" && sidecars far "${all[@]}"; }
ok "produce: scores, lists and sidecars as those of run" produced
kill $broker && wait $broker

# ---- the jobscript ----
export WIREMILL=$bin/wiremill WIREMILL_MODEL=$made/stage.onnx JUSTIN_PROCESSORS=1
job () { (rm -rf "$work/job" && mkdir "$work/job" && cd "$work/job" && keep "$OLDPWD/ops/workflow/wiremill.jobscript" "$@"); }
jobscript ()
{
    offer justin-1 broken justin-3 </dev/null
    job && says '2 of 3 files are processed' && (cd "$work/job" && cmp scores/justin-1.scores.h5 justin-1.scores.h5 && [ -s justin-3.scores.h5.json ]) &&
        diff <(sort "$work/job/justin-processed-dids.txt") <(printf 'test:%s\n' justin-1 justin-3) && [ "$(wc -l <"$work/job/justin-processed-pfns.txt")" = 2 ]
}
ok "the jobscript leaves outputs, sidecars and lists in the workspace" jobscript
gone () { offer justin-1 <<<$'\nlose\nlose\nlose\nlose\nlose\nlose\nlose\nlose\nlose'; job && says '1 of 1 files are processed'; }
ok "justIN that does not answer any more after a file: what is done counts" gone
if [ "$(size 1 2 2)" = 2 ]; then
    bad () { offer broken </dev/null; job && says '0 of 1 files' && [ ! -s "$work/job/justin-processed-pfns.txt" ]; }
    ok "a job of bad files lists nothing" bad
fi
lacks ()
{
    offer </dev/null
    WIREMILL_MODEL=$work/absent exits 1 job && says 'absent. cannot be read' && WIREMILL=/no exits 1 job && says 'no program /no' &&
        JUSTIN_PATH='' exits 1 job && says 'JUSTIN_PATH is not set' && ! [ -e "$JUSTIN_FILES/calls" ]
}
ok "what the jobscript lacks is named before a file is taken" lacks
short () { [ "$(wc -l <ops/workflow/wiremill.jobscript)" -le 80 ] && { ! command -v shellcheck || shellcheck -S info ops/workflow/wiremill.jobscript; }; }
ok "the jobscript has 80 lines at most, and shellcheck finds nothing" short
done_testing
