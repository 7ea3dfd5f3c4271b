#!/bin/bash
# rebuild.t - lost, damaged, copied or moved files are found, named and repaired.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/one.h5" --input "$made/two.h5")
out=$work/out c=$work/out$beside
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 && "${run[@]}" --output "$out" >/dev/null 2>&1 ||
    bail "wiremill run does not work"
rebuild=("$bin/wiremill" rebuild)
look () { "$bin/wiremill" status "$1" --json | grep -Eo '"(inputs|events|hits)": *\{[^}]*\}|"id": *"[^"]*"'; }
truth=$(look "$out") whole=$(look "$work/whole")
same_answer () { [ "$(look "$out")" = "$truth" ]; }
nothing_left () { keep "${run[@]}" --output "$out" && says "nothing was left"; }
copy_both () { cp "$1" "$2" "$3" && cp "$1" "$2$beside" "$3$beside"; } # options of cp, output folder, its copy
flip () # file, offset: one bit, and the time as it was
{
    perl -e 'my ($f, $at) = @ARGV; my @t = (stat $f)[8, 9]; open my $h, "+<", $f or die; seek $h, $at, 0; read $h, my $b, 1;
             seek $h, $at, 0; print $h chr (ord ($b) ^ 4); close $h' "$1" "$2" && touch -d "$3" "$1"
}

sound ()
{
    mkdir "$c/rebuild.new" && touch "$c/rebuild.new/left-behind" && keep "${rebuild[@]}" --dry-run "$out" &&
        says "^ledger +sound$" && says "2 written: 2 with every byte" && says "nothing was changed" &&
        [ ! -e "$c/rebuild.new" ]
}
ok "a sound campaign is called sound" sound
cp "$c/ledger.db" "$work/earlier.db"
for blow in "rm ledger.db" ": >ledger.db" "head -c 30000 /dev/urandom >ledger.db" "truncate -s 9000 ledger.db" \
    "cp '$work/whole$beside/ledger.db' ledger.db"; do
    (cd "$c" && eval "$blow") && before=$(cksum "$c"/ledger.db* 2>&1)
    dry ()
    {
        exits 1 keep "${rebuild[@]}" --dry-run "$out" && says "ledger +.*(missing|damaged|is of another).*made again" &&
            [ "$(cksum "$c"/ledger.db* 2>&1)" = "$before" ]
    }
    ok "$(sed 's/ .*work.*/ of another campaign/' <<<"$blow"): a dry run reports it and changes nothing" dry
    made_again () { "${rebuild[@]}" "$out" && same_answer && nothing_left; }
    ok "it is rebuilt" made_again
    (cd "$c" && eval "$blow")
    ok "so it is by whoever comes first" same_answer
done

# Outputs.
score=$out/two.scores.h5 when=$(stat -c %y "$out/two.scores.h5")
flip "$score" 9000 "$when"
ok "a bit flipped in an output, with its time as before, is not seen by run" nothing_left
found ()
{
    exits 1 keep "${rebuild[@]}" --dry-run "$out" && says "$score is not as it was written" &&
        says "wiremill rebuild would" && nothing_left
}
ok "rebuild --dry-run finds it, exit code 1" found
repaired ()
{
    keep "${rebuild[@]}" "$out" && says "^the same .wiremill run. goes on from here" && "${run[@]}" --output "$out" &&
        same_scores two "$out" "$work/whole" && [ -e "$score.damaged-1" ]
}
ok "rebuild and run make it again; what was there is kept" repaired
truncate -s 3000 "$score"
again ()
{
    keep "${run[@]}" --output "$out" && says "sent( per event)? +[0-9.,]*[1-9]" && says "kept as $score.damaged-2" &&
        says "not as it was written" && same_scores two "$out" "$work/whole"
}
ok "one that was cut is made again by run" again
rm "$score"
seen () # nobody was told of it, and nothing is written by looking
{
    keep "$bin/wiremill" status "$out" && says "^out +stopped" && says "1 written, 1 open" &&
        says "^to write: $score of $made/two.h5: its output is gone$" &&
        exits 1 keep "$bin/wiremill" verify "$out" && says "the output $score is gone; type this to write it again:" &&
        (cd / && eval "$(tail -n 1 "$work/said")") &&
        same_scores two "$out" "$work/whole" && keep "$bin/wiremill" status "$out" && says "^out +finished" &&
        says "2 written"
}
ok "one that is gone is missed by status and verify; they name the command that makes it again" seen
rm "$score"
left ()
{
    keep "$bin/wiremill" status "$out" && says "^out +stopped" && ! grep -q "100\.0%" "$work/said" &&
        says "1 written, 1 open" && says "^to write: $score of $made/two.h5"
}
gone ()
{
    keep "${rebuild[@]}" "$out" && says "$score is gone" && left && (cd / && eval "$(tail -n 1 "$work/said")") &&
        same_scores two "$out" "$work/whole"
}
ok "rebuild reports it too; status prints what is left to do, and the command" gone
touch "$score"
touched ()
{
    keep "$bin/wiremill" status "$out" && says "^out +finished" && says "2 written, 0 open" && "${rebuild[@]}" "$out" &&
        nothing_left
}
ok "one that was only copied is taken as it is" touched

# Behind the back of a run that works on another input.
make_events long --events 3 --seed 8 --hits 30000 --tpcs 1 || bail "no events"
behind ()
{
    local score=$work/behind/two.scores.h5
    "${run[@]}" --input "$made/long.h5" --output "$work/behind" >"$work/said" 2>&1 &
    until_true 60 test -e "$work/behind/one.scores.h5" && until_true 60 test -e "$score" &&
        rm "$work/behind/one.scores.h5" && truncate -s 500 "$score" && [ ! -e "$work/behind/long.scores.h5" ] && wait $! &&
        says "output $work/behind/one.scores.h5 is gone: made again" && says "$score is not as it was written: it is kept as .*, and made again" &&
        says "files +3 written" && same_scores one "$work/behind" "$work/whole" && same_scores two "$work/behind" "$work/whole" && [ -e "$score.damaged-1" ]
}
ok "outputs removed and cut while run works on the next input are made again by it" behind
shim=(env LD_PRELOAD="$proof/fail_shim.so" WM_SHIM_PROGRAM=wiremill-producer WM_SHIM_FAIL=stat:1+:EIO)
for_ever ()
{
    exits 1 keep "${shim[@]}" "${run[@]}" --output "$out" &&
        says "was written 2 times and is gone again: end what removes or changes it" && nothing_left
}
ok "where something removes it again and again, run reports it and ends; later the same command finds all done" for_ever

# The journal.
input=$(grep -abo "$made/one.h5" "$(ls "$c"/journal/*.keep | head -1)" | head -1 | cut -d: -f1)
flip "$(ls "$c"/journal/*.keep | head -1)" "$input" now
both ()
{
    keep "${rebuild[@]}" "$out" && says "1 lost" && says "written there again" && "${rebuild[@]}" --dry-run "$out" &&
        rm "$c/ledger.db" && same_answer
}
ok "an input lost from the journal is written again while the ledger knows it" both
for keep_file in "$c"/journal/*.keep; do flip "$keep_file" 20 now && flip "$keep_file" 200 now; done
rm "$c/ledger.db"
ok "EPOCH and the first CAMPAIGN of every epoch lost, and the ledger: still the same campaign" same_answer

copy_both -rp "$out" "$work/wiped" && "${rebuild[@]}" --output "$work/wiped" "$work/wiped" >/dev/null
wiped ()
{
    rm -r "$work/wiped$beside/journal" && keep "$bin/wiremill" status "$work/wiped/" && says "^wiped +finished" &&
        keep "${run[@]}" --output "$work/wiped" && says "nothing was left" && keep "${rebuild[@]}" "$work/wiped" &&
        says "[1-9][0-9]* lost: epoch 1" && says "has 2 inputs that the journal lost" &&
        "${rebuild[@]}" --dry-run "$work/wiped" &&
        rm "$work/wiped$beside/ledger.db" && keep "${run[@]}" --output "$work/wiped" && says "nothing was left"
}
ok "a journal that was deleted, and one begun after it: what the ledger knows is written there again" wiped

# Moved and copied.
copy_both -r "$out" "$work/other" && "${rebuild[@]}" --output "$work/other" "$work/other" >/dev/null
unknown ()
{
    rm "$work"/other/*.h5 && "${rebuild[@]}" "$work/other" && keep "$bin/wiremill" status "$work/other" &&
        says "other +stopped +[A-Z][a-z]+ [ 0-9]+ [0-9:]+ +- " &&
        says "type the same wiremill run or wiremill broker command to continue"
}
ok "where all is gone nobody knows what part is done; a copy names no command of the original's" unknown
mv "$out" "$work/moved" && mv "$c" "$work/moved$beside" && out=$work/moved c=$work/moved$beside
unseen () # a folder that is not there is no output that is gone
{
    keep "$bin/wiremill" status "$out" && says "^moved +finished" &&
        says "the folder of the 2 outputs, $work/out, cannot be read: .*rebuild [^ ]* --output DIR" &&
        exits 1 keep "$bin/wiremill" verify "$out" &&
        says "the folder of the outputs, $work/out, cannot be read: .*rebuild [^ ]* --output DIR"
}
ok "... and status and verify take them to be as they were" unseen
ok "outputs that were moved: run refuses by name" exits 5 "${run[@]}" --output "$out"
stranger () # a campaign that has an output of the same name
{
    "${run[@]}" --output "$work/stranger" >/dev/null && cksum "$work/stranger"/* >"$work/sums" &&
        exits 5 keep "${rebuild[@]}" --output "$work/stranger" "$out" &&
        says "no file in $work/stranger matches what the campaign $out$beside wrote" &&
        cksum "$work/stranger"/* | cmp - "$work/sums"
}
ok "outputs of another campaign are refused, and stay" stranger
moved () { "${rebuild[@]}" --output "$out" "$out" && nothing_left && same_answer; }
ok "rebuild --output takes them where they are" moved
copy_both -r "$out" "$work/copied"
original ()
{
    keep "${rebuild[@]}" --dry-run "$work/copied" && says "gone; in $out$" &&
        says "not where this campaign is; --output $work/copied searches"
}
ok "of a copy it prints whose outputs it read" original
names ()
{
    exits 5 keep "${run[@]}" --output "$work/copied" &&
        says "pinned to output '$out', not '$work/copied'.*wiremill rebuild .*copied.wiremill --output .*copied"
}
ok "and run, what to do" names
copied ()
{
    keep "${rebuild[@]}" --output "$work/copied" "$work/copied" && says "gone; in $work/copied$" &&
        keep "${run[@]}" --output "$work/copied" && says "nothing was left"
}
ok "which is done" copied
cp -r "$c" "$work/stopped"
stopped () { keep "${run[@]}" --output "$out" --campaign "$work/stopped" && says "nothing was left"; }
ok "a copy of a stopped campaign runs as itself" stopped
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "ipc://$work/b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$c/endpoint.json"
ok "while a broker runs there is no rebuild" exits 75 "${rebuild[@]}" "$out"
cp -r "$c" "$work/running"
asks ()
{
    exits 5 keep "${run[@]}" --output "$out" --campaign "$work/running" && says "copy of a campaign that was running" &&
        says "wiremill rebuild $work/running" && [ "$(grep -c "is a copy" "$work/said")" = 1 ]
}
sed 's/\("campaign": *"\)[0-9a-f]*/\100000000000000000000000000000000/' \
        "$c/endpoint.json" >"$work/whole$beside/endpoint.json"
other () { [ "$(look "$work/whole")" = "$whole" ]; }
ok "an address that is another campaign's by now is not asked" other
ok "and not told either" exits 4 "$bin/wiremill" pause --campaign "$work/whole"
copied () { exits 4 "$bin/wiremill" pause --campaign "$work/running" && [ ! -e "$c/paused" ]; }
ok "a command to a copy does not reach the original, whose address was copied too" copied
kill $broker && wait $broker
ok "a copy of a running one asks for rebuild, once" asks
own ()
{
    keep "${rebuild[@]}" "$work/running" && says "a campaign of its own" &&
        says "with --campaign $work/running --output $out goes on from here" &&
        keep "${run[@]}" --output "$out" --campaign "$work/running" && says "nothing was left"
}
ok "and is a campaign of its own then" own
ok "the original goes on as if nothing had been" nothing_left
ok "where there is no campaign, it reports that" exits 2 "${rebuild[@]}" "$work/whole/none"
ok "outputs that are not there are a mistake of the command line" exits 2 "${rebuild[@]}" --output "$work/whole/none" "$out"
done_testing
