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
done_testing
