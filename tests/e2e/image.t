#!/bin/bash
# image.t - a network from images to images over whole planes: tiles, stitched to frames, as ONNX Runtime makes them;
# an interrupted campaign writes the same bytes; a held tile is NaN in the frame; a network without images is refused.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
$python tests/e2e/image.py make "$work" || bail "no network or events"
run () # output, arguments...
{
    local out=$1
    shift
    keep "$bin/wiremill" run --model "$work/unet.onnx" --quiet --spec "$work/image.yaml" --output "$work/$out" "$@"
}
check () { $python tests/e2e/image.py check "$work" "$work/$@"; }

whole ()
{
    keep "$bin/wiremill" run --model "$work/unet.onnx" --spec "$work/image.yaml" --output "$work/whole" \
        --input "$work/events.h5" &&
        says 'frames frame_dnnroi: an image of each plane, by tiles' && says '^  tiles +[0-9,]+ scored' && says '^  tiles/s +[0-9]' &&
        keep "$bin/wiremill" status "$work/whole" && says '^CAMPAIGN .* tiles/s ' && says '^tiles: [0-9,]+ scored' && ! says hit &&
        keep "$bin/wiremill" top --once "$work/whole" && says '^tiles +[0-9,]+ scored of' && ! says hit
}
ok "tiles of whole planes are scored" whole
ok "... and stitched to the frames of ONNX Runtime, in Wire-Cell's form" check whole/events.scores.h5

verified () { keep "$bin/wiremill" verify "$work/whole" && says 'every digest' && says 'no tile is scored again'; }
ok "verify compares the digest, and says that it computes nothing again" verified
draw () { keep "$bin/wiremill" show "$work/whole/events.scores.h5" --output "$work/whole.$1" "${@:2}"; } # kind, options...
drawn () { $python tests/e2e/image.py drawn "$work/whole.$1" "$work/whole/events.scores.h5" "${@:2}"; } # kind, event, planes
all () { draw html --event 1:0:6 && drawn html 6 0 1 2; }
ok "show draws all planes of an event" all
first () { mv "$work/events.h5" "$work/away.h5" && draw svg && drawn svg 5 0; local code=$?; mv "$work/away.h5" "$work/events.h5"; return $code; }
ok "... and the first event's, though its input is gone" first
no () { refused "$1" "$2" "$bin/wiremill" show "$work/whole/events.scores.h5" --output "$work/no.svg" "${@:3}"; }
ok "... no event that is not there" no 2 'has no frame of event 1:0:7' --event 1:0:7
ok "... no hit" no 2 'which have no hits: leave out --hit, --worst and --against' --hit 1:0:5:3
one () { refused 2 'a page has one event; name it by --event' "$bin/wiremill" show "$work/whole/events.scores.h5" --output "$work/no.html" --events all; }
ok "... not several events on a page" one
ok "... no plane that is not there" no 2 'no such plane; it has 3' --plane 3

# Wire-Cell's frames in, Wire-Cell's frames out.
frames () { run frames --input "$work/frames.h5" --channels "$work/channels.csv"; }
ok "frames are the input itself" frames
ok "... the output has their channels" check frames/frames.scores.h5 channels
equal () { $python tests/e2e/image.py equal "$work/whole/events.scores.h5" "$work/$1"; }
ok "... and the values of the same planes in the exchange layout, bit for bit" equal frames/frames.scores.h5

# Whatever is killed, the bytes are those of an undisturbed run.
same () { same_scores events "$work/$1" "$work/whole"; }
# shellcheck disable=SC2046 # it is split
more='producer-output-piece:1 producer-output-sync:1'
for point in worker-result-send:2 $(size '' "$more" "$more"); do
    out=${point%:*}
    killed () { WM_FAILPOINT=$point run "$out" --batch-hits 16 --input "$work/events.h5"; true; }
    resumed () { killed; run "$out" --batch-hits 16 --input "$work/events.h5" && same "$out"; }
    ok "killed at $out: the same command makes the same output" resumed
done

mask ()
{
    "$bin/wiremill" run --model "$work/mask.onnx" --quiet --spec "$work/image.yaml" --output "$work/mask" \
        --input "$work/events.h5" &&
        $python tests/e2e/image.py masked "$work/whole/events.scores.h5" "$work/mask/events.scores.h5"
}
[ "$(size test proof soak)" = test ] || ok "a network whose output is a bool: 0 and 1" mask

# Several tags of frames are the channels of the network.
$python tests/e2e/image.py stack "$work" || bail "no frames of three tags"
stack ()
{
    "$bin/wiremill" run --model "$work/stack.onnx" --quiet --spec "$work/stack.yaml" --output "$work/stack" \
        --input "$work/tags.h5" --channels "$work/channels.csv" &&
        check stack/tags.scores.h5 stack
}
ok "three tags as three channels, as ONNX Runtime does" stack

json () { exits 1 keep "$bin/wiremill" compare --json "$work/whole/events.scores.h5" "$work/pixel.h5" && says "$1"; }

# A tile that no engine may see is a hole in the frame, and has its name.
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f: f["roi_value/adc"][5] = float ("nan")' "$work/events.h5" || bail "no NaN"
spoilt ()
{
    exits 3 run spoilt --input "$work/events.h5" &&
        $python tests/e2e/image.py holes "$work" "$work/spoilt/events.scores.h5" &&
        "$bin/wiremill" show "$work/spoilt/events.scores.h5" --output "$work/spoilt.html" &&
        $python tests/e2e/image.py drawn "$work/spoilt.html" "$work/spoilt/events.scores.h5" 5 0 1 2
}
ok "a NaN holds its tiles: there, and only there, the frame has NaN" spoilt

# Networks and specifications that give no image are refused.
refuse () # code, pattern, keys that the specification loses, line that it gets, arguments...
{
    sed -E "/^($3):/d" "$work/image.yaml" >"$work/other.yaml" && echo "$4" >>"$work/other.yaml"
    refused "$1" "$2" "$bin/wiremill" run --model "$work/unet.onnx" --quiet --spec "$work/other.yaml" \
        --output "$work/no" --input "$work/frames.h5" --channels "$work/channels.csv" "${@:5}"
}
ok "scores without number are refused" refuse 5 'gives 2048 values a patch, a table .*result: image' result ''
ok "an image around hits is refused" refuse 5 'result: image goes with points: windows' 'points|step_.*' ''
ok "gaps between tiles are refused" refuse 5 'step_wire: 40 leaves gaps .* 32 wires' step_wire 'step_wire: 40'
ok "... and between their bins" refuse 5 'step_bin: 65 leaves gaps .* 64 drift bins' step_bin 'step_bin: 65'
ok "a table with an event's name is refused" refuse 5 "'5' could be an event's number" table 'table: 5'
ok "numl's tables are refused" refuse 2 'has result: image.*leave --layout out' none '' --layout numl
ok "a model whose image lies otherwise is refused" refused 5 'needs a model of one output of the patch.s shape' \
    "$bin/wiremill" run --model "$work/turned.onnx" --spec "$work/image.yaml" --output "$work/no" \
    --input "$work/events.h5"

# Images are compared pixel by pixel.
$python tests/e2e/image.py others "$work/whole/events.scores.h5" "$work" || bail "no other images"
ok "a frame of another shape is not drawn" refused 5 'flat.h5: 5/frame_dnnroi is not a frame of' \
    "$bin/wiremill" show "$work/flat.h5" --output "$work/no.svg"
ok "... nor one of a plane of 2^31 cells" refused 5 'wide.h5: .*a plane of 1048576 wires and 2048 drift bins; images of at most 67108864 cells a plane' \
    "$bin/wiremill" show "$work/wide.h5" --output "$work/no.html"
compare () # code, file, patterns...
{
    exits "$1" keep "$bin/wiremill" compare "$work/whole/events.scores.h5" "$work/$2" || return 1
    for pattern in "${@:3}"; do says "$pattern" || return 1; done
}
ok "compare: the same images" compare 0 frames/frames.scores.h5 '^2 frames of the same wires in both, 61,?500 pixels' \
    '^largest difference 0, mean 0, 0 pixels' '^the same within 1e-05'
ok "... a pixel that differs is named" compare 1 pixel.h5 ' 1 pixels above the tolerance' '^not the same' \
    '^the largest is in event 6, cryostat 0, TPC 0, plane 1, wire 2, drift bin 5: 0[.][0-9]+ in A, 4 in B$'
ok "... as JSON" json '"above": 1, "largest": 3[.][0-9]+, .*"worst": .*"plane": 1, "wire": 2, "bin": 5, "a": 0[.][0-9]+, "b": 4'
ok "... tiles that are held in one" compare 1 spoilt/events.scores.h5 '^[0-9]+ pixels of tiles that are held in B only' '^not the same'
ok "... frames of other wires, and of one file only" compare 1 other.h5 '^1 frame only in A: 6' '^1 frame of other wires .*: 5'
ok "... with scores" compare 5 scores.h5 'scores.h5 has no images'
ok "... no page" refused 5 'there is no page of them' "$bin/wiremill" compare "$work/whole/events.scores.h5" "$work/pixel.h5" \
    --page "$work/page.html"
ok "... of three files" refused 5 'give two files' "$bin/wiremill" compare "$work/whole/events.scores.h5" "$work/pixel.h5" "$work/pixel.h5"
ok "... a frame that is none" compare 5 flat.h5 'flat.h5: 5 is not a frame'
done_testing
