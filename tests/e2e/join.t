#!/bin/bash
# join.t - hits of one file with planes of another: numl's and larrecodnn's hits, Wire-Cell's frames, a channel map. The
# patches are those of the same events in the exchange layout, bit for bit; what has no partner is named.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model ${small}1 && make_events join --events 3 --seed 8 --hits 600 --tpcs 1 || bail "no model or events"
read -r one two off all <<<"$($python tests/e2e/join.py make "$made/join.h5" "$work")" && [ "$all" ] || bail "no files"
printf 'tau_us: 10000\ntrigger_offset: 500\n' >"$work/facts.yaml"
cut () # input, options...: patches in $work/INPUT.npy
{
    keep "$bin/wiremill" cut --input "$work/$1" --patches "$work/$1.npy" --spec "$work/facts.yaml" "${@:2}"
}
join () # input, frames, options...
{
    cut "$1" --planes "$work/$2" --channels "$work/channels.csv" "${@:3}"
}
"$bin/wiremill" cut --input "$made/join.h5" --patches "$work/exchange.npy" || bail "no patches"
same () { $python tests/e2e/join.py same "$work/exchange.npy" "$work/$1.npy" "${@:2}"; }

numl () { join numl.h5 frames.h5 && same numl.h5 && says 'numl.h5: hit_table/time read in ticks, ticks of 0.5 us'; }
ok "numl's hits and Wire-Cell's frames" numl
shuffled () { join shuffled.h5 tags.h5:/gauss* && same shuffled.h5 "$work/order.npy"; }
ok "events in no order, a frame of each anode, a frame that begins later" shuffled
chargehits ()
{
    join chargehits.h5 frames.h5 && same chargehits.h5 "$work/order.npy" && says 'chargehits/time read in us, ticks of 0.5 us'
}
ok "larrecodnn's hits: microseconds" chargehits
raw ()
{
    cut whole.h5 && join numl.h5 tags.h5:/raw && $python tests/e2e/join.py same "$work/whole.h5.npy" "$work/numl.h5.npy"
}
ok "frames of int16" raw
explicit () { join mistaken.h5 frames.h5 --hit-time ticks && same mistaken.h5; }
ok "the unit can be given" explicit

# A wrong unit, and what else cannot be joined.
unjoined () # code, pattern, input, frames, options...
{
    exits "$1" join "${@:3}" && says "$2"
}
ok "ticks in chargehits are noticed" unjoined 5 'miss the signal: chargehits/time is read in us.*--hit-time ticks$' \
        mistaken.h5 frames.h5
ok "... and a unit that is given wrongly" unjoined 5 'miss the signal: hit_table/time is read in us.*--hit-time ticks$' \
        numl.h5 frames.h5 --hit-time us
ok "a frame in another unit than nanoseconds" unjoined 5 'event 1:1:1: tickinfo_gauss: a tick of 0.5; Wire-Cell writes nano' \
        numl.h5 units.h5
ok "a channel in two frames" unjoined 5 "is in frame_gauss and in frame_wiener: choose one, --planes '.*both.h5:/gauss'" \
        numl.h5 both.h5
one_tag () { join numl.h5 both.h5:/wiener && same numl.h5; }
ok "... of which one is chosen" one_tag
ok "a tag that no frame has" unjoined 5 'group 1 has no dataset frame_none' numl.h5 both.h5:/none
ok "no frames" unjoined 5 "no frames: Wire-Cell's HDF5FrameTap writes" numl.h5 shuffled.h5
ok "no hits" unjoined 5 'neither hit_table \(numl\) nor chargehits' frames.h5 tags.h5
ok "two events of one number" unjoined 5 'events 1:1:1 and 1:2:1 have one number, and frames have nothing' twice.h5 frames.h5
ok "hits alone" exits 5 cut numl.h5
ok "... say what is missing" says 'hits without planes: give the file of their planes by --planes'
map () # pattern, text: a channel map that is refused
{
    printf "$2" >"$work/bad.csv"
    exits 5 cut numl.h5 --planes "$work/frames.h5" --channels "$work/bad.csv" && says "bad.csv:?$1"
}
ok "a map without a column" map "2: no column 'tpc'; a channel map begins with the line channel,cryostat,tpc,plane,wire" \
        '# map\nchannel,cryostat,plane,wire\n1,0,0,0\n'
ok "a map with a word" map "2: wire is 'w', not a whole number" 'channel,cryostat,tpc,plane,wire\n1,0,0,0,w\n'
ok "a short line" map '2: the line has no wire' 'channel,cryostat,tpc,plane,wire\n1,0,0,0\n'
ok "a wire twice" map ' lines 2 and 4 both are wire 3 of cryostat 0, tpc 0, plane 0: write one line for each' \
        'channel,cryostat,tpc,plane,wire\n1,0,0,0,3\n5,0,0,0,4\n7,0,0,0,3\n'
ok "a map without wires" map ' the channel map has no wires' 'channel,cryostat,tpc,plane,wire\n'

strays ()
{
    exits 3 join chargehits.h5 part.h5 && says 'hits? of 1 event without planes in .*: held' &&
        says "chargehits.h5: $two hits are held: $two no such event; their patches are NaN" &&
        [ "$(grep -c 'is held: no such event' "$work/said")" = 3 ]
}
ok "hits without planes: exit 3" strays

# Campaigns. The name of the planes follows that of the hits.
mkdir "$work/hits" "$work/planes" && cp "$work/numl.h5" "$work/hits/a.h5" && cp "$work/chargehits.h5" "$work/hits/b.h5" &&
    cp "$work/frames.h5" "$work/planes/a-frames.h5" && cp "$work/part.h5" "$work/planes/b-frames.h5"
campaign () # input, options...
{
    keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$1" --output "$work/out" --spec "$work/spec.yaml" \
            --planes "$work/planes/{stem}-frames.h5" --channels "$work/fewer.csv" "${@:2}"
}
size=48
[ -z "$small" ] || size=16
printf 'tau_us: 10000\ntrigger_offset: 500\npatch: [%s, %s]\n' $size $size >"$work/spec.yaml"
both=$work/hits/'?.h5'
held () { exits 3 campaign "$both"; }
ok "a campaign of two such inputs" held
named ()
{
    says "a.h5: $one hits? in . events? \(first 1:1:[1-3]\) on wires that .*fewer.csv lacks: held" &&
        says "b.h5: $two hits of 1 event without planes in .*b-frames.h5 \(first 1:1:2\): held;.*; 1 frame without hits \(first 77\)"
}
ok "what has no partner is named" named
thousands () { sed -E ':a;s/([0-9])([0-9]{3})(,|$)/\1,\2\3/;ta' <<<"$1"; }
lost=$(thousands "$two") both_held=$(thousands "$off")
counted ()
{
    says "^  hits .* $both_held held" && says "held: .* hits of .*b.h5: .*$lost no such event \(1 event\); named in the table" &&
        says '^no such event: the file of the hits, or that of --planes, lacks the event' && says ' run --retry-held ' &&
        says '2 events are repeated'
}
ok "... and counted in the summary, with what to type next" counted
listed () { keep "$bin/wiremill" held "$work/out" && says "b.h5: .*$lost no such event \(1 event\)" && says "$both_held held"; }
ok "... and by held" listed
ok "... a hit on a wire that the map lacks is a bad wire" $python tests/e2e/join.py status "$work/out/a.scores.h5" 2 "$one"
ok "... hits without planes are of no event" $python tests/e2e/join.py status "$work/out/b.scores.h5" 7 "$two"
origin ()
{
    [ "$($python tests/e2e/join.py text "$work/out/b.scores.h5" planes)" = "$work/planes/b-frames.h5" ] &&
        [ "$($python tests/e2e/join.py text "$work/out/b.scores.h5" joined)" = "chargehits/time read in us, ticks of 0.5 us" ]
}
ok "the output names its planes, and the unit" origin
ok "its hits are cut and scored again" "$bin/wiremill" verify "$work/out" --sample 300
touch -d '1 hour' "$work/planes/a-frames.h5"
changed ()
{
    held && says 'a.h5: its hits, planes or channel map changed since its output was written: .*; modified last: .*/a-frames.h5$'
}
ok "planes that changed since are noticed" changed
named_changed () { keep "$bin/wiremill" held "$work/out" && says '/hits/a.h5: .*/planes/a-frames.h5 changed since its output was'; }
ok "... and named also where no producer runs" named_changed
rebuilt () { keep "$bin/wiremill" rebuild --dry-run "$work/out"; says '/hits/a.h5: .*/planes/a-frames.h5 changed since'; }
ok "... and by rebuild" rebuilt
other ()
{
    keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$both" --output "$work/out" --spec "$work/spec.yaml" \
            --planes "$work/planes/{stem}-frames.h5" --channels "$work/channels.csv"
}
ok "another map is another campaign" exits 5 other
ok "... by name" says "this campaign is pinned to channels '.*fewer.csv', not '.*channels.csv'; for another choice"
scored_again () { exits 3 campaign "$both" --retry-held && says 'a.h5: [0-9]+ hits? in' && ! says changed >/dev/null; }
ok "... and scored again by --retry-held" scored_again
cp "$work/numl.h5" "$work/hits/c.h5"
without () { exits 3 campaign "$both" && says 'input held: .*c-frames.h5: cannot open: No such file'; }
ok "planes that are not there: the input is held" without

usage () { exits 2 campaign "$both" "${@:2}" && says "$1"; }
no_map () { exits 2 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" -i "$both" -o "$work/x" --planes "$work/frames.h5"; }
ok "planes without a map" no_map
ok "... by name" says '[-]-channels is missing: --planes and --channels go together'
ok "a map that is not there" usage '[-]-channels .*none.csv cannot be read: No such file' --channels "$work/none.csv"
ok "one file as planes and as map" usage 'fewer.csv is given twice, by --planes and by --channels' --planes "$work/fewer.csv"
ok "a name in braces that stands for nothing" usage '[-]-planes .*/\{nme\}.h5: \{nme\}.h5 stands for nothing' --planes "$work/{nme}.h5"
ok "... beside one that does" usage '[{]event[}]-x stands for nothing, .*; \{stem\} stands for the name of' \
        --planes "$work/{stem}-{event}-x"
braces () { cp "$work/frames.h5" "$work/{a}.h5" && exits 5 campaign "$both" --planes "$work/{a}.h5" && says 'pinned to planes'; }
ok "... or is that of a file" braces
ok "one file as hits and as planes" exits 2 join numl.h5 numl.h5
mkfifo "$work/pipe"
ok "a map that is a pipe" usage '[-]-channels .*/pipe is a pipe; it must be a regular file' --channels "$work/pipe"
ok "planes that are a folder" usage '[-]-planes .*/planes is a folder; it must be' --planes "$work/planes"
ok "planes on a server" usage '[-]-planes root://a//b: it must be a file that this machine has' --planes root://a//b
long=$(printf '%400s' '' | tr ' ' x)
ok "a path that is too long" usage 'its absolute path has more than 319 characters' --planes "/$long"
done_testing
