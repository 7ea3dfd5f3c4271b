#!/bin/bash
# accounts.t - what is known of a campaign's files and hits is the same wherever it is asked for.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model 1 && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out
mkdir "$work/data" && cp "$made/one.h5" "$made/two.h5" "$work/data" && cd "$work" || bail "no files"
run=("$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input 'data/*.h5' --output "$out")

# ---- where an output comes from ---------------------------------------------------------------------------------
ok "a campaign of two files" "${run[@]}"
attribute () { perl -0777 -ne 'print unpack ("A*", substr $_, pos, unpack "V", $1) if /\0'"$2"'\0+\x13...(.{4}).{8}/gs' "$1"; } # file, name
named ()
{
    local score=$out/one.scores.h5 mtime
    mtime=$(date -u -r data/one.h5 +%Y-%m-%dT%H:%M:%SZ)
    [ "$(attribute "$score" input_given)" = data/one.h5 ] && [ "$(attribute "$score" input)" = "$work/data/one.h5" ] &&
        [ "$(attribute "$score" input_mtime)" = "$mtime" ] && [ "$(attribute "$score" campaign_folder)" = "$out/.wiremill" ] &&
        attribute "$score" command | grep -F "cd $work && $bin/wiremill run --model $made/model-1.wmm"
}
ok "an output names its input as it was typed, its real path and time, and the campaign's folder and command" named

# ---- files, and inputs by any name ------------------------------------------------------------------------------
files () # endpoint or folder, as status takes it
{
    keep "$bin/wiremill" status --files "$@" && says "^INPUT +OUTPUT +STATE +HITS +HELD$" &&
        says "^$work/data/one.h5 +one.scores.h5 +written +[0-9]+ +0$" && says "^$work/data/two.h5 +two.scores.h5 +written +[0-9]+ +0$" &&
        [ "$(wc -l <"$work/said")" = 3 ] && keep "$bin/wiremill" status --files --json "$@" && says '"wiremill-files-1"' &&
        says "\"path\":\"$work/data/two.h5\",\"output\":\"two.scores.h5\",\"state\":\"written\""
}
narrow () # in a terminal of 80 columns, names lose their beginning
{
    mkdir -p "$work/$(printf 'long%.0s' {1..30})" && cp data/one.h5 "$work"/long*/ &&
        "${run[@]}" --input "$work/long*/one.h5" --output "$work/long" >/dev/null 2>&1 &&
        script -qec "stty cols 80; '$bin/wiremill' status --files '$work/long'" /dev/null </dev/null | tr -d '\r' >"$work/said" &&
        says "^\.\.\.[a-z/]*long/one.h5 " && ! grep -E '.{81}' "$work/said"
}
ok "status --files lists inputs, outputs and hits; in JSON too" files "$out"
ok "... in 80 columns" narrow
names ()
{
    local name
    for name in data/two.h5 ./data/two.h5 "$work/data/two.h5" two.scores.h5 out/two.scores.h5 2; do
        keep "$bin/wiremill" why "$@" "$name" && says "^written: $work/data/two.h5: $out/two.scores.h5 has its hits: [0-9,]+ scored, 0 held$" || return 1
    done
    cd / && for name in two.h5 data/two.h5; do keep "$bin/wiremill" why "$@" "$name" && says "^written: $work/data/two.h5: " || return 1; done
}
ok "why finds an input by any of its names" names --campaign "$out"
none () { exits 1 keep "$bin/wiremill" why "$out" three.h5 && says "no input or output of this campaign is called 'three.h5'; .wiremill status --files. lists them"; }
ok "... and tells where there is none" none
several () { cd / && exits 1 keep "$bin/wiremill" why "$work/long" one.h5 && says "'one.h5' is the name of several inputs" && says "^  1  $work/data/one.h5$" && says "^  3  $work/long.*/one.h5$"; }
ok "... or several" several
"$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --listen "ipc://$work/b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$out/.wiremill/endpoint.json"
ok "a broker that runs answers the same" files --broker "ipc://$work/b"
ok "... and why" names --campaign "$out"
long () { exits 5 keep "$bin/wiremill" why --campaign "$out" "$(printf 'x%.0s' {1..3000})" && says "too long a name; give the input's number"; }
ok "a name that no message holds is refused" long
kill $broker
wait $broker
done_testing
