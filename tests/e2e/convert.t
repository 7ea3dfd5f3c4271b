#!/bin/bash
# convert.t - `python -m wiremill convert`: Magnify files and flat trees that uproot writes become inputs; bad ones are refused.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=$PWD/build/venv/bin/python
"$python" -c 'import uproot, h5py' 2>/dev/null || { echo "1..0 # SKIP uproot is not in build/venv (make deps-root)"; exit 0; }
export PYTHONPATH=$PWD/ops/python WIREMILL_LIBRARY=$PWD/${WM_BUILD:-build/release}/lib/libwiremill.so.1
convert () { "$python" -m wiremill convert "$@"; }
root=$work/root
mkdir "$root"

# The events of a file, as ROOT and back: the campaign over both has the same scores.
make_model 1 && make_events convert --events 2 --seed 11 --tpcs 1 --hits 300 || bail "no model or events"
back ()
{
    local facts
    read -ra facts < <("$python" tests/e2e/convert.py events "$made/convert.h5" "$root") && [ ${#facts[@]} = 6 ] &&
        keep convert --planes "$root"/magnify-*.root --hits "$root/hits.root:ana/hits" --channels "$root/map.csv" "${facts[@]}" \
            --column time=peak --column hit_id=number --output "$root/back.h5" && says '^.*back.h5: 2 events, 6 planes, [0-9]* hits$' &&
        "$bin/wiremill" run --quiet --engine sparse --model "$made/model-1.wmm" --input "$made/convert.h5" --output "$work/direct" &&
        "$bin/wiremill" run --quiet --engine sparse --model "$made/model-1.wmm" --input "$root/back.h5" --output "$work/back" &&
        for name in direct/convert back/back; do "$bin/wiremill" export "$work/$name.scores.h5" --to csv --output "$work"; done &&
        [ "$(wc -l <"$work/convert.scores.csv")" -gt 500 ] && cmp "$work/convert.scores.csv" "$work/back.scores.csv"
}
ok "events as Magnify files and a tree: the scores of the events themselves" back

small () { (cd "$root" && keep convert "$@"); }
"$python" tests/e2e/convert.py small "$root" || bail "no ROOT files"
ok "one tag of two, and hits by channel" small --planes two.root --tag gauss --tpc 3 --hits two.root:a --tick-us 0.5 \
    --column run=1 --column subrun=2 --column time=peak --column charge=charge --output gauss.h5
ok "... the planes' medians taken off" small --planes two.root --tag raw --pedestal median --output raw.h5
ok "... or one value" small --planes two.root --tag raw --pedestal 900 --output level.h5
ok "two anodes, four ticks a bin" small --planes anodes.root --tag 'decon{tpc}' --output anodes.h5
ok "histograms of other names" small --planes wires.root --plane tpc/first=5:0 --plane tpc/collection=5:2 --axis wire --event 9:8:7 \
    --output wires.h5
for name in a:numl ntuple:ntuple; do
    ok "hits alone, of ${name%:*}" small --hits "two.root:${name%:*}" --column run=4 --column tpc=1 --column wire=w --column time=peak \
        --output "${name#*:}.h5"
done
ok "their values are those of the ROOT files" "$python" tests/e2e/convert.py values "$root"

# A file that ROOT itself wrote (tests/e2e/magnify.py).
cp tests/e2e/magnify.root "$root"
for tag in gauss wiener threshold raw; do
    ok "a file of ROOT, $tag" small --planes magnify.root --tag $tag --hits magnify.root:hits --column time=peak --column hit_id=key \
        --output root-$tag.h5
done
ok "an RNTuple of ROOT" small --hits magnify.root:rhits --output root-tuple.h5
ok "their values are those that ROOT was given" "$python" tests/e2e/convert.py of_root "$root"

# Earlier versions of uproot give the same (make deps-root-old).
older () # Python
{
    (python=$1 && small --planes two.root --tag gauss --hits two.root:a --column run=1 --column subrun=2 --column time=peak --output old-two.h5 &&
        small --planes anodes.root --tag 'decon{tpc}' --output old-anodes.h5 &&
        small --planes magnify.root --tag gauss --hits magnify.root:hits --column time=peak --column hit_id=key --output old-root.h5) &&
        small --planes two.root --tag gauss --hits two.root:a --column run=1 --column subrun=2 --column time=peak --output new-two.h5 &&
        for pair in old-two:new-two old-anodes:anodes old-root:root-gauss; do
            "$python" tests/e2e/convert.py equal "$root/${pair%:*}.h5" "$root/${pair#*:}.h5" || return 1
        done && rm "$root"/old-*.h5 "$root/new-two.h5"
}
later () { (python=$1 && exits 5 small --hits magnify.root:rhits --output never.h5 && says 'rhits is an RNTuple of a later form than this uproot reads: pip install -U uproot'); }
lacks_lz4 () { (python=$1 && exits 1 small --planes magnify.root --tag wiener --output never.h5 && says "hu_wiener: install the 'lz4' .* with: pip install"); }
for old in build/venv-root-*/bin/python; do
    [ -x "$old" ] || continue
    version=$("$old" -c 'import uproot; print(uproot.__version__)') && old=$PWD/$old
    ok "uproot $version gives the same" older "$old"
    ok "... does not read an RNTuple of ROOT" later "$old"
    ok "... and names what LZ4 needs" lacks_lz4 "$old"
done

"$python" tests/e2e/convert.py bad "$root" || bail "no bad files"
refuses () # name, code, pattern, options
{
    ok "$1" refused_one "${@:2}"
}
refused_one ()
{
    rm -f "$root"/never.h5*
    exits "$1" small "${@:3}" --output never.h5 && says "^wiremill convert: $2" && [ "$(wc -l <"$work/said")" = 1 ] &&
        ! ls "$root"/never.h5*
}
flat=(--column tpc=0)
refuses "no such tree" 5 'two.root has no tree named b; its trees are: T_bad, Trun, a, ntuple$' --hits two.root:b
refuses "one of several trees" 5 'two.root has several trees: .*; choose one: two.root:TREE' --hits two.root
refuses "a tree without entries" 5 'bad.root: the tree empty has no entries' --hits bad.root:empty "${flat[@]}"
refuses "a list an entry" 5 'bad.root: wire of the tree jagged is jagged, .*flatten the tree' --hits bad.root:jagged
refuses "a list an entry of an RNTuple" 5 'bad.root: wire of the tree lists is jagged, std::vector' --hits bad.root:lists
refuses "two numbers an entry" 5 'bad.root: wire of the tree fixed is int32_t\[2\]; one number an entry' --hits bad.root:fixed
refuses "a branch of another length" 5 'short.root: wire of the tree t has 5 entries, the tree has 1083' --hits short.root:t
refuses "a wire between wires" 5 'bad.root: wire: entry 0 is 0.5; a whole number' --hits bad.root:half
refuses "an infinite wire" 5 'bad.root: wire: entry 0 is inf; a whole number' --hits bad.root:infinite
refuses "no such branch" 5 'two.root: the tree a has no branch when; it has channel, charge, event' --hits two.root:a --column time=when
refuses "a column without a branch" 5 'two.root: the tree a has no branch time; .*--column time=BRANCH' --hits two.root:a
refuses "channels without a map" 5 'hits by channel need a map' --hits two.root:a --column time=peak
refuses "a channel that the map lacks" 5 'the channel 41 of 3 hits is not in the map' --hits two.root:a --column time=peak \
    --planes two.root --plane hu_gauss=0:0 --event 0:0:7
wires=(--planes wires.root --plane tpc/first=0:0 --axis wire --event 0:0:7)
refuses "made channels and a map" 5 'with --axis wire the file.s channels are made up, so --channels cannot' "${wires[@]}" --channels few.csv
refuses "made channels and hits by channel" 5 'hits by channel need planes whose x counts channels; ' "${wires[@]}" --hits two.root:a \
    --column time=peak
refuses "a charge that the map lacks" 5 'two.root: hu_gauss has charge on [1-9][0-9]* channels that are not in the map, 0 first$' \
    --planes two.root --tag gauss --channels other.csv
refuses "a plane of the map's other planes" 5 'two.root: hv_gauss is read as plane 1, but the map has its channel 40 in plane 0; --plane' \
    --planes two.root --tag gauss --channels few.csv
refuses "a TPC of the map's other TPCs" 5 'two.root: hu_gauss is read as tpc 7, but the map has its channel 0 in tpc 0; --plane' \
    --planes two.root --plane hu_gauss=7:0 --channels few.csv
for name in key event_id; do
    refuses "a column that convert makes, $name" 5 "--column $name: the file makes this column itself; name " --hits two.root:a \
        --column time=peak --column $name=peak
done
ok "a column named as an argument" small --planes two.root --tag gauss --hits two.root:a --column run=1 --column subrun=2 \
    --column time=peak --column table=charge --column self=charge --output named.h5
refuses "two events in one file" 5 'cycles.root: hu_gauss is there 2 times: several events were written into one file; ' \
    --planes cycles.root --tag gauss --event 1:1:1
refuses "events of other numbers" 5 'two.root:a: no hit is of an event .* 0:0:7 and planes 1:2:7; --column run=NUMBER' --hits two.root:a \
    --column time=peak --planes two.root --tag gauss
refuses "several tags" 5 'two.root has several tags: gauss, raw; choose one: --tag' --planes two.root
refuses "no such tag" 5 'two.root has no histograms of the tag wiener; its tags are: gauss, raw' --planes two.root --tag wiener
refuses "no such histogram" 5 'two.root has no TH2 named hz; it has hu_gauss, ' --planes two.root --plane hz=0:0
refuses "names of another kind" 5 'wires.root has no histograms named hu_TAG.*--plane NAME=TPC:PLANE.*tpc/collection' --planes wires.root \
    --event 1:1:1
refuses "no event" 5 'wires.root has no tree Trun, .*--event RUN:SUBRUN:EVENT' --planes wires.root
refuses "one event in two files" 5 'two.root has the event 1:2:7, as two.root has; a file holds a whole event: write all anodes' --planes two.root two.root --tag gauss
refuses "raw ADC" 5 'two.root: the channels of hu_raw lie around 900, not 0: --pedestal median' --planes two.root --tag raw
refuses "nothing but zeros" 5 'planes.root: hu_zero hold nothing but zeros' --planes planes.root --tag zero --event 1:1:1
refuses "two channels a bin" 5 'planes.root: hu_wide: a bin of its channels holds 2' --planes planes.root --tag wide --event 1:1:1
refuses "half a tick a bin" 5 'planes.root: hu_half: a bin of its ticks is 0.5' --planes planes.root --tag half --event 1:1:1
refuses "ticks below 0" 5 'planes.root: hu_below: its ticks begin at -3' --planes planes.root --tag below --event 1:1:1
refuses "a channel of two planes" 5 'planes.root: several planes have the channel 0; .*--axis wire' --planes planes.root --tag twice \
    --event 1:1:1
refuses "damaged bytes" 5 'damaged.root: hu_noise cannot be read: ' --planes damaged.root --tag noise --event 1:1:1
for name in cut text nothing; do
    refuses "$name.root" 5 "$name.root: (h[uvw]_gauss )?cannot be read" --planes $name.root --tag gauss
done
refuses "no such file" 2 'missing.root: No such file' --planes missing.root
refuses "nothing to convert" 5 'there is nothing to convert'
there () { exits 2 small --planes two.root --tag gauss --output gauss.h5 && says 'gauss.h5 is there already; --force replaces it'; }
ok "a file that is there" there
ok "... is replaced by --force" small --planes two.root --tag gauss --output gauss.h5 --force
lacking () # as a Python without uproot
{
    mkdir "$work/lacking" && echo 'raise ModuleNotFoundError("none", name="uproot")' >"$work/lacking/uproot.py" &&
        PYTHONPATH=$work/lacking:$PYTHONPATH exits 1 small --planes two.root --output never.h5 &&
        says 'wiremill convert: wiremill.convert needs the package uproot: pip install uproot'
}
ok "without uproot it names the package" lacking
done_testing
