#!/bin/bash
# join.t - hits of one file with planes of another: numl's and larrecodnn's hits, Wire-Cell's frames, a channel map. The
# patches are those of the same events in the exchange layout, bit for bit; what has no partner is named.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model ${small}1 && make_events join --events 3 --seed 8 --hits 600 --tpcs 1 || bail "no model or events"
read -r one two off all bad <<<"$($python tests/e2e/join.py make "$made/join.h5" "$work")" && [ "$bad" ] || bail "no files"
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
# Wire-Cell's FrameFileSink.
sink () { join numl.h5 "$1" && same numl.h5; }
ok "an archive, packed by bzip2, arrays in Fortran order, of which a tag is chosen" sink sink.tar.bz2:/gauss*
ok "... by gzip, in folders, float64, int64, a frame that begins later, events in no order" \
        eval 'join shuffled.h5 sink.tar.gz && same shuffled.h5 "$work/order.npy"'
ok "... not packed, int16" eval 'join numl.h5 sink.tar && $python tests/e2e/join.py same "$work/whole.h5.npy" "$work/numl.h5.npy"'
mv "$work/sink.tar.bz2" "$work/named.h5"
ok "... is known by its content, not by its name" sink named.h5:/gauss1
masked ()
{
    join numl.h5 masked.h5 && mv "$work/numl.h5.npy" "$work/masked.npy" && join numl.h5 masked.tar &&
        $python tests/e2e/join.py same "$work/masked.npy" "$work/numl.h5.npy"
}
ok "... whose masks say which ticks are bad: they are 0 ADC" masked
ok "a tag that no frame has" eval '! join numl.h5 sink.tar:/none && says "frame 1 has no tag none"'
(cd "$work" && $OLDPWD/$python $OLDPWD/tests/e2e/join.py hostile {above,text,flat,huge,twice,real,wide,flip,zip,mask}.tar \
    {link,object,bomb,part}.tar.gz big.tar.bz2) || bail "no archives"
hostile () { exits 5 join numl.h5 "$1" && says "$1: $2"; } # file, text
ok "a member above its folder" hostile above.tar 'member ../../frame_x_1.npy lies outside of the archive: refused'
ok "a link" hostile link.tar.gz 'member frame_x_1.npy is a link or a device: refused'
ok "big-endian numbers" hostile big.tar.bz2 'member frame_x_1.npy: big-endian numbers; save a.astype'
ok "Python objects" hostile object.tar.gz 'member frame_x_1.npy: Python objects, not an array of numbers'
ok "texts" hostile text.tar 'member frame_x_1.npy: neither floats nor integers'
ok "an array of one dimension" hostile flat.tar 'member frame_x_1.npy: not .channels, ticks. of float32'
ok "a huge array" hostile huge.tar '.*2560 channels of 200000 ticks: a frame in an archive has at most'
ok "a bomb" hostile bomb.tar.gz 'member frame_x_1.npy of [0-9]* bytes: the archive would unpack to more than 16384 MiB'
ok "a member twice" hostile twice.tar 'member frame_x_1.npy is there twice'
ok "channels that are not integers" hostile real.tar 'member channels_x_1.npy: not one line of at most [0-9]* integers'
ok "a mask of other columns" hostile mask.tar 'member chanmask_bad_1.npy: not three columns .channel, first tick,'
ok "... nor 32 bits" hostile wide.tar 'member channels_x_1.npy: channel 1099511627776 is not one'
ok "a header that is not one" hostile flip.tar 'damaged: .*header'
ok "a zip archive" hostile zip.tar 'a zip archive; wiremill reads .tar, .tar.gz and .tar.bz2: pack it so'
ok "a tag without tickinfo" hostile part.tar.gz 'event 1:1:1: frame_x is of shape .*0 values of tickinfo'
for end in tar tar.gz; do
    cp "$work/sink.$end" "$work/cut.$end" && truncate -s -200 "$work/cut.$end"
    [ $end != tar ] || truncate -s -20000 "$work/cut.$end"
    ok "cut off: $end" hostile "cut.$end" 'cut off: copy the file again'
done
flips () # file: bytes in its middle are others
{
    cp "$work/$1" "$work/flip-$1" && printf '\252\125\252\125' |
        dd of="$work/flip-$1" bs=1 seek=$(($(stat -c %s "$work/$1") / 2)) conv=notrunc status=none && hostile "flip-$1" 'damaged: '
}
ok "damaged: gzip" flips sink.tar.gz
ok "damaged: bzip2" flips named.h5
explicit () { join mistaken.h5 frames.h5 --hit-time ticks && same mistaken.h5; }
ok "the unit can be given" explicit

# A CSV of hits.
text () { join hits.csv frames.h5 && same hits.csv "$work/order.npy" && says 'hits.csv: csv/time read in ticks, ticks of 0.5 us$'; }
ok "hits as CSV" text
ok "... without planes" eval 'exits 5 cut hits.csv && says "hits.csv: a text; if it is a CSV of hits, give the file of their planes by"'
csv () # pattern, text: hits that are refused
{
    printf "$2" >"$work/bad.csv"
    exits 5 join bad.csv frames.h5 && says "bad.csv:?$1"
}
head=run,subrun,event,tpc,plane,wire,time,hit_id
ok "... without a column" csv "2: no column 'time'; a file of hits begins with the line run,subrun" '#\nrun,subrun,event,tpc,plane,wire,hit_id\n'
ok "... with a column twice" csv "1: column 'run' is there twice" "run,$head\n"
ok "... with a short line" csv '3: 7 cells, the first line has 8' "$head\n1,1,1,0,0,5,20,7\n1,1,1,0,0,5,20\n"
ok "... with a word" csv "2: column 'time' is '2O', not a number" "$head\n1,1,1,0,0,5,2O,7\n"
ok "... with no number" csv "2: column 'event' is '', not a whole number" "$head\n1,1,,0,0,5,20,7\n"
ok "... with a fraction" csv "2: column 'hit_id' is '1.0', not a whole number" "$head\n1,1,1,0,0,5,20,1.0\n"
ok "... with a number of more than 32 bits" csv "3: column 'tpc' is '9876543210', not a whole number of 32" "$head\n\n1,1,1,9876543210,0,5,20,1\n"
ok "... with one of more than 64" csv "2: column 'run' is '98765432109876543210', not a whole" "$head\n98765432109876543210,1,1,1,0,5,20,1\n"
ok "... with comments only" csv ' no line with the names of columns' '# nothing\n \n'
ok "... with a long line" csv '1: a line of more than 65536 bytes' "$(printf '%70000s' x)"

# Raw ADC, and hits that begin to count at another tick.
pedestal () # tag, options...
{
    join numl.h5 tags.h5:/"$1" "${@:2}" && $python tests/e2e/join.py same "$work/whole.h5.npy" "$work/numl.h5.npy"
}
ok "a pedestal: the median of each channel" pedestal adc --pedestal median
ok "... or one value" eval "pedestal flat --pedestal 9e2 && says 'ticks of 0.5 us, pedestal 900$'"
raw_adc () { exits 5 join numl.h5 tags.h5:/flat && says 'of frame_flat lie around other values than 0 ADC: a pedestal; --pedestal'; }
ok "... that nobody gave is noticed" raw_adc
ok "... but where it is to stay" eval '! pedestal flat --pedestal none && says "pedestal none$"'
late () { join late.h5 frames.h5 --hit-offset 25.5 && same late.h5 && says 'ticks of 0.5 us, [+]25.5 ticks$'; }
ok "hits that count from another tick" late
ok "... which is a number" eval 'exits 2 join late.h5 frames.h5 --hit-offset 5us && says "hit-offset 5us: it is a number of ticks"'
ok "... and so is a pedestal" eval 'exits 2 join late.h5 frames.h5 --pedestal mean && says "pedestal mean: it is median, none"'
ok "... both of planes" eval 'exits 2 cut whole.h5 --hit-offset 1 && says "hit-offset goes with --planes"'

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
ok "a channel in two frames" unjoined 5 "is in frame_gauss and in frame_wiener: choose one, '.*both.h5:/gauss'" \
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
    cp "$work/sink.tar.gz" "$work/planes/a-frames.h5" && cp "$work/part.h5" "$work/planes/b-frames.h5"
campaign () # input, options...
{
    keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$1" --output "$work/out" --spec "$work/spec.yaml" \
            --planes "$work/planes/{stem}-frames.h5" --channels "$work/fewer.csv" --hit-offset -0 --pedestal none "${@:2}"
}
size=48
[ -z "$small" ] || size=16
printf 'tau_us: 10000\ntrigger_offset: 500\npatch: [%s, %s]\n' $size $size >"$work/spec.yaml"
both=$work/hits/'?.h5'
cp "$work/hits.csv" "$work/hits/t.csv" && cp "$work/frames.h5" "$work/planes/t-frames.h5" &&
    cp "$work/shuffled.h5" "$work/hits/u.h5x" && cp "$work/frames.h5" "$work/planes/u-frames.h5"
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
report ()
{
    keep "$bin/wiremill" report "$work/out" -o "$work/r.html" && grep -q '<title>Event 1:1:1, TPC 0 plane' "$work/r.html" &&
        grep -q 'No picture of .*b.h5: event 1:1:2 has no planes there' "$work/r.html"
}
ok "the report draws events with the planes of each input" report
ok "... a hit on a wire that the map lacks is a bad wire" $python tests/e2e/join.py status "$work/out/a.scores.h5" 2 "$one"
ok "... hits without planes are of no event" $python tests/e2e/join.py status "$work/out/b.scores.h5" 7 "$two"
origin ()
{
    [ "$($python tests/e2e/join.py text "$work/out/b.scores.h5" planes)" = "$work/planes/b-frames.h5" ] &&
        [ "$($python tests/e2e/join.py text "$work/out/b.scores.h5" joined)" = "chargehits/time read in us, ticks of 0.5 us, pedestal none" ]
}
ok "the output names its planes, and the unit" origin
picture () # the output states planes, map and offset; on the command line the name of the planes is as of the campaign
{
    local pair=(--planes "$work/planes/{stem}-frames.h5" --channels "$work/fewer.csv" --pedestal none)
    "$bin/wiremill" show "$work/out/a.scores.h5" -o "$work/a.svg" &&
        "$bin/wiremill" show "$work/out/a.scores.h5" -o "$work/b.svg" --input "$work/hits/a.h5" "${pair[@]}" &&
        cmp "$work/a.svg" "$work/b.svg"
}
ok "a picture finds the planes of an output" picture
counted () # hits on bad ticks
{
    "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$work/numl.h5" --output "$work/counted" --spec "$work/spec.yaml" \
        --planes "$work/masked.tar" --channels "$work/channels.csv" -w 1 --quiet && [ "$bad" -gt 9 ] &&
        $python -c 'import h5py, sys; sys.exit(int(h5py.File(sys.argv[1]).attrs["hits_bad_channel"]) != int(sys.argv[2]))' \
            "$work/counted/numl.scores.h5" "$bad"
}
ok "an output counts the hits on ticks that an archive's masks call bad" counted
shifted () # ... and how its hits and planes were joined
{
    local scores=$work/shifted/numl.scores.h5 pair=(--planes "$work/frames.h5" --channels "$work/channels.csv")
    "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$work/numl.h5" --output "$work/shifted" --spec "$work/spec.yaml" \
        "${pair[@]}" --hit-offset 2.5 --pedestal 1.5 -w 1 --quiet && "$bin/wiremill" show "$scores" -o "$work/d.svg" &&
        "$bin/wiremill" show "$scores" -o "$work/e.svg" "${pair[@]}" --hit-offset 2.5 --pedestal 1.5 &&
        "$bin/wiremill" show "$scores" -o "$work/f.svg" "${pair[@]}" --pedestal 1.5 &&
        "$bin/wiremill" show "$scores" -o "$work/g.svg" "${pair[@]}" --hit-offset 2.5 &&
        cmp "$work/d.svg" "$work/e.svg" && ! cmp "$work/d.svg" "$work/f.svg" && ! cmp "$work/d.svg" "$work/g.svg"
}
ok "... with their offset and pedestal" shifted
cut_stem ()
{
    ln -sf a-frames.h5 "$work/planes/a.frames" # an ending of no other format
    exits 3 "$bin/wiremill" cut -i "$work/hits/a.h5" --planes "$work/planes/{stem}-frames.h5" --channels "$work/fewer.csv" \
        --spec "$work/spec.yaml" --patches "$work/stem.npy" && exits 3 "$bin/wiremill" cut -i "$work/hits/a.h5" --patches "$work/name.npy" \
        --planes "$work/planes/a-frames.h5" --channels "$work/fewer.csv" --spec "$work/spec.yaml" &&
        cmp "$work/stem.npy" "$work/name.npy" &&
        exits 2 keep "$bin/wiremill" cut -i "$work/hits/a.h5" --planes "$work/{stem}-frames.h5" --channels "$work/fewer.csv" \
            --patches "$work/no.npy" && says '/a-frames.h5 does not exist' &&
        exits 2 keep "$bin/wiremill" cut -i "$work/hits/a.h5" --planes "$work/planes/{stem}.frames" --force \
            --channels "$work/fewer.csv" --patches "$work/planes/a.frames" && says 'a.frames is also --planes'
}
ok "cut names planes as a campaign does" cut_stem
ok "its hits are cut and scored again" "$bin/wiremill" verify "$work/out" --sample 300
as_text () # the same scores, row by row
{
    exits 3 campaign "$work/hits/t.csv" && exits 3 campaign "$work/hits/u.h5x" &&
        keep "$bin/wiremill" compare "$work/out/t.scores.h5" "$work/out/u.scores.h5" --tolerance 0
}
ok "hits as CSV in a campaign: the scores of the same hits in HDF5" as_text
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
            --planes "$work/planes/{stem}-frames.h5" --channels "$work/${1:-channels.csv}" --pedestal none "${@:2}"
}
ok "another map is another campaign" exits 5 other
ok "... by name" says "this campaign is pinned to channels '.*fewer.csv', not '.*channels.csv'; it has scores already: give another --output"
ok "... another offset is, too" exits 5 other fewer.csv --hit-offset 1.50
ok "... by name" says "this campaign is pinned to hit_offset '', not '1.5'"
scored_again () { exits 3 campaign "$both" --retry-held && says 'a.h5: [0-9]+ hits? in' && ! says 'changed since' >/dev/null; }
ok "... and scored again by --retry-held" scored_again
cp "$work/numl.h5" "$work/hits/c.h5"
without () { exits 3 campaign "$both" && says 'input held: .*c-frames.h5: cannot open: No such file'; }
ok "planes that are not there: the input is held" without

usage () { exits 2 campaign "$both" "${@:2}" && says "$1"; }
ok "an offset that is no number" usage '[-]-hit-offset x: it is a number of ticks' --hit-offset x
no_planes () { exits 2 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" -i "$both" -o "$work/x" --pedestal none; }
ok "a pedestal without planes" eval 'no_planes && says "pedestal without --planes: --planes and --channels go together"'
no_map () { exits 2 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" -i "$both" -o "$work/x" --planes "$work/frames.h5"; }
ok "planes without a map" no_map
ok "... by name" says '[-]-channels is missing: --planes and --channels go together'
ok "a map that is not there" usage '[-]-channels .*none.csv does not exist' --channels "$work/none.csv"
ok "one file as planes and as map" usage 'fewer.csv is given twice, by --planes and by --channels' --planes "$work/fewer.csv"
ok "a name in braces that stands for nothing" usage '[-]-planes .*/\{nme\}.h5: \{nme\}.h5 stands for nothing' --planes "$work/{nme}.h5"
ok "... beside one that does" usage '[{]event[}]-x stands for nothing, .*; \{stem\} stands for the name of' \
        --planes "$work/{stem}-{event}-x"
braces () { cp "$work/frames.h5" "$work/{a}.h5" && exits 5 campaign "$both" --planes "$work/{a}.h5" && says 'pinned to planes'; }
ok "... or is that of a file" braces
ok "one file as hits and as planes" exits 2 join numl.h5 numl.h5
mkfifo "$work/pipe"
ok "a map that is a pipe" usage '[-]-channels .*/pipe is a pipe; it must be a regular file' --channels "$work/pipe"
ok "planes that are a folder" usage '[-]-planes .*/planes is a folder; a file is needed' --planes "$work/planes"
ok "planes on a server" usage "type xrdcp 'root://a//b.h5' [.] first, then give --planes b.h5:/gauss$" --planes root://a//b.h5:/gauss
ok "... a map by HTTP" usage "type curl -LO 'https://a/m.csv' first, then give --channels m.csv$" --channels https://a/m.csv
ok "... planes of each input" usage 'a folder here, then give --planes FOLDER/\{stem\}.h5$' --planes 'root://a//b/{stem}.h5'
ok "... by another protocol" usage 'copy them to a folder here, then give --planes FOLDER/x.h5$' --planes s3://a/b/x.h5
long=$(printf '%400s' '' | tr ' ' x)
ok "a path that is too long" usage 'its absolute path has more than 319 characters' --planes "/$long/{stem}.h5"
done_testing
