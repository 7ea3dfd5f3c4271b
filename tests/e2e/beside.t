#!/bin/bash
# beside.t - a campaign lies beside its output folder, whatever that is called; one that an earlier version put into it
# goes on there; folders that were renamed, and places that cannot have one.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
wm=$bin/wiremill out=$work/out
run=("$wm" run --model "$made/model-${small}1.wmm" --quiet --workers 1 --input "$made/one.h5" --output)
nothing_left () { keep "${run[@]}" "$@" && says "nothing was left" && ! says warning >/dev/null; }
campaigns () { [ "$(find "$work" -name ledger.db | wc -l)" = "$1" ] || { find "$work" -name ledger.db; return 1; }; }

begins () { keep "${run[@]}" "$out" && ! says warning >/dev/null && [ "$(ls -A "$out")" = one.scores.h5 ] && [ -e "$out$beside/ledger.db" ]; }
ok "a campaign lies beside its outputs" begins
ln -s out "$work/link"
typed ()
{
    local name
    for name in "$out/" "$work/./out/." "$work/link" "$work/link/" "$work/out/../out"; do
        nothing_left "$name" || return 1
    done
    (cd "$work" && nothing_left out) && (cd "$out" && nothing_left .) && campaigns 1
}
ok "... however the output folder is typed" typed
found () # folder...: every command finds it
{
    local verb where
    for where in "$@"; do
        for verb in status held why; do "$wm" $verb "$where" || { echo "$verb $where"; return 1; }; done
        "$wm" rebuild --dry-run "$where" && "$wm" keys list "$where" && "$wm" verify --sample 5 "$where" &&
            (cd "$where" && "$wm" status) && exits 4 "$wm" pause "$where" || { echo "$where"; return 1; }
    done
}
ok "commands find it by the output folder, by its own, and in each of them" found "$out" "$work/link" "$out$beside"
named () { keep "$wm" status "$1" && says "^$2 +finished"; }
ok "status calls it by the output folder's name" named "$out$beside" out

# The place of earlier versions.
old=$work/old
before () { "${run[@]}" "$old" --campaign "$old/.wiremill" && [ -e "$old/.wiremill/ledger.db" ]; }
ok "a campaign in the output folder, as earlier versions had it" before
goes_on ()
{
    keep "${run[@]}" "$old" && says "nothing was left" && [ ! -e "$old$beside" ] &&
        [ "$(grep -c "^warning: the campaign $old/.wiremill lies in the output folder: .*help confinement.*\`mv " "$work/said")" = 1 ]
}
ok "... goes on there, with a warning" goes_on
ok "... and is found" found "$old" "$old/.wiremill"
ok "... by its name" named "$old/.wiremill" old
moves ()
{
    goes_on && eval "$(sed -n 's/.*`\(mv .*\)`.*/\1/p' "$work/said")" && nothing_left "$old" && [ -e "$old$beside/ledger.db" ] &&
        rm "$old/one.scores.h5" && keep "$wm" rebuild "$old" && says "^the same .wiremill run. goes on from here" &&
        "${run[@]}" "$old" && same_scores one "$out" "$old"
}
ok "the command that the warning prints moves it, and it goes on" moves
mkdir -p "$old/.wiremill" && : >"$old/.wiremill/journal"
ok "what is put there later is not taken for it" nothing_left "$old"
elsewhere () { keep "${run[@]}" "$work/o2" --campaign "$work/o2/mine" && says "^warning: the campaign $work/o2/mine lies in the output folder" && ! says 'mv ' >/dev/null; }
ok "--campaign in the output folder: the same warning" elsewhere

# Renamed.
mv "$out" "$work/renamed"
lost () { refused 5 "renamed holds no campaign, nor is there $work/renamed.wiremill beside it.*rename it too" "$wm" status "$work/renamed"; }
ok "an output folder that was renamed: status says what to do" lost
old_name () { keep "$wm" status "$out" && says "^out +finished" && says "the folder of the 1 output, $out, cannot be read: .*rebuild [^ ]* --output DIR"; }
ok "... and the old name still finds the campaign" old_name
new () { exits 5 keep "${run[@]}" "$work/renamed" && says "^warning: .*renamed has outputs, but not their campaign" && says "one.scores.h5 is in the way" && rm -r "$work/renamed$beside"; }
ok "... run warns before it begins another campaign, and replaces no output" new
taken () { mv "$out$beside" "$work/renamed$beside" && "$wm" rebuild --output "$work/renamed" "$work/renamed" && nothing_left "$work/renamed"; }
ok "... renamed both, rebuild takes them where they are" taken
gone () { rm -r "$work/renamed" && keep "${run[@]}" "$work/renamed" && says "one.scores.h5 is gone: made again" && same_scores one "$work/renamed" "$old"; }
ok "an output folder that was removed is made again" gone

# Places that cannot have one.
: >"$work/file$beside"
in_the_way () { refused 2 "the campaign's folder $work/file$beside is not a folder.*--campaign DIR" "${run[@]}" "$work/file" && [ ! -e "$work/file" ]; }
ok "a file in its place" in_the_way
top () { refused 2 "$1 is the top of a file system.*--output $1/scores.*--campaign DIR" "${run[@]}" "$1"; }
ok "the top of a file system" top /proc
ok "... the root" refused 2 "the top of a file system.*--output /scores" "${run[@]}" /
mkdir -m 755 "$work/theirs" && mkdir -m 777 "$work/theirs/out"
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
[ "$(id -u)" = 0 ] || chmod a-w "$work/theirs"
if chmod a+rx "$work" && "${as[@]}" test -r "$made/model-${small}1.wmm" -a -r "$made/one.h5" && "${as[@]}" "$wm" --version; then
    shut () { refused 1 "$work/theirs/out$beside cannot be made: Permission denied; .*--campaign DIR" "${as[@]}" "${run[@]}" "$work/theirs/out"; }
    ok "a folder in which this user may not write" shut
else
    skip "another user cannot run the programs here"
fi
chmod u+w "$work/theirs"
done_testing
