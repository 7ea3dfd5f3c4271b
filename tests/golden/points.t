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
        exits 3 run "$1" "out-$1" --spec waveform-200 "${frames[@]}" && right "$1" "$work/out-$1/frames.scores.h5"
}
for net in conv1d conv1d-last dense; do
    ok "windows of one wire of frames, $net: every row is the oracle's" network $net
done
os () { exits 3 run conv1d os --spec "$work/waveform.yaml" --layout both --input "$work/os.h5" && right conv1d "$work/os/os.scores.h5"; }
ok "the same planes as OpenSamples without a hit table" os
numl ()
{
    "$python" -c 'import h5py, sys
f = h5py.File (sys.argv[1])
for k in "wire", "time", "hit_id", "y_0":
    assert (f["waveform_table"][k][:].ravel ()[:200] == f["waveform"][k][:200]).all (), k' "$work/os/os.scores.h5"
}
ok "numl's table has wire and time too" numl
resumed ()
{
    WM_FAILPOINT=producer-output-piece:1 exits 75 run conv1d again --spec waveform-200 "${frames[@]}" &&
        [ ! -e "$work/again/frames.scores.h5" ] && exits 3 run conv1d again --spec waveform-200 "${frames[@]}" && same_scores frames "$work/out-conv1d" "$work/again"
}
ok "a campaign that was killed and resumed gives the same file" resumed
verified () { keep "$bin/wiremill" verify "$work/out-conv1d" && says '433 of 433|433 hits'; }
ok "verify scores the windows again" verified

printf 'points: windows\npatch: [16, 300]\nstep_wire: 3\nstep_bin: 77\ndrift_window: 2\namplitude: [1]
lifetime: none\nadc: [-10, 30]\nout: [-2, 18]\n' >"$work/tile.yaml"
cut ()
{
    exits 3 "$bin/wiremill" cut "${frames[@]}" --spec "$work/tile.yaml" --patches "$work/tiles.npy" &&
        "${points[@]}" cut "$work/frames.h5" "$work/map.csv" "$work/tiles.npy" 16 300 3 77
}
ok "windows of 16 x 300, also over the end of a plane and over one of 11 wires" cut

# What is refused.
refused_run () { exits "$1" run conv1d refused "${@:3}" && says "$2"; } # code, pattern, options...
ok "frames without a map" refused_run 5 'Wire-Cell frames: give their channel map by --channels' --spec waveform-200 \
    --input "$work/frames.h5"
ok "--planes with windows" refused_run 2 'windows, which have no hits: give the frames as --input' --spec waveform-200 \
    --input "$work/os.h5" --planes "$work/frames.h5" --channels "$work/map.csv"
printf 'patch: [1, 200]\n' >"$work/hits.yaml"
ok "--channels without --planes, of hits" refused_run 2 'planes is missing' --spec "$work/hits.yaml" "${frames[@]}"
cut_hits () { exits 5 keep "$bin/wiremill" cut "${frames[@]}" --patches "$work/no.npy" && says 'goes with points: windows'; }
ok "... in cut too" cut_hits
"${points[@]}" many "$work/many.h5" && sed 's/^patch:.*/patch: [1, 1]/; s/^step_bin:.*/step_bin: 1/' "$work/waveform.yaml" \
    >"$work/one.yaml"
many () { exits 5 keep "$bin/wiremill" cut --input "$work/many.h5" --spec "$work/one.yaml" --patches "$work/no.npy" && says 'more than 4294967295 windows of 1 wires x 1 bins'; }
ok "more windows than rows can be numbered" many
done_testing
