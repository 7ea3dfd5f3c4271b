#!/bin/bash
# store.t - outputs that go to an xrootd server that stops, dies, is slow or full, loses bytes, or has other files than before.
cd "$(dirname "$0")/../.." || exit 1
. tests/fault/xrootd.sh tests/fault/store.t
shopt -s nullglob
mkdir -m 777 "$work/data/out" && mkdir "$work/tools"
plain=("$bin/wiremill" run --model "$made/stage.onnx" --workers 1 --threads 1)
"${plain[@]}" --quiet --output "$work/local" --input "$made/stage-?.h5" >"$work/output" 2>&1 || { cat "$work/output"; bail "wiremill run does not work"; }
python3 tests/fault/elsewhere.py slow $((port + 1)) "$port" 20000 &
at=root://127.0.0.1:$port//data/out crawl=root://127.0.0.1:$((port + 1))//data/out

# Every copy to the server is a line of $work/sent; one of a file named in $work/flip loses a bit on its way, once.
# Where $work/none is, one copy from the server finds no program; where $work/revoke is, nothing can be written in the folder that it names;
# while $work/hold is, the file that it names is not copied; where $work/expired is, copies have no credentials.
cat >"$work/tools/xrdcp" <<EOF
#!/bin/bash
case "\${@: -2:1}" in *://*) [ ! -e "$work/none" ] || { rm "$work/none"; echo "xrdcp: No such file or directory"; exit 127; }; exec $(command -v xrdcp) "\$@" ;; esac
while grep -qsx "\$(basename "\${@: -2:1}")" "$work/hold"; do sleep 0.05; done
echo "\${@: -2:1}" >>"$work/sent"
[ ! -e "$work/expired" ] || export XrdSecSSSKT=$work/none.keytab
[ ! -e "$work/revoke" ] || chmod 555 "\$(cat "$work/revoke")"
if grep -qsx "\$(basename "\${@: -2:1}")" "$work/flip"; then
    rm "$work/flip" && perl -0777 -pe 'substr (\$_, 999, 1) ^= "\\x04"' "\${@: -2:1}" >"$work/flipped"
    exec $(command -v xrdcp) "\${@:1:\$# - 2}" "$work/flipped" "\${@: -1}"
fi
exec $(command -v xrdcp) "\$@"
EOF
# Where $work/old is, the list of the outputs is one of before they were written; where $work/away is, the server does not answer.
cat >"$work/tools/xrdfs" <<EOF
#!/bin/bash
[ ! -e "$work/away" ] || { echo "[FATAL] Connection error" >&2; exit 51; }
[ "\$2" = ls ] && [ -e "$work/old" ] && exec rm "$work/old"
exec $(command -v xrdfs) "\$@"
EOF
chmod 755 "$work"/tools/* && export PATH=$work/tools:$PATH
more () { [ "$(size 0 1 1)" = 0 ] || ok "$@"; } # a test that `make test` leaves out
cd "$work" || exit 1 # campaigns of outputs elsewhere lie here
inputs () { local n; for n; do echo "--input=$made/stage-$n.h5"; done; } # names
run () # folder there, options...
{
    local to=$1
    shift
    : >sent
    keep timeout 60 "${plain[@]}" --quiet --output "$at/$to" "$@"
}
quick () { WM_TIME_SCALE=200 XRD_CONNECTIONRETRY=1 XRD_CONNECTIONWINDOW=1 run "$@"; }
sent () { [ "$(wc -l <sent)" = "$1" ] || { echo "$(wc -l <sent) copies were sent, wanted $1:"; cat sent; return 1; }; }
sent_at_least () { [ "$(wc -l <sent)" -ge "$1" ] || sent "$1"; } # a server may know a file's old checksum for another second
json= # what else may be there
same () # folder there, names...: what lies there are the bytes of a local run, and nothing else lies there or here
{
    local to=$1 n
    shift
    rm -rf "got-$to" "got-$to$beside" && cp -r "data/out/$to" "got-$to" && ln -s "$to$beside" "got-$to$beside" || return 1
    for n; do same_scores "stage-$n" local "got-$to" || return 1; done
    ! ls "data/out/$to" | grep -v "^stage-[a-c].scores.h5$json\$" && ! find "$to$beside/staged" -type f 2>/dev/null | grep .
}

all () { run all $(inputs a b c) && same all a b c && sent 3 && says "output  *$at/all" && ! grep -r got all; }
ok "outputs to xrootd: the bytes of a local run, none is left here" all
again () { run all $(inputs a b c) && says 'nothing was left to do' && sent 0; }
more "the same command again copies nothing" again
asked ()
{
    keep "$bin/wiremill" status "$at/all" && says 'finished' && keep "$bin/wiremill" held "$at/all" &&
        keep "$bin/wiremill" why -c "$at/all" stage-a.h5 && says "$at/all/stage-a.scores.h5 has its hits"
}
more "status, held and why find the campaign by the URL, in the folder where it was begun" asked
verify ()
{
    refused 1 'the outputs lie on a server; copy them' "$bin/wiremill" verify "$at/all" && mkdir copies &&
        xrdcp --nopbar --recursive "$at/all" copies/ && keep "$bin/wiremill" verify "$at/all" --output copies/all --sample 5 &&
        says 'every digest is as it was written' && printf x >>copies/all/stage-a.scores.h5 &&
        exits 1 keep "$bin/wiremill" verify "$at/all" --output copies/all --sample 5 && says 'stage-a.scores.h5 has .* bytes, it was written with'
}
more "verify says how to copy the outputs, and compares the copies" verify
rebuild () { keep "$bin/wiremill" rebuild --dry-run "$at/all" && says 'which are not read'; }
more "rebuild leaves them out" rebuild

listed () { : >old && run all $(inputs a b c) && [ ! -e old ] && says 'nothing was left to do' && sent 0; }
more "... also where another producer stored them after they were listed" listed
lost () { rm -f data/out/all/stage-b.scores.h5 && run all $(inputs a b c) && says 'stage-b.scores.h5 is gone: made again' && sent 1 && same all a b c; }
more "an output that is gone there is made again, that one only" lost
changed ()
{
    local n=data/out/all/stage-c.scores.h5
    printf more >>$n && exits 3 run all $(inputs a b c) && sent 0 && says 'stage-c.scores.h5 was changed since it was written: it stays' &&
        run all $(inputs a b c) --retry-held && sent 1 && [ "$(tail -c 4 $n.changed-1)" = more ] && rm -f $n.changed-1 && same all a b c
}
more "one that somebody changed there stays; --retry-held keeps it as NAME.changed-1" changed
kept () # at the first step on the server, and after what was changed has another name
{
    local n=data/out/all/stage-c.scores.h5 point
    for point in stager-store producer-moved; do
        printf more >>$n && touch -d 2001-01-01 $n # its checksum is not the one that the server knows
        WM_FAILPOINT=$point:1:$work/$point.kept run all $(inputs a b c) --retry-held && [ -e "$point.kept" ] &&
            [ "$(tail -c 4 $n.changed-1)" = more ] && rm -f $n.changed-1 && same all a b c || return 1
    done
}
more "... and keeps it where the producer is killed" kept
foreign ()
{
    mkdir -m 777 data/out/foreign && cp data/out/all/stage-a.scores.h5 data/out/foreign && chmod 666 data/out/foreign/*
    exits 5 run foreign $(inputs a) && says 'foreign/stage-a.scores.h5 is in the way: it was not written by this campaign' &&
        cmp data/out/all/stage-a.scores.h5 data/out/foreign/stage-a.scores.h5
}
ok "a file of another campaign is not touched" foreign
unseen () { : >none && exits 5 run foreign $(inputs a) && [ ! -e none ] && says 'foreign/stage-a.scores.h5 is in the way' && sent 0; }
more "... also where the program that shows it is missing for a moment" unseen
flipped () { echo stage-a.scores.h5 >flip && run flipped $(inputs a c) && sent_at_least 3 && same flipped a c; }
more "a copy that loses a bit on its way never gets the name" flipped

# Sidecars go the same way, after their outputs.
with_sidecars () { local json='\(.json\)\?'; "$@"; }
true_sidecars () # folder there, names...
{
    python3 - "data/out/$1" "${@:2}" <<'PY'
import json, os, sys, zlib
have = sorted(n for n in os.listdir(sys.argv[1]) if n.endswith(".json"))
assert have == sorted(f"stage-{n}.scores.h5.json" for n in sys.argv[2:]), have
for name in have:
    s, data = json.load(open(f"{sys.argv[1]}/{name}")), open(f"{sys.argv[1]}/{name[:-5]}", "rb").read()
    assert s["name"] == name[:-5] and s["size"] == len(data) and s["parents"] == [], s
    assert s["checksums"] == {"adler32": "%08x" % zlib.adler32(data)} and s["metadata"]["core.event_count"] > 0, s
PY
}
sided () { run sided $(inputs a b) --sidecars && same sided a b && true_sidecars sided a b && sent 4; }
ok "sidecars are written beside outputs on the server, and are true" with_sidecars sided
sided_again ()
{
    run sided $(inputs a b) --sidecars && says 'nothing was left to do' && sent 0 || return 1
    rm -f data/out/sided/stage-a.scores.h5.json && run sided $(inputs a b) --sidecars && sent 1 && same sided a b && true_sidecars sided a b &&
        run all $(inputs a b c) --sidecars && sent 3 && same all a b c && true_sidecars all a b c && rm -f data/out/all/*.json
}
more "... made up for where one is gone, or outputs were written without" with_sidecars sided_again
sided_died () # before, at and after its name
{
    local k
    for k in stager-store:2 stager-sent:2 stager-named:1 stager-named:2 stager-stored:1 sidecar-write:1 sidecar-written:1; do
        WM_FAILPOINT=$k:$work/died.$k run "died-$k" $(inputs a) --sidecars
        run "died-$k" $(inputs a) --sidecars && [ -e "died.$k" ] && same "died-$k" a && true_sidecars "died-$k" a || { echo "at $k"; return 1; }
    done
}
more "... also after a kill between output and sidecar" with_sidecars sided_died
sided_late () # their process stands while the producer dies, and the next one makes the outputs again
{
    local status run fork
    WM_FAILPOINT=sidecar-write:1:$work/late.stop run late $(inputs a b) --sidecars &
    status=$!
    until_true 60 test -e late.stop && run=$(pgrep -d, -f "^[^ ]*wiremill run.*out/late") && fork=$(pgrep -x wm-sidecars -P "$run") || return 1
    until_true 60 test "$(echo late$beside/staged/*/out/stage-?.scores.h5 | wc -w)" = 2
    : >away && pkill -KILL -x wiremill-produc -P "$run" && until_true 60 grep -q 'starting it again' said && rm -f late$beside/staged/*/out/*.h5
    kill -CONT $fork && until_true 60 eval '! kill -0 $fork' && rm -f away
    wait $status && same late a b && true_sidecars late a b
}
more "... also where the producer is killed before its process reads them" with_sidecars sided_late

# A copy on its way, through a slow link.
start () # folder there, inputs...: $pid
{
    local to=$1
    shift
    : >sent
    "${plain[@]}" --quiet --output "$crawl/$to" "$@" >"$to.words" 2>&1 &
    pid=$!
    part=data/out/$to/*.part
    until_true 120 half || { cat "$to.words" "$to$beside"/log/*; return 1; }
}
half () { [ -s "$(echo $part)" ]; } # shellcheck disable=SC2086
stands () { local bytes; bytes=$(stat -c %s $part) && sleep 0.2 && [ "$(stat -c %s $part)" = "$bytes" ]; } # shellcheck disable=SC2086
gone () { ! kill -0 $pid; }
ends () { until_true 120 gone && exits "$1" wait $pid || { cat ./*.words; return 1; }; } # exit code
stopped () { start stopped $(inputs a) && kill -STOP $server && until_true 60 stands && kill -CONT $server && ends 0 && same stopped a; }
more "the server is stopped in mid-copy and goes on" stopped
cleaned () # the folder of outputs on their way
{
    start cleaned $(inputs a) && kill -9 $server && wait $server
    until_true 120 grep -q 'outputs cannot be copied to .*; scores are kept' cleaned.words || { cat cleaned.words; server; return 1; }
    rm cleaned.wiremill/staged/*/out/*.scores.h5 && server && ends 0 && same cleaned a
}
more "an output that vanishes here before the server has it is written again" cleaned
killed ()
{
    start killed $(inputs a c) && kill -9 $server && wait $server
    until_true 120 grep -q 'outputs cannot be copied to .*; scores are kept' killed.words || { cat killed.words; server; return 1; }
    keep "$bin/wiremill" status killed.wiremill && says 'takes no outputs' || return 1
    server && ends 0 && same killed a c && grep -q 'are copied to .* again' killed.words && ! grep 'input held' killed.words
}
ok "the server is killed in mid-copy: no input is held, status has the reason, and all goes on when it is back" killed
resumed ()
{
    start resumed $(inputs a c) && kill -9 $pid && ends 137 || return 1
    : >sent
    keep timeout 60 "${plain[@]}" --quiet --output "$crawl/resumed" $(inputs a c) && same resumed a c
}
more "run is killed in mid-copy: the same command goes on" resumed

# Each point of the process that copies kills it. What was sent before is not sent again.
points=($(grep -ohE '"stager-[a-z]+"' "$OLDPWD/producer/staging/wm_stage_store.c" | tr -d '"' | sort -u))
for point in "${points[@]}"; do
    died ()
    {
        WM_FAILPOINT=$point:1:$work/$point.died run "at-$point" $(inputs a) && [ -e "$point.died" ] && says 'starting it again' &&
            sent 1 && same "at-$point" a
    }
    [ "$point" = stager-cleared ] || more "killed at $point: run starts it again, and no output is copied twice" died
done

replaced () # ... also between the removal of the old output and the new one's name
{
    cp "$made/stage-c.h5" stage-c.h5 && run replaced --input stage-c.h5 && touch -d 2001-01-01 stage-c.h5 && exits 3 run replaced --input stage-c.h5 &&
        WM_FAILPOINT=stager-cleared:1:$work/cleared.died run replaced --input stage-c.h5 --retry-held && [ -e cleared.died ] &&
        sent 1 && same replaced c
}
more "an input that changed: its output there is replaced, once" replaced
whole () # ... by a copy that is whole
{
    touch -d 2002-02-02 stage-c.h5 && exits 3 run replaced --input stage-c.h5 && echo stage-c.scores.h5 >flip &&
        run replaced --input stage-c.h5 --retry-held && [ ! -e flip ] && sent_at_least 2 && same replaced c
}
more "... by a copy that is whole, where the first one loses a bit" whole

kicked () # while its output is copied; after that, by the same producer and by another one
{
    start kicked $(inputs a c) && keep "$bin/wiremill" kick kicked.wiremill "$made/stage-a.h5" && says '^kicked ' && ends 0 && same kicked a c || return 1
    : >sent && echo stage-b.scores.h5 >hold
    "${plain[@]}" --quiet --output "$at/twice" $(inputs b c) >twice.words 2>&1 &
    pid=$!
    until_true 120 written twice c && keep "$bin/wiremill" kick twice.wiremill "$made/stage-c.h5" &&
        until_true 120 written twice c && rm hold && ends 0 && same twice b c && sent 2 || { rm -f hold; return 1; }
    "$bin/wiremill" broker --model "$made/stage.onnx" --output "$at/twice" --listen "ipc://$work/k" >kicked.broker 2>&1 &
    local broker=$! code
    until_true 120 [ -e twice.wiremill/endpoint.json ] && keep "$bin/wiremill" kick twice.wiremill "$made/stage-c.h5" &&
        { timeout 60 "$bin/wiremill" work twice.wiremill --threads 1 >work.words 2>&1 & } && : >sent && # another command is in the output
        keep timeout 60 "$bin/wiremill" produce -q --broker "ipc://$work/k" $(inputs b c) --output "$at/twice" --scratch spool && same twice b c && sent 1
    code=$?
    kill $broker
    return $code
}
written () { "$bin/wiremill" why -c "$1.wiremill" "$made/stage-$2.h5" 2>&1 | grep "stage-$2.scores.h5 has its hits"; } # campaign, name
more "kick scores an input again; its output there is replaced, by a copy where it differs" kicked
revoked () # the right to write there ends after the campaign's beginning
{
    local to=data/out/revoked
    mkdir -m 777 $to && echo $to >revoke && exits 1 run revoked $(inputs a) && rm -f revoke &&
        says "the server refuses $at/revoked/stage-a.scores.h5: xrdcp: .*ermission denied.* \(tried 5 times in .*the same command goes on" || return 1
    keep "$bin/wiremill" status revoked.wiremill && chmod 777 $to && run revoked $(inputs a) && says 'nothing was left to do' && sent 1 && same revoked a
}
ok "a server that refuses for good ends the command, which goes on when that is put right" revoked
expired () # credentials, on a server that wants a key
{
    local code first=$server
    xrdsssadmin -k key -u nobody -g nogroup add server.keytab </dev/null && cp server.keytab own.keytab && chmod 600 ./*.keytab || return 1
    [ "$(id -u)" != 0 ] || chown nobody server.keytab
    sed -i.plain "s/^xrd.port.*/xrd.port $((port + 2))/" xrootd.cfg && mkdir -m 777 admin2 && sed -i 's#/admin$#/admin2#' xrootd.cfg
    printf 'xrootd.seclib libXrdSec.so\nsec.protocol sss -s %s\n' "$work/server.keytab" >>xrootd.cfg
    export XrdSecSSSKT=$work/own.keytab
    port=$((port + 2)) server
    : >expired
    at=root://127.0.0.1:$((port + 2))//data/out exits 1 run expired $(inputs a) && rm expired &&
        says 'the server refuses root:.*/expired/stage-a.scores.h5: xrdcp: .*Auth failed: .* \(tried 5 times' &&
        at=root://127.0.0.1:$((port + 2))//data/out run expired $(inputs a) && says 'nothing was left to do' && sent 1 && same expired a
    code=$?
    kill $server
    unset XrdSecSSSKT
    rm -f expired
    server=$first
    mv xrootd.cfg.plain xrootd.cfg
    return $code
}
if command -v xrdsssadmin >/dev/null; then
    more "... also where its credentials expired" expired
else
    skip "xrdsssadmin is not installed"
fi
ok "--sidecars of the inner program needs who writes them" refused 2 'needs --output and --tell' "$bin/wiremill-producer" produce --sidecars \
    --broker ipc:///x --input-list /dev/null

full () # the disk there
{
    mkdir -m 777 data/out/full && mount -t tmpfs -o size=16k,mode=777 none data/out/full || return 1
    : >sent
    "${plain[@]}" --quiet --output "$at/full" $(inputs a) >full.words 2>&1 &
    pid=$!
    until_true 120 grep -q 'outputs cannot be copied to .*o space' full.words && mount -o remount,size=1m data/out/full && ends 0 && same full a
    local code=$?
    umount data/out/full
    return $code
}
if [ "$(id -u)" = 0 ] && mkdir tried && mount -t tmpfs none tried 2>/dev/null && umount tried; then
    more "a disk that is full there: it waits for room" full
else
    skip "a tmpfs can be mounted by root only"
fi

# The server goes away between two files of a command.
cat >next <<EOF
mkdir first 2>/dev/null && exec echo "$made/stage-a.h5"
mkdir second 2>/dev/null && >away && echo "$made/stage-c.h5"
EOF
away ()
{
    "${plain[@]}" --quiet --output "$at/away" --files-from-command 'sh next; true' >away.words 2>&1 &
    pid=$!
    again () { [ "$(grep -c "server does not answer producer.*; starting it again in .* s, its inputs wait" away.words)" -ge 2 ]; }
    until_true 120 again || { cat away.words; return 1; }
    rm away && ends 0 && same away a c && grep -q '^wiremill-result exit=0 files=2 written=2' away.words
}
ok "the server is away when a second producer begins: it is started again until the server is back" away

# ---- what is refused at once ----
farm () # a producer elsewhere must be told where the outputs go, before it can ask
{
    : >sent
    "$bin/wiremill" broker --model "$made/stage.onnx" --output "$at/farm" --listen "ipc://$work/b" >farm.words 2>&1 &
    local broker=$!
    until_true 120 [ -e farm.wiremill/endpoint.json ] || { cat farm.words; return 1; }
    refused 5 "outputs go to $at/farm: give the producer --output with that" "$bin/wiremill" produce -q --broker "ipc://$work/b" $(inputs c) &&
        refused 2 'no effect with --broker: wiremill broker was given it' "$bin/wiremill" run -q --broker "ipc://$work/b" --output here $(inputs c) &&
        { timeout 60 "$bin/wiremill" work farm.wiremill --threads 1 >work.words 2>&1 & } &&
        keep timeout 60 "$bin/wiremill" produce -q --broker "ipc://$work/b" $(inputs c) --output "$at/farm" --scratch spool --sidecars && sent 2 &&
        with_sidecars same farm c && true_sidecars farm c
    local code=$?
    kill $broker
    return $code
}
more "a farm's producer needs the same --output, which is no folder of its machine" farm
mkdir few && for p in cat grep timeout; do ln -s "$(command -v $p)" "few/$p"; done
no () { refused "$1" "$2" "${plain[@]}" $(inputs a) --output "$3" && [ ! -e x.wiremill ]; } # exit code, pattern, URL
ok "a folder of an HTTP server is refused" no 2 'copied to root:// folders only' https://host/x
ok "... a URL without a folder" no 2 'is no URL of a folder' root://host//
ok "... one with a token" no 2 'give it by BEARER_TOKEN_FILE' 'root://host//x?authz=SECRET'
bare () { PATH=$work/few no 1 'needs xrdcp and xrdfs' root://host//x; }
ok "... and one that no program here copies to" bare
denied () { mkdir -m 555 data/out/denied && exits 1 quick denied/x $(inputs a) && says "folder $at/denied/x cannot be used: xrdfs: .*" && sent 0; }
more "a folder that may not be written is refused before anything is scored" denied
{ kill -9 $server && wait $server; } 2>/dev/null
dead () { exits 75 quick dead $(inputs a) && says 'dead cannot be used: xrdfs' && says 'what was done is kept; type this to continue' && sent 0; }
more "a dead server is reported after a bounded time" dead
done_testing
