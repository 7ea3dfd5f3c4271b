#!/bin/bash
# accounts.t - what is known of a campaign's files and hits is the same wherever it is asked for.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out
mkdir "$work/data" && cp "$made/one.h5" "$made/two.h5" "$work/data" && cd "$work" || bail "no files"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input 'data/*.h5' --output "$out")

# ---- where an output comes from ---------------------------------------------------------------------------------
ok "a campaign of two files" "${run[@]}"
attribute () { perl -0777 -ne 'print unpack ("A*", substr $_, pos, unpack "V", $1) if /\0'"$2"'\0+\x13...(.{4}).{8}/gs' "$1"; } # file, name
named ()
{
    local score=$out/one.scores.h5 mtime
    mtime=$(date -u -r data/one.h5 +%Y-%m-%dT%H:%M:%SZ)
    [ "$(attribute "$score" input_given)" = data/one.h5 ] && [ "$(attribute "$score" input)" = "$work/data/one.h5" ] &&
        [ "$(attribute "$score" input_mtime)" = "$mtime" ] &&
        [ "$(attribute "$score" campaign_folder)" = "$out$beside" ] &&
        attribute "$score" command | grep -F "cd $work && $bin/wiremill run --model $made/model-${small}1.wmm"
}
ok "an output names its input as it was typed, its real path and time, and the campaign's folder and command" named

# ---- files, and inputs by any name ------------------------------------------------------------------------------
files () # endpoint or folder, as status takes it
{
    keep "$bin/wiremill" status --files "$@" && says "^INPUT +OUTPUT +STATE +ROWS +HELD ROWS$" &&
        says "^$work/data/one.h5 +one.scores.h5 +written +[0-9]+ +0$" &&
        says "^$work/data/two.h5 +two.scores.h5 +written +[0-9]+ +0$" &&
        [ "$(wc -l <"$work/said")" = 3 ] && keep "$bin/wiremill" status --files --json "$@" &&
        says '"wiremill-files-1"' &&
        says "\"path\":\"$work/data/two.h5\",\"output\":\"two.scores.h5\",\"state\":\"written\""
}
narrow () # in a terminal of 80 columns, names lose their beginning
{
    mkdir -p "$work/$(printf 'long%.0s' {1..30})" && cp data/one.h5 "$work"/long*/ &&
        "${run[@]}" --input "$work/long*/one.h5" --output "$work/long" >/dev/null 2>&1 &&
        script -qec "stty cols 80; '$bin/wiremill' status --files '$work/long'" /dev/null </dev/null |
        tr -d '\r' >"$work/said" &&
        says "^\.\.\.[a-z/]*long/one.h5 " && ! grep -E '.{81}' "$work/said"
}
ok "status --files lists inputs, outputs and hits; in JSON too" files "$out"
ok "... in 80 columns" narrow
names ()
{
    local name
    for name in data/two.h5 ./data/two.h5 "$work/data/two.h5" two.scores.h5 out/two.scores.h5 2; do
        keep "$bin/wiremill" why "$@" "$name" &&
            says "^written: $work/data/two.h5: $out/two.scores.h5 has its hits: [0-9,]+ scored, 0 held$" || return 1
    done
    cd / && for name in two.h5 data/two.h5; do
        keep "$bin/wiremill" why "$@" "$name" && says "^written: $work/data/two.h5: " || return 1
    done
}
ok "why finds an input by any of its names" names --campaign "$out"
none ()
{
    exits 1 keep "$bin/wiremill" why "$out" three.h5 &&
        says "no input or output of this campaign is called 'three.h5'; .wiremill status --files .*out.wiremill. lists them"
}
ok "... and tells where there is none" none
several ()
{
    cd / && exits 1 keep "$bin/wiremill" why "$work/long" one.h5 && says "'one.h5' is the name of several inputs" &&
        says "^  1  $work/data/one.h5$" && says "^  3  $work/long.*/one.h5$"
}
ok "... or several" several
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "ipc://$work/b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
ok "a broker that runs answers the same" files --broker "ipc://$work/b"
ok "... and why" names --campaign "$out"
long ()
{
    exits 5 keep "$bin/wiremill" why --campaign "$out" "$(printf 'x%.0s' {1..3000})" &&
        says "too long a name; give the input's number"
}
ok "a name that no message holds is refused" long
kill $broker
wait $broker

# ---- one account of hits ----------------------------------------------------------------------------------------
cd "$work" || bail "no folder"
patches () # count, patches that are zero, first value of the first patch as 32 bits: a .npy of the model's patches
{
    perl -e 'my ($side, $n, $zero, $first) = @ARGV; my $h = "{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: ($n, $side, $side), }";
        print "\x93NUMPY\1\0", pack ("v", 118), $h, " " x (117 - length $h), "\n";
        for my $i (0 .. $n - 1) { print pack ("V", $i ? 0 : hex $first), pack ("f<*", map { $i >= $n - $zero ? 0 : $_ % 7 / 7 } 1 .. $side ** 2 - 1) }' "$([ "$small" ] && echo 16 || echo 48)" "$@"
}
mkdir mixed && patches 20 0 7fc00000 >mixed/nan.npy && patches 20 3 3f800000 >mixed/zero.npy &&
    patches 0 0 0 >mixed/none.npy &&
    patches 20 0 3f800000 >mixed/good.npy && head -c 3000 mixed/good.npy >mixed/torn.npy || bail "no patches"
mixed=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input 'mixed/*.npy' --output "$work/m")
held="^held: 1 hit of $work/mixed/nan.npy: 1 bad pixel; named in the table \"held\" of $work/m/nan.scores.h5$"
hits='59 scored \(3 of them with an empty patch\), 1 held'
first ()
{
    exits 3 keep "${mixed[@]}" && says "^  hits +$hits$" && says "$held" && says "^held: $work/mixed/torn.npy: " &&
        ! says 'nothing was'
}
ok "the summary of a run tells which file has held hits, and why" first
same () # arguments of status and held
{
    local verb
    for verb in status held; do
        keep "$bin/wiremill" $verb "$@" && says "^hits: $hits$" && says "$held" &&
            says "^held: $work/mixed/torn.npy: " || return 1
        keep "$bin/wiremill" $verb --json "$@" && says '"empty": 3' && says '"bad pixel": 1' && says '"held": 1' ||
            return 1
    done
    keep "$bin/wiremill" why "$@" && says "$held" && says 'nothing is left to do but what is held'
}
ok "status, held and why have the same account" same "$work/m"
its () { keep "$bin/wiremill" why "$work/m" nan.npy && says "has its hits: 19 scored, 1 held$" && says "$held"; }
ok "why of that file too" its
again () { exits 3 keep "${mixed[@]}" && says "^  hits +$hits$" && says "nothing was scored: --retry-held scores what is held or changed" && says "$held" &&
    says "input held: $work/mixed/torn.npy: [^/]*$"; }
ok "a run with nothing else to do does not call it done" again
lost () { rm "$work"/m$beside/ledger.db* && "$bin/wiremill" rebuild "$work/m" && same "$work/m"; }
ok "a ledger that is made again from the journal too" lost
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/m" --listen "ipc://$work/m.b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$work/m$beside/endpoint.json"
ok "a broker that serves the campaign again has the same account" same --campaign "$work/m"
ok "... by its address, too" same --broker "ipc://$work/m.b"
elsewhere ()
{
    sed -E -i.ours 's/("campaign": *")[0-9a-f]{32}/\1'"$(printf '0%.0s' {1..32})/" m$beside/endpoint.json && ! cmp -s m$beside/endpoint.json m$beside/endpoint.json.ours &&
        keep "$bin/wiremill" held --broker "ipc://$work/m.b" && mv m$beside/endpoint.json.ours m$beside/endpoint.json &&
        says "^held: 1 hit of $work/mixed/nan.npy; named in"
}
ok "... whose files of the same name here are another campaign's: all but the reasons" elsewhere
unread ()
{
    mv m/nan.scores.h5 aside && keep "$bin/wiremill" held --campaign "$work/m" &&
        says "^held: 1 hit of $work/mixed/nan.npy; named in" && mv aside m/nan.scores.h5
}
ok "... where the output cannot be read, all but the reasons" unread
open_again ()
{
    "$bin/wiremill" kick --campaign "$work/m" mixed/good.npy && keep "$bin/wiremill" status --campaign "$work/m" &&
        says "^hits: 39 scored" && ! says ' 100.0% ' &&
        says "files: 3 written, 1 open, 1 held of 5"
}
ok "DONE after a kick counts what is open" open_again
kill $broker
wait $broker
offline () { keep "$bin/wiremill" status "$work/m" && says "^hits: 39 scored" && ! says ' 100.0% '; }
ok "... with no broker running too" offline
mended ()
{
    patches 20 0 3f800000 >mixed/nan.npy && cp mixed/good.npy mixed/torn.npy &&
        exits 0 keep "${mixed[@]}" --retry-held && says "^  hits +80 scored .3 of them with an empty patch., 0 held$"
}
ok "once the files are mended, --retry-held scores all" mended
clean ()
{
    keep "$bin/wiremill" held "$work/m" && says "^nothing is held$" &&
        says "^hits: 80 scored .3 of them with an empty patch., 0 held$" && exits 0 keep "${mixed[@]}" &&
        says "nothing was left to do"
}
ok "then nothing is held" clean

# ---- outputs that were touched or changed -----------------------------------------------------------------------
score=$work/m/good.scores.h5
touched ()
{
    touch -d 2001-02-03 "$score" && cp -p "$score" "$work/touched" && keep "$bin/wiremill" status "$work/m" &&
        says "^m +finished" && says "5 written, 0 open" &&
        exits 0 keep "${mixed[@]}" && says "nothing was left to do" && ! says "warning" &&
        cmp "$score" "$work/touched" && [ ! -e "$score.changed-1" ]
}
ok "an output that was only touched is as it was written" touched
same_size () # the digest tells, not the size
{
    printf x | dd of="$score" bs=1 seek=$(($(stat -c %s "$score") - 1)) conv=notrunc 2>/dev/null &&
        keep "$bin/wiremill" status "$work/m" && says "^m +finished" &&
        says "^changed: $work/mixed/good.npy: its output $score was changed since it was written; --retry-held keeps it as good.scores.h5.changed-1 and writes it again$" &&
        says "^hits: 80 scored" && says "0 open, 0 held of 5; 1 changed$" &&
        ! grep -E '^(CLASS|x86).{76}' "$work/said" && exits 3 keep "${mixed[@]}" && says "output $score was changed since it was written: it stays as it is" && says "nothing was scored: --retry-held"
}
ok "one with another byte has changed; status and run agree" same_size
retried ()
{
    exits 0 keep "${mixed[@]}" --retry-held && says "kept as $score.changed-1" && keep "$bin/wiremill" held "$work/m" &&
        says "^nothing is held$"
}
ok "--retry-held writes it again, and then nothing is held" retried

extra () { exits 2 keep "$bin/wiremill" status "$work/m" one && says "'one' is one argument too many"; }
ok "an argument that a verb would not read is refused" extra
# ---- a colleague, who may read and not write --------------------------------------------------------------------
colleague=(setpriv --reuid=65534 --regid=65534 --clear-groups)
chmod 711 "$work" && mkdir -m 1777 "$work/tmp"
if [ "$(id -u)" = 0 ] && "${colleague[@]}" "$bin/wiremill" --version >/dev/null 2>&1; then
    before=$(find "$work/m" -newer "$work/m" -o -name 'ledger*' -exec cksum {} + | sort)
    looks () # what the owner sees; nothing is left of the copy
    {
        local verb
        for verb in status held why "status --files"; do
            # shellcheck disable=SC2086 # a verb and its option
            keep "$bin/wiremill" $verb "$work/m" && cp "$work/said" "$work/owner" &&
                keep "${colleague[@]}" env TMPDIR="$work/tmp" "$bin/wiremill" $verb "$work/m" &&
                cmp "$work/owner" "$work/said" && [ -z "$(ls "$work/tmp")" ] || return 1
        done
        [ "$before" = "$(find "$work/m" -newer "$work/m" -o -name 'ledger*' -exec cksum {} + | sort)" ]
    }
    ok "a colleague who may not write sees the same, and changes nothing" looks
    full ()
    {
        exits 1 keep "${colleague[@]}" env TMPDIR=/proc/nowhere "$bin/wiremill" status "$work/m" &&
            says "no folder can be made in /proc/nowhere: No such file or directory; set TMPDIR to a folder where this user may write$"
    }
    ok "... where there is no room for a copy, that is named" full
    chmod 600 "$work/m$beside/ledger.db"
    closed ()
    {
        exits 5 keep "${colleague[@]}" env TMPDIR="$work/tmp" "$bin/wiremill" status "$work/m" &&
            says "ledger.db cannot be read: .*; ask its owner to allow it" && [ -z "$(ls "$work/tmp")" ]
    }
    ok "... and a ledger that may not be read" closed
    chmod 644 "$work/m$beside/ledger.db"
    cp "$work/m$beside/ledger.db" ledger &&
        dd if=/dev/urandom of="$work/m$beside/ledger.db" bs=512 count=8 conv=notrunc 2>/dev/null
    broken ()
    {
        exits 5 keep "${colleague[@]}" env TMPDIR="$work/tmp" "$bin/wiremill" status "$work/m" &&
            says "the ledger in $work/m$beside is damaged; ask its owner to run .wiremill rebuild" &&
            [ -z "$(ls "$work/tmp")" ]
    }
    ok "... and one that is damaged" broken
    cp ledger "$work/m$beside/ledger.db"
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/m" --listen "ipc://$work/c.b" 2>/dev/null &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$work/m$beside/endpoint.json"
    socket ()
    {
        exits 5 keep "${colleague[@]}" "$bin/wiremill" status "$work/m" &&
            says "a broker runs, but you may not connect to its socket $work/c.b.o; ask its owner to allow it" &&
            exits 5 keep "${colleague[@]}" "$bin/wiremill" status --files "$work/m" && says "you may not connect"
    }
    ok "while a broker runs, status names the socket that its owner must open to a colleague" socket
    asks ()
    {
        chmod o+w "$work/c.b.o" && keep "${colleague[@]}" "$bin/wiremill" status "$work/m" && says "^hits: 80 scored"
    }
    ok "... and answers the colleague once it is open" asks
    kill $broker
    wait $broker
    # The same for a group, where others may read nothing.
    group=$(getent group 65534 | cut -d: -f1)
    grouped ()
    {
        (umask 077 && "$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$work/mixed/good.npy" \
            --output "$work/g" --group "$group") &&
            [ "$(stat -c %a:%g "$work/g/good.scores.h5" "$work/g$beside/ledger.db" | sort -u)" = 640:65534 ] &&
            keep "${colleague[@]}" env TMPDIR="$work/tmp" "$bin/wiremill" status "$work/g" && says "^g +finished" &&
            ! setpriv --reuid=65534 --regid=65533 --clear-groups "$bin/wiremill" status "$work/g"
    }
    ok "--group lets a group read campaign and outputs, and nobody else" grouped
else
    skip "needs root and setpriv, to look as another user"
fi
no_group ()
{
    exits 2 keep "${mixed[@]}" --group no-such-group && says "group no-such-group: this machine has no such group"
}
ok "a group that is not there is refused by name" no_group
done_testing
