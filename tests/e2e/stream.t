#!/bin/bash
# stream.t - a readout that does not fit memory: scored by segments, with the patches and scores of the whole.
#
# Of 16.8 million ticks, just above what is read at once; `make proof`: of 200 million, 100 s. Memory has the same bounds.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
export WM_TIME_SCALE=10
ticks=$(size 16800001 200000000 1000000000) many=$(size 10 1000 20000)
make_model small-1 || bail "no model"
stream () { $python tests/e2e/stream.py "$@"; }
stream files "$work" "$ticks" "$many" >&2 || bail "no streams"
printf '%s\n' 'patch: [16, 16]' 'adc: [-10, 30]' 'out: [-5, 15]' >"$work/spec.yaml"
cp "$work/spec.yaml" "$work/none.yaml" && echo 'lifetime: none' >>"$work/none.yaml"

modes=(full,maxmean own,mean)
[ "${WM_SIZE:-test}" = test ] || modes+=(full,mean full,maxpool own,maxpool own,maxmean)
ok "patches are NumPy's of the whole, and have the bits of a short event's; with a lifetime that is finite to the end" \
    stream cut "$bin/wiremill" "$work/long.h5" "$work" "$work/short.h5" "${modes[@]}" "full,mean,$(size 1e7 1e8 1e9)"
cut=("$bin/wiremill" cut --spec "$work/none.yaml" --patches "$work/cut.npy")
odd ()
{
    exits 3 keep "${cut[@]}" --input "$work/odd.h5" && says '[: ]4 bad time' &&
        says 'event 7:0:1, ticks 24522 to 49205: the hit of row [0-9]+, tick 24596.25, is held: bad wire' &&
        says 'event 7:0:1, ticks 122826 to 147509: the hit of row [0-9]+, tick 122[0-9]+\.[0-9]+, is held: '
}
ok "rows in no order; hits are held by row and own time" odd

# Runs a command; none of its processes may take more than so much resident memory.
peak () # KiB, command...
{
    python3 -S -c 'import resource, subprocess, sys
code = subprocess.call (sys.argv[2:])
kib = resource.getrusage (resource.RUSAGE_CHILDREN).ru_maxrss
print ("largest process:", kib, "KiB of", sys.argv[1])
sys.exit (code if kib <= int (sys.argv[1]) else 99)' "$@"
}
slow_engine
run=("$bin/wiremill" run --model "$made/model-small-1.wmm" --spec "$work/none.yaml" --quiet --workers 1 --batch-hits 8 --engine openvino)
whole ()
{
    keep peak 100000 "${run[@]}" --input "$work/long.h5" --output "$work/whole" && grep largest "$work/said" &&
        ! grep -E 'event 1 is in|float32' "$work/said"
}
ok "a campaign of $ticks ticks, no process above 100 MB" whole
grep '^largest' "$work/said" | sed 's/^/# /'
within () { (ulimit -v 400000 && exec "$bin/wiremill-producer" cut "${cut[@]:2}" --input "$work/long.h5"); }
# Sanitizers reserve more addresses than that.
[ -n "$SAN" ] || ok "... and its patches are cut within 400 MB of address space" within
"${run[@]}" --input "$work/short.h5" --output "$work/short" >/dev/null 2>&1 || bail "no scores of the short event"
ok "scores are ONNX Runtime's of NumPy's patches, with the bits of a short event's, rows in input order" stream scores \
    "$work/whole/long.scores.h5" "$work/long.h5" "$made/model-small-1.onnx" "$(size 100 3000 3000)" "$work/short/short.scores.h5"
segment () # the numbers of files' hits are those of their rows
{
    local hit=57 tick
    tick=$($python -c 'import h5py, sys; print ("%.2f" % h5py.File (sys.argv[1])["hit_table/time"][int (sys.argv[2])])' "$work/long.h5" $hit)
    "$bin/wiremill" show "$work/whole/long.scores.h5" --hit 7:0:1:$hit --output "$work/hit.html" &&
        grep "<h3>Hit $hit on wire [0-9]* at tick $tick</h3>" "$work/hit.html" && [ "${tick%.*}" -gt 24522 ] &&
        grep -q '>tick after [1-9][0-9]*<' "$work/hit.html" && grep -q 'r="9"' "$work/hit.html"
}
ok "the picture of a hit is that of its segment" segment
alone () # damages samples of the first segments: a picture of the last ones does not read them
{
    cp "$work/long.h5" "$work/hurt.h5" && $python - "$work/hurt.h5" <<'PYTHON' &&
import sys
import h5py
with h5py.File(sys.argv[1]) as f:
    chunk = f["roi_value/adc"].id.get_chunk_info(0)
with open(sys.argv[1], "r+b") as f:
    f.seek(chunk.byte_offset)
    f.write(bytes(chunk.size))
PYTHON
        show=("$bin/wiremill" show "$work/whole/long.scores.h5" --input "$work/hurt.h5" --output "$work/hit.html") &&
        exits 5 "${show[@]}" --hit 7:0:1:0 && "${show[@]}" --hit 7:0:1:$((rows - 5))
}
rows=$($python -c 'import h5py, sys; print (len (h5py.File (sys.argv[1])["hit_table/time"]))' "$work/long.h5")
ok "... and no other segment is read for it" alone

WM_KILLER_SLOW_MS=500 "${run[@]}" --input "$work/long.h5" --output "$work/again" >/dev/null 2>&1 &
pid=$!
some () { "$bin/wiremill" status --campaign "$work/again$beside" --json | tr -d " \n" | grep -q "\"hits\":{\"announced\":[0-9]*,\"done\":[1-9]"; }
until_true 60 some || bail "nothing is scored"
children=$(cat /proc/$pid/task/$pid/children)
kill -9 $pid && wait $pid 2>/dev/null
gone () { local p; for p in $children; do ! kill -0 "$p" || return 1; done; }
resumed ()
{
    until_true 60 gone && "${run[@]}" --input "$work/long.h5" --output "$work/again" &&
        same_scores long "$work/again" "$work/whole"
}
ok "a command that is killed: the same command makes the same file" resumed

# What a stream may not be.
bad () # exit code, pattern, options of cut
{
    local code=$1 pattern=$2
    shift 2
    refused "$code" "$pattern" "$bin/wiremill" cut --patches "$work/cut.npy" "$@"
}
ok "a lifetime that is not finite" bad 5 'lifetime: exp is a factor of inf at tick 16800000 \(tau_us 10000\); write lifetime: none' \
    --spec "$work/spec.yaml" --input "$work/facts.h5"
sed 's/none/table/' "$work/none.yaml" >"$work/table.yaml"
ok "a table of lifetimes" bad 5 'lifetime: table is not for a stream of 16800001 ticks' --spec "$work/table.yaml" \
    --input "$work/facts.h5"
ok "32-bit columns are read, and times as float32 named" bad 0 'hit_table/time is float32, which has no odd ticks' \
    --spec "$work/none.yaml" --input "$work/facts.h5"
cp "$work/none.yaml" "$work/windows.yaml" && echo 'points: windows' >>"$work/windows.yaml"
ok "windows" bad 5 'more than 16777216 ticks: points: windows is not for streams' --spec "$work/windows.yaml" --input "$work/facts.h5"
long=(--spec "$work/none.yaml" --input)
ok "more ticks than any stream" bad 5 'n_tick is 4294967297, not 1 to 4294967296' "${long[@]}" "$work/ticks.h5"
ok "samples behind the end" bad 5 'roi_table/n row 5: [0-9]+ samples from tick 16799998 on lie outside the readout of 16800001 ticks' \
    "${long[@]}" "$work/behind.h5"
ok "samples before the start" bad 5 'row 5: [0-9]+ samples from tick -1 on lie outside' "${long[@]}" "$work/before.h5"
ok "more samples than there are" bad 5 'roi_table/n adds up to more than the [0-9]+ samples' "${long[@]}" "$work/many.h5"
other='16777217 ticks, more than 16777216: longer readouts are read in the exchange layout only'
ok "OpenSamples as long" bad 5 "$other" "${long[@]}" "$work/samples.h5"
printf 'channel,cryostat,tpc,plane,wire\n0,0,0,0,0\n' >"$work/map.csv"
ok "frames as long" bad 5 "$other" "${long[@]}" "$work/hits.h5" --planes "$work/frames.h5" --channels "$work/map.csv" \
    --hit-time ticks
done_testing
