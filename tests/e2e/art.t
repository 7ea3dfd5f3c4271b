#!/bin/bash
# art.t - ops/art, compiled against stand-ins of art and LArSoft: the tool's scores, a dump, a campaign, a merge.
#
# SAN=address,undefined with WM_BUILD: the programs are compiled with that sanitizer too.
# The includes of ops/art are made to lead to tests/art/*.h, which is all that is known of art here.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
lib=$PWD/${WM_BUILD:-build/release}/lib
side=${small:+16} side=${side:-48}
make_model "${small}1" || bail "no model"
model=$made/model-${small}1

# Every header of art or LArSoft that ops/art includes: those that are known to exist.
headers=(
    art/Framework/Core/{EDAnalyzer,EDProducer,ModuleMacros}.h art/Framework/Principal/{Event,Handle}.h
    art/Framework/Services/Registry/ServiceHandle.h art/Utilities/ToolMacros.h canvas/Utilities/InputTag.h
    cetlib/search_path.h cetlib_except/exception.h fhiclcpp/types/{Atom,Sequence,Table}.h
    larcore/Geometry/WireReadout.h lardata/ArtDataHelper/MVAWriter.h
    lardata/DetectorInfoServices/Detector{Clocks,Properties}Service.h lardataobj/RecoBase/{Hit,Wire}.h
    larevt/CalibrationDBI/Interface/ChannelStatus{Provider,Service}.h
    larrecodnn/ImagePatternAlgs/ToolInterfaces/IPointIdAlg.h messagefacility/MessageLogger/MessageLogger.h
)
for header in "${headers[@]}"; do
    mkdir -p "$work/include/${header%/*}" && echo '#include "tests/art/larsoft.h"' >"$work/include/$header"
done
# Compiling takes longer than all else here: the program is kept for as long as its sources are the same.
sources=(tests/art/*.h tests/art/*.cc ops/art/*.cc ops/lib/wiremill.h tests/e2e/art.t)
program=$made/art-$(cat "${sources[@]}" | sha256sum | cut -c1-16)
compile ()
{
    rm -f "$made"/art-*
    # shellcheck disable=SC2046 # words are meant
    c++ -std=c++17 -Wall -Wextra -Wshadow -Werror ${SAN:+-g "-fsanitize=$SAN"} -I. -Iops/lib -I"$work/include" $(pkg-config --cflags hdf5) \
        tests/art/run.cc -L"$lib" -lwiremill $(pkg-config --libs hdf5) -Wl,-rpath,"$lib" -pthread \
        -o "$program.part" && mv "$program.part" "$program"
}
example ()
{
    cc -O1 ${SAN:+-g "-fsanitize=$SAN"} -Iops/lib ops/lib/examples/score.c -L"$lib" -lwiremill -Wl,-rpath,"$lib" -o "$work/score"
}
ok "tool and modules are compiled as C++17 without warnings" made_once "$program" compile
ok "the C example is compiled" example
run () { timeout 300 "$program" "$@"; }

# Configurations are those of ops/art/wiremill.fcl; a test changes lines.
tool () # lines of fcl: $work/tool.fcl
{
    { cat ops/art/wiremill.fcl && printf '%s\n' 'tool: { @table::wiremill_pointidalg' \
        "NNetModelFile: \"model-${small}1.wmm\"" "PatchSizeW: $side" "PatchSizeD: $side" "$@" '}'; } >"$work/tool.fcl"
}
export FW_SEARCH_PATH=$work:$made
n=$(size 600 4000 40000)
bits ()
{
    tool && run patches "$work/patches.f4" $side "$n" &&
        run scores "$work/tool.fcl" "$work/patches.f4" 8 >"$work/tool.scores" &&
        "$work/score" "$model.wmm" "$work/patches.f4" >"$work/c.scores" &&
        [ "$(sort -u "$work/c.scores" | wc -l)" -gt $((n / 2)) ] && cmp "$work/c.scores" "$work/tool.scores"
}
ok "both forms of Run, in 8 threads with tools of their own: the bits of the C example" bits
unfit () # pattern, lines of fcl
{
    tool "${@:2}" && exits 1 keep run scores "$work/tool.fcl" "$work/patches.f4" 1 && says "$1"
}
empty () { tool 'TritonURL: ""' && run scores "$work/tool.fcl" "$work/patches.f4" 1 | cmp "$work/c.scores" -; }
ok "an empty TritonURL is this process" empty
ok "any other is refused" unfit 'TritonURL is "localhost:8001".*write TritonURL: ""' 'TritonURL: "localhost:8001"'
ok "a key that the interface does not have" unfit 'unsupported parameter Precision' 'Precision: "fast"'
ok "no model" unfit 'NNetModelFile is missing' 'NNetModelFile: ""'
ok "a model that is not there" unfit 'nowhere.wmm.*No such file' 'NNetModelFile: "/proc/nowhere.wmm"'
ok "patches of another size" unfit "takes patches of $side x $side, but PatchSizeW is 44" 'PatchSizeW: 44'
ok "too few labels" unfit 'NNetOutputs does not fit .* in this order: ([^ ]+ ){3}[^ ]+\. Write' \
    'NNetOutputs: ["track", "em"]'
swapped () # the model's own labels, the first two the other way round
{
    local label
    read -ra label <<<"$(sed -n 's/.*in this order: \(.*\)\. Write.*/\1/p' "$work/said")"
    [ ${#label[@]} = 4 ] && unfit 'Write NNetOutputs in that order' \
        "NNetOutputs: [\"${label[1]}\", \"${label[0]}\", \"${label[2]}\", \"${label[3]}\"]"
}
ok "labels in another order" swapped

# Events of the stand-in to a file, through a campaign, and back into the events.
dump () # output, lines of fcl
{
    { cat ops/art/wiremill.fcl && printf '%s\n' 'dump: { @table::wiremill_dump' "OutputName: \"$1\"" "${@:2}" '}'; } \
        >"$work/dump.fcl" && run module "$work/dump.fcl" dump 2
}
merge () # score file, events, lines of fcl
{
    { cat ops/art/wiremill.fcl && printf '%s\n' 'merge: { @table::wiremill_merge' "ScoreFiles: [\"$1\"]" "${@:3}" \
        '}'; } >"$work/merge.fcl" && run module "$work/merge.fcl" merge "$2"
}
echo "patch: [$side, $side]" >"$work/spec.yaml"
campaign () # input, output folder: one hit is on no wire, so that it is held
{
    exits 3 "$bin/wiremill" run --quiet --engine sparse --model "$model.wmm" --spec "$work/spec.yaml" --input "$1" \
        --output "$2"
}
out=$work/out/events.scores.h5
dumped ()
{
    dump "$work/events.h5" >"$work/made" && [ ! -e "$work/events.h5.part" ] && [ "$(wc -l <"$work/made")" = 1430 ] &&
        build/venv/bin/python tests/art/dumped.py "$work/events.h5" | cmp "$work/made" -
}
if [ -x build/venv/bin/python ]; then
    ok "a dump has the wires and hits of its events" dumped
else
    dump "$work/events.h5" >"$work/made" 2>&1
    skip "no build/venv (make test makes it)"
fi
there_and_back ()
{
    campaign "$work/events.h5" "$work/out" &&
        merge "$out" 2 'HeldHits: "zero"' >"$work/merged" && [ "$(wc -l <"$work/merged")" = 720 ] &&
        exits 3 "$bin/wiremill" cut --input "$work/events.h5" --spec "$work/spec.yaml" --patches "$work/cut.npy" &&
        npy_values "$work/cut.npy" >"$work/cut.f4" && tool &&
        run scores "$work/tool.fcl" "$work/cut.f4" 1 >"$work/direct" &&
        [ "$(sort -u "$work/direct" | wc -l)" -gt 500 ] &&
        [ "$(grep -n nan "$work/direct")" = '372:nan nan nan nan' ] &&
        sed 's/nan/0/g' "$work/direct" | cmp "$work/merged" -
}
ok "dump, wiremill run, merge: the scores that the tool gives to the same patches" there_and_back
chosen ()
{
    dump "$work/one.h5" 'Views: [1]' && campaign "$work/one.h5" "$work/one" &&
        merge "$work/one/one.scores.h5" 1 'Views: [1]' >"$work/chosen" &&
        [ "$(head -n 180 "$work/chosen" | sort -u)" = '0 0 0 0' ] &&
        cmp <(tail -n 180 "$work/chosen") <(sed -n 181,360p "$work/merged")
}
ok "one view: hits of the others have zeros" chosen
unmerged () # pattern, arguments of merge
{
    exits 1 keep merge "${@:2}" && says "$1"
}
ok "merge: a hit without a row" unmerged 'event 5:1:1, hit 0: no row in 1 ScoreFiles' "$work/one/one.scores.h5" 1
ok "... an event without rows" unmerged 'event 5:1:3, hit 0: no row' "$out" 3 'HeldHits: "zero"'
ok "... a hit with two rows" unmerged 'row 0 has hit_id 0.*this one twice' "$out\", \"$out" 1
ok "... a hit that was not scored" unmerged "$out:5:1:2:11 .status 2. was not scored.*HeldHits: \"zero\"" "$out" 2
ok "... another word for that" unmerged 'HeldHits is "keep"; write "refuse" or "zero"' "$out" 2 'HeldHits: "keep"'
ok "... a file that is not there" unmerged 'nowhere.h5 cannot be opened' /proc/nowhere.h5 1
ok "... a file that is no output" unmerged 'has no column emtrkmichel/run' "$work/events.h5" 1
ok "... a column that is not there" unmerged 'no column emtrkmichel/muon' "$out" 1 \
    'NNetOutputs: ["muon", "em", "none", "michel"]'
ok "... three labels" unmerged 'NNetOutputs has 3 labels' "$out" 1 'NNetOutputs: ["em", "none", "michel"]'
undumped () { exits 1 keep dump /proc/nowhere/events.h5 && says '/proc/nowhere/events.h5.part cannot be created'; }
ok "dump: no such folder" undumped
unwired ()
{
    exits 1 keep dump "$work/no.h5" 'WireLabel: "none"' && says 'ProductNotFound: none' && [ ! -e "$work/no.h5" ]
}
ok "... no wires; a job that fails leaves no file of that name" unwired
done_testing
