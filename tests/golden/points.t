#!/bin/bash
# points.t - networks other than the first: windows of one wire (1-D networks), windows of any size. Inputs are
# Wire-Cell frames without hits, OpenSamples, exchange; the oracle is NumPy.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
points=("$python" tests/golden/points.py)
"${points[@]}" frames "$work/frames.h5" "$work/map.csv" &&
    "${points[@]}" opensamples "$work/frames.h5" "$work/map.csv" "$work/os.h5" || bail "no frames"
"$bin/wiremill" spec --print waveform-200 >"$work/waveform.yaml"
run () # network, output, options...
{
    local net=$1 out=$2
    shift 2
    keep "$bin/wiremill" run --model "$work/$net.onnx" --output "$work/$out" --quiet "$@"
}
frames=(--input "$work/frames.h5" --channels "$work/map.csv")
right () { "${points[@]}" windows "$work/$1.onnx" "$work/frames.h5" "$work/map.csv" "$2" 1 150; } # network, file
network () # name
{
    "${points[@]}" waveform "$1" "$work/$1.onnx" &&
        exits 3 run "$1" "out-$1" --spec waveform-200 "${frames[@]}" && says '^  windows +[0-9,]+ scored' && right "$1" "$work/out-$1/frames.scores.h5"
}
for net in conv1d $(size "" "conv1d-last dense" "conv1d-last dense"); do
    ok "windows of one wire of frames, $net: every row is the oracle's" network $net
done
os () { exits 3 run conv1d os --spec "$work/waveform.yaml" --layout both --input "$work/os.h5" && right conv1d "$work/os/os.scores.h5"; }
ok "the same planes as OpenSamples without a hit table" os
report () { keep "$bin/wiremill" report "$work/out-conv1d" -o "$work/r.html" && grep -q '<title>Event 0:0:[0-9]*, TPC 1 plane 0, windows' "$work/r.html"; }
ok "the report finds the frames' map by itself" report
numl ()
{
    "$python" -c 'import h5py, sys
f = h5py.File (sys.argv[1])
for k in "cryostat", "tpc", "plane", "wire", "time", "hit_id", "y_0":
    assert (f["waveform_table"][k][:].ravel ()[:200] == f["waveform"][k][:200]).all (), k' "$work/os/os.scores.h5"
}
ok "numl's table has plane, wire and time too" numl
shown () { keep "$bin/wiremill" show "$work/os/os.scores.h5" --rows 2 && says '^run +event +tpc +plane +hit_id +wire +time +y_0' && says '^ *[0-9]+ +[0-9]+ +1 +[0-9]+ +1 +0 +150 ' && says ': [0-9]+ windows, [0-9]+ held; model '; }
ok "show prints them" shown
resumed ()
{
    WM_FAILPOINT=producer-output-piece:1 exits 75 run conv1d again --spec waveform-200 "${frames[@]}" &&
        [ ! -e "$work/again/frames.scores.h5" ] && exits 3 run conv1d again --spec waveform-200 "${frames[@]}" && same_scores frames "$work/out-conv1d" "$work/again"
}
ok "a campaign that was killed and resumed gives the same file" resumed

printf 'points: windows\npatch: [16, 300]\nstep_wire: 3\nstep_bin: 77\ndrift_window: 2\namplitude: [1]
lifetime: none\nadc: [-10, 30]\nout: [-2, 18]\n' >"$work/tile.yaml"
cut ()
{
    exits 3 "$bin/wiremill" cut "${frames[@]}" --spec "$work/tile.yaml" --patches "$work/tiles.npy" &&
        "${points[@]}" cut "$work/frames.h5" "$work/map.csv" "$work/tiles.npy" 16 300 3 77
}
ok "windows of 16 x 300, also over the end of a plane and over one of 11 wires" cut

# Frames of raw ADC are an input by their --pedestal.
"$python" -c 'import h5py, numpy as np, sys
with h5py.File (sys.argv[1]) as f, h5py.File (sys.argv[2], "w") as plain, h5py.File (sys.argv[3], "w") as raw:
    for name in (f"{e}/{d}" for e in f for d in f[e]):
        x = f[name][:]
        adc = "frame_" in name
        plain[name] = np.round (np.nan_to_num (x)).clip (-999, 999) if adc else x
        raw[name] = (plain[name][:] + 900).astype (np.int16) if adc else x' "$work/frames.h5" "$work/plain.h5" "$work/raw.h5" || bail "no raw ADC"
cut_as () { keep "$bin/wiremill" cut --spec "$work/tile.yaml" --channels "$work/map.csv" --input "$work/$1.h5" --patches "$work/$1.npy" "${@:2}"; }
raw () { cut_as plain && cut_as raw --pedestal median && cmp "$work/plain.npy" "$work/raw.npy"; }
ok "frames of raw ADC, with --pedestal" raw
pinned ()
{
    run conv1d raw --spec waveform-200 --channels "$work/map.csv" --input "$work/raw.h5" --pedestal 900 &&
        run conv1d plain --spec waveform-200 --channels "$work/map.csv" --input "$work/plain.h5" &&
        "$python" -c 'import h5py, sys
a, b = (h5py.File (p) for p in sys.argv[1:])
assert a.attrs["joined"] == b"pedestal 900" and a.attrs["channels"] == b.attrs["channels"] != b"", dict (a.attrs)
assert (a["waveform/y_0"][:] == b["waveform/y_0"][:]).all ()' "$work/raw/raw.scores.h5" "$work/plain/plain.scores.h5"
}
ok "... in a campaign, whose outputs state it" pinned
unchosen () { exits 5 run conv1d unchosen --spec waveform-200 --channels "$work/map.csv" --input "$work/raw.h5" && says 'lie around other values than 0 ADC: a pedestal; --pedestal median'; }
ok "... and without it they are refused" unchosen
drawn () { "$bin/wiremill" show "$work/raw/raw.scores.h5" --channels "$work/map.csv" --pedestal 900 --output "$work/raw.svg" && grep -q '</svg>' "$work/raw.svg"; }
ok "show draws their planes" drawn

# Several channels: the tags of frames.
"${points[@]}" tagged "$work/tagged.h5" "$work/map.csv" || bail "no frames"
printf 'table: waveform\npoints: windows\npatch: [12, 40]\nstep_wire: 5\nstep_bin: 33\nchannels: 3\ntags: [c, a, b]
drift_window: 1\namplitude: [1]\nlifetime: none\nadc: [-5000, 5000]\nout: [-100, 100]\nlabels: []\n' >"$work/tags.yaml"
tagged=(--spec "$work/tags.yaml" --channels "$work/map.csv")
tags () # first or last
{
    "${points[@]}" vgg "$1" 12 40 "$work/vgg-$1.onnx" &&
        exits 3 run "vgg-$1" "tags-$1" "${tagged[@]}" --input "$work/tagged.h5" &&
        "${points[@]}" tags c,a,b "$work/vgg-$1.onnx" "$work/tagged.h5" "$work/map.csv" \
            "$work/tags-$1/tagged.scores.h5" 12 40 5 33
}
[ "$(size test proof soak)" = test ] || ok "windows of three tags as channels first" tags first
ok "windows of three tags as channels last" tags last
partial ()
{
    "$python" -c 'import h5py, shutil, sys
shutil.copy (*sys.argv[1:])
with h5py.File (sys.argv[2], "a") as f:
    first = min (f, key=int)
    for d in "frame_a", "channels_a", "tickinfo_a":
        f[f"99/{d}"] = f[f"{first}/{d}"][:]' "$work/tagged.h5" "$work/partial.h5" &&
        exits 3 run vgg-last partial "${tagged[@]}" --input "$work/partial.h5" && says '1 frame without frame_c .first 99.: not read' &&
        "$bin/wiremill" compare "$work/tags-last/tagged.scores.h5" "$work/partial/partial.scores.h5"
}
ok "a frame that lacks a tag is named, and the others are read" partial
fewer ()
{
    head -n 30 "$work/map.csv" >"$work/fewer.csv" &&
        run conv1d fewer --spec waveform-200 --channels "$work/fewer.csv" --input "$work/plain.h5" &&
        says '1 channel of frame 4 .129. is not in .*fewer.csv, and not read: add a line for each'
}
ok "channels that the map lacks are named" fewer
one_of () { exits 0 keep "$bin/wiremill" verify "$work/tags-last" --sample 40 && says '40 of 246'; }
ok "verify scores some of them again" one_of

# Pictures of frames alone: the patch has an image for each tag, whose darkest pixel is that of wiremill cut.
picture ()
{
    "$bin/wiremill" show "$work/tags-last/tagged.scores.h5" --channels "$work/map.csv" --hit 0:0:4:3 --output "$work/tags.html" &&
        exits 3 "$bin/wiremill" cut "${tagged[@]}" --input "$work/tagged.h5" --patches "$work/tags.npy" &&
        "$python" -c 'import numpy, re, sys
page, patches = open (sys.argv[1]).read (), numpy.load (sys.argv[2])
got = re.findall ("saw it, channel ([0-2], [abc])[.] 12 wires, 40 bins of 1 ticks; the darkest pixel is (.*)[.]<", page)
want = [(f"{k}, {tag}", f"{abs (patches[3].reshape (3, -1)[k]).max ():.3g}") for k, tag in enumerate ("cab")]
assert got == want and want[0][1] != "0", (got, want)
got = re.findall ("<h2 id=[^>]*>(.*)</h2>", page)
assert len (got) == 3 and all (g.startswith ("Cryostat 0, TPC 1, plane 0") and g.endswith (f"channel {w[0]}") for g, w in zip (got, want)), got' \
            "$work/tags.html" "$work/tags.npy"
}
ok "a picture of windows of frames, a patch of three channels" picture
rows () { keep "$bin/wiremill" show "$work/tags-last/tagged.scores.h5" --rows 2 && says 'hit_id  wire  time +y_0' && says '4    1      0       1     0    33  0\.'; }
ok "its rows with wire and time" rows
mapless () { keep "$bin/wiremill" show "$work/tags-last/tagged.scores.h5" -o "$work/of-output.svg" && test -s "$work/of-output.svg"; }
ok "... by the map that the output names" mapless

# Space points: a channel a plane.
"${points[@]}" spacepoints "$work/sp.h5" || bail "no space points"
printf 'table: triples\npoints: spacepoints\nchannels: 3\npatch: [12, 40]\ndrift_window: 2\namplitude: [1]\nlifetime: none
adc: [-5000, 5000]\nout: [-100, 100]\nlabels: []\n' >"$work/triples.yaml"
triples ()
{
    exits 3 run vgg-last triples --spec "$work/triples.yaml" --input "$work/sp.h5" &&
        says '1 space point of 1 event that has no hits .first 1:0:5.: held' && says ' 1 no such event .1 event.' &&
        says '^  space points +[0-9,]+ scored.*, 10 held$' && says 'held: 10 space points of .*: 3 bad wire, 6 bad pixel, 1 no such event .1 event.' && says 'hits_held=10 ' &&
        "${points[@]}" triples "$work/sp.h5" "$work/triples/sp.scores.h5" 12 40
}
ok "space points of three planes: every row is the oracle's, broken ones are held" triples
dots () { "$bin/wiremill" show "$work/triples/sp.scores.h5" --event 1:0:4 --plane 2 -o "$work/sp.svg" && grep -q '>Event 1:0:4, TPC 2 plane 2, space points by what they are called<' "$work/sp.svg"; }
ok "... and drawn on a plane" dots


# What is refused.
refused_run () { exits "$1" run conv1d refused "${@:3}" && says "$2"; } # code, pattern, options...
ok "frames without a map" refused_run 5 'Wire-Cell frames: give their channel map by --channels' --spec waveform-200 \
    --input "$work/frames.h5"
ok "--planes with windows" refused_run 2 'windows, which have no hits: give the frames as --input' --spec waveform-200 \
    --input "$work/os.h5" --planes "$work/frames.h5" --channels "$work/map.csv"
printf 'patch: [1, 200]\n' >"$work/hits.yaml"
missing () { exits 5 run vgg-last missing "${tagged[@]}" --input "$work/frames.h5" && says 'group 4 has no dataset frame_c'; }
sed 's/^patch:.*/patch: [10, 40]/' "$work/tags.yaml" >"$work/other.yaml"
size_of () { exits 5 run vgg-last other --spec "$work/other.yaml" "${frames[@]}" && says 'patches of .3, 10, 40., the model takes .12, 40, 3.: write patch: .12, 40. there'; }
ok "a patch of another size than the model's" size_of
ok "a tag that a frame lacks" missing
tagless () { exits 5 run vgg-last tagless --spec "$work/tags.yaml" --input "$work/os.h5" && says 'tags, which are of Wire-Cell frames'; }
ok "tags of OpenSamples" tagless
"${points[@]}" spacepoints "$work/twice.h5" twice || bail "no space points"
twice () { exits 5 run vgg-last twice --spec "$work/triples.yaml" --input "$work/twice.h5" && says 'event 1:0:4 has hit 0 twice'; }
ok "a hit number twice in an event" twice
tableless ()
{
    "$python" -c 'import h5py, sys; del h5py.File (sys.argv[1], "a")["spacepoint_table"]' "$work/twice.h5" &&
        exits 5 run vgg-last tableless --spec "$work/triples.yaml" --input "$work/twice.h5" && says 'reads numl.s spacepoint_table'
}
ok "no table of space points" tableless
ok "--channels without --planes, of hits" refused_run 2 'planes is missing' --spec "$work/hits.yaml" "${frames[@]}"
cut_hits () { exits 5 keep "$bin/wiremill" cut "${frames[@]}" --patches "$work/no.npy" && says 'goes with points: windows'; }
ok "... in cut too" cut_hits
"${points[@]}" many "$work/many.h5" && sed 's/^patch:.*/patch: [1, 1]/; s/^step_bin:.*/step_bin: 1/' "$work/waveform.yaml" \
    >"$work/one.yaml"
many () { exits 5 keep "$bin/wiremill" cut --input "$work/many.h5" --spec "$work/one.yaml" --patches "$work/no.npy" && says 'more than 4294967295 windows of 1 wires x 1 bins'; }
ok "more windows than rows can be numbered" many
done_testing
