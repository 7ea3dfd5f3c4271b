#!/bin/bash
# verify.t - outputs of finished campaigns compared with their digests, and their hits scored again by another
# engine: equal, changed, and missing; how many hits, by what bound, and how a difference is reported.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
make_events three --events 1 --seed 6 --hits 2000 --tpcs 1 || bail "no events"
cp "$made/two.h5" "$made/three.h5" "$work/"
"$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --input "$work/*.h5" --quiet || bail "no campaign"

verify () { keep "$bin/wiremill" verify "$@"; }
judge () { $python -c "import json, sys; d = json.load (open (sys.argv[1])); assert $1, d" "$work/said"; } # condition on d, what --json said
whole='^2 outputs, [0-9.]+ [kM]B: every digest is as it was written$'
again ()
{
    verify "$work/out" --sample 150 --seed 3 && ! says 'the same engine' && says "$whole" &&
        says '^150 of [0-9,]+ hits scored again by reference/double' &&
        says '^largest difference .*, allowed 1e-05, as the (engines|outputs)'
}
ok "every digest, and a sample by the reference" again
all ()
{
    verify "$work/out" --sample 1000000 --engine openvino &&
        says '^([0-9,]+) of \1 hits .*openvino.*: that is all of them'
}
ok "every hit of both files by OpenVINO" all
json () { verify "$work/out" --sample 7 --json && judge 'd["hits"] == 7 and d["differ"] == 0 and d["largest"] < 1e-5 and d["outputs"] == 2 and not d["changed"] and d["sampled"]'; }
ok "as JSON" json
forty () { exits 1 verify "$work/out" --sample 40 --seed 9 --tolerance 1e-12 --json && says '"hits": 40'; }
same () { forty && cp "$work/said" "$work/first" && forty && cmp "$work/said" "$work/first"; }
ok "the same seed chooses the same hits" same
touch "$work/out/two.scores.h5"
ok "an output that was only touched is as it was written" again

# How many hits: ln (1 - P) / ln (1 - S), rounded up.
usual ()
{
    verify "$work/out" --engine sparse &&
        says '^4,603 of [0-9,]+ hits .*: if 1 hit in 1,000 were wrong, this would find it with 99 % confidence$'
}
ok "by default one wrong hit in 1,000 is found with 99 %: 4,603 hits" usual
sized ()
{
    verify "$work/out" --confidence 95% --share 0.01 --json &&
        judge 'd["hits"] == 299 and d["share"] == 0.01 and abs (d["confidence"] - 0.95) < 1e-9'
}
ok "one in 100 with 95 %: 299 hits" sized
odd ()
{
    verify "$work/out" --confidence .5 --share 0.3% --engine sparse &&
        says '^231 of .*: if 0.3 % of the hits were wrong, this would find it with 50 % confidence$'
}
ok "0.3 % with 50 %: 231 hits" odd
given ()
{
    verify "$work/out" --sample 150 --engine sparse &&
        says '^150 of .*: if 1 hit in 1,000 were wrong, this would find it with 13\.9. % confidence$'
}
ok "the confidence of 150 hits is printed" given
sure ()
{
    verify "$work/out" --sample 100 --share 0.5 --engine sparse &&
        says '^100 of .*: if 1 hit in 2 were wrong, this would find it with more than 99.99 % confidence$'
}
ok "... and is not rounded up to certainty" sure
refused ()
{
    exits 2 verify "$work/out" "$1" "$2" &&
        says "^wiremill verify: $1 takes a number above 0( and below 1, as 0.01 or 1%)?, not '$2'(; see|$)"
}
for wrong in "--confidence 2" "--confidence 100%" "--confidence 99" "--confidence nan" "--share 0" "--share -1%" \
        "--share few" "--tolerance 0" "--tolerance 1e-5x"; do
    ok "$wrong is refused" refused ${wrong% *} "${wrong#* }"
done

# Files that changed after they were written.
score=$work/out/two.scores.h5
run_again ()
{
    "$bin/wiremill" rebuild "$work/out" &&
        "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --input "$work/*.h5" --quiet && again
}
$python tests/e2e/make.py spoil "$score" 17 || bail "no score was changed"
changed ()
{
    exits 1 verify "$work/out" && says '^2 outputs, .*: 1 is not as it was written$' &&
        says "^  $score has (another digest|[0-9]+ bytes)" &&
        says "wiremill rebuild $work/out" && says '^(2,173) of \1 hits scored again' &&
        ! says 'differs? by more|wrongly'
}
ok "a score that is off by 0.01 in a finished file: the file is named, hits of the other are scored" changed
changed_json () { exits 1 verify "$work/out" --sample 5 --json && judge '[c["output"].endswith ("/two.scores.h5") and c["state"] == "damaged" for c in d["changed"]] == [True] and d["hits"] == 5 and not d["bad"]'; }
ok "... as JSON" changed_json
ok "the command that it prints repairs it" run_again
flip () { perl -e 'my ($f, $at) = @ARGV; open my $h, "+<", $f or die; seek $h, $at, 0; read $h, my $b, 1; seek $h, $at, 0; print $h chr (ord ($b) ^ 4)' "$1" "$2"; }
flip "$score" 9000 || bail "no bit was flipped"
bit () { exits 1 verify "$work/out" --sample 5 && says "^  $score has another digest than when it was written$"; }
ok "one bit of a file" bit
flip "$score" 9000
ok "... put back" again
shim=(env LD_PRELOAD="$proof/fail_shim.so" WM_SHIM_PROGRAM=wiremill-broker)
once ()
{
    keep "${shim[@]}" WM_SHIM_FAIL=stat:1:EIO WM_SHIM_HIT="$work/hit" "$bin/wiremill" verify "$work/out" --sample 5 &&
        says "$whole" && [ -s "$work/hit" ]
}
ok "one that seems to be another is compared once more, under the lock: a run may have written it again" once
unread () { exits 1 keep "${shim[@]}" WM_SHIM_FAIL=stat:1+:EIO "$bin/wiremill" verify "$work/out" --json && judge '[c["state"] for c in d["changed"]] == ["unreadable"] * 2 and d["changed"][0]["why"].startswith ("cannot be read: Input/output error")'; }
ok "files that cannot be read are not called changed" unread

# The progress of a long read is shown on a terminal only: a script that prints progress replaces the broker.
mkdir "$work/slow" && cp "$bin/wiremill" "$bin/wiremill-producer" "$bin/wiremill-worker" "$work/slow" &&
    cat >"$work/slow/wiremill-broker" <<END
#!/bin/sh
echo '{"read": 1500000000, "of": 3e9}'
exec "$bin/wiremill-broker" "\$@"
END
chmod +x "$work/slow/wiremill-broker"
long ()
{
    keep "$work/slow/wiremill" verify "$work/out" --sample 5 --engine sparse && says "$whole" &&
        ! says 'reading the outputs'
}
ok "progress is not printed into a file" long
shown ()
{
    TERM=xterm keep script -qec "'$work/slow/wiremill' verify '$work/out' --sample 5 --engine sparse" \
            /dev/null </dev/null && says 'reading the outputs: 1.50 GB of 3.00 GB.*every digest is as it was written'
}
ok "... but to a terminal" shown

# The bound that outputs state, on copies of them: the campaign's own have their digest.
sample_of () # its files: a sample of their hits, by wiremill-producer
{
    local file
    "$bin/wiremill-broker" --outputs --campaign "$work/out$beside" >"$work/outputs" &&
        $python -c 'import json, sys; print (json.load (open (sys.argv[1]))["pins"], end="")' \
            "$work/outputs" >"$work/pins" &&
        for file; do echo "$file" && echo "$work/$(basename "$file" .scores.h5).h5"; done >"$work/list" &&
        "$bin/wiremill-producer" sample --pins "$work/pins" --list "$work/list" --sample 30 --seed 4
}
mkdir "$work/copy"
stated () # wanted, text of two, text of three, options of the worker...
{
    local wanted=$1
    $python tests/e2e/make.py bound "$score" "$work/copy/two.scores.h5" "$2" &&
        $python tests/e2e/make.py bound "$work/out/three.scores.h5" "$work/copy/three.scores.h5" "$3" || return
    shift 3
    sample_of "$work/copy/two.scores.h5" "$work/copy/three.scores.h5" >"$work/sample" &&
        keep "$bin/wiremill-worker" --verify --engine sparse --cache "$work/out$beside/models" \
            "$@" <"$work/sample" && says "^tolerance $wanted$"
}
ok "the bound that all outputs state" stated "0.005 files" 5e-03 5e-03
ok "... or what strict fp32 holds, by which it was measured" stated "1e-05 fp32" 1e-09 1e-09
ok "... the larger of two" stated "0.003 files" 3e-03 1e-05
ok "... not where one states none" stated "1e-05 engines" 5e-03 none
ok "... or no number" stated "1e-05 engines" 5e-03 unknown
ok "... nor where another is asked for" stated "0.25 asked" 5e-03 5e-03 --tolerance 0.25
ok "a campaign that states one" "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/fast" \
        --input "$work/three.h5" --quiet --precision fast --max-error 4e-3
fast () { verify "$work/fast" --sample 200 && says ', allowed 0.004, as the outputs state \(max_error\)$'; }
ok "... is held to it" fast
named ()
{
    $python tests/e2e/make.py engines "$work/out/three.scores.h5" "$work/copy/three.scores.h5" &&
        sample_of "$score" "$work/copy/three.scores.h5" >"$work/sample" &&
        keep "$bin/wiremill-worker" --verify --engine reference --tolerance 1e-15 \
            --cache "$work/out$beside/models" <"$work/sample" && $python tests/e2e/make.py scored_by "$work/said"
}
ok "each row that differs is named with the engine that scored it" named
cp "$work/two.h5" "$work/three.h5"
ok "an input that is another now is refused by name" exits 5 verify "$work/out" --engine sparse
ok "... and reported" says 'three.h5 has .* hits, its output .*: it has changed'

$python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" || bail "no network"
"$bin/wiremill" run --model "$work/cnn.onnx" --output "$work/cnn" --quiet --input "$work/patches.npy" ||
    bail "no campaign of patches"
dense ()
{
    verify "$work/cnn" --sample 100 "$@" && says "^100 of 700 hits scored again by ${2:-$judge}" &&
        says '^largest difference .* from openvino-[^ ]*, allowed 0.0001, as'
}
damage () { says '^they were scored by the same engine before: .* finds damage'; }
judge=onnxruntime
[ -e "${WM_BUILD:-build/release}/lib/wm_onnxruntime.so" ] ||
    { judge=openvino && skip "ONNX Runtime is not here: OpenVINO is its own judge"; }
ok "ready-made patches of any network, by another engine" dense
[ $judge = openvino ] || ok "... which finds its errors, too" eval '! damage'
ok "by the engine that scored them" dense --engine openvino
ok "... which finds damage only" damage
without () { WM_ONNXRUNTIME_SO=$work/none.so judge=openvino dense; }
ok "without ONNX Runtime by OpenVINO" without

judged () { "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/judged" --input "$work/patch.npy" --engine reference --quiet >/dev/null && verify "$work/judged" --json && $python -c 'import json, sys; d = json.load (open (sys.argv[1])); assert d["same_engine"] and d["largest"] == 0, d' "$work/said"; }
$python -c 'import numpy, sys; numpy.save (sys.argv[1], numpy.random.default_rng (1).normal (0, 1, (3, 48, 48)).astype ("f4"))' "$work/patch.npy"
ok "scored by the reference, and again by it: reported" judged
: >"$work/judged/patch.scores.h5"
nothing ()
{
    exits 1 verify "$work/judged" --json && judge 'd["changed"] and d["outputs"] == 1 and not d["sampled"]' &&
        exits 1 verify "$work/judged" && says '^1 output, .*: 1 is not as it was written' &&
        says 'has 0 bytes, it was written with' && ! says 'scored again'
}
ok "its only output is emptied: no hit is scored" nothing

# Scores that were wrong before they were written: to the campaign, those of a patch that is another now.
$python tests/e2e/make.py nudge "$work/patches.npy" 17 || bail "no patch was changed"
differs ()
{
    exits 1 verify "$work/cnn" --seed 3 && says '^1 output, .*every digest is as it was written' &&
        says '^1 hit differs by more: one of the two computations is wrong' &&
        says "^  row 17 of $work/cnn/patches.scores.h5 .*: stored 0\.[0-9]+ by openvino[^ ]*, computed again 0\.[0-9]+ by $judge[^ ]*, allowed 0.0001$" &&
        says "On another machine, .wiremill verify --seed 3 --sample 4603 $work/cnn. scores the same hits" && says "if that machine agrees with this one, the stored rows were computed wrongly, .*wiremill kick -c $work/cnn $work/patches.npy" &&
        says 'if it agrees with the outputs, the scores were computed wrongly here' &&
        ! says 'computes wrongly|changed since'
}
ok "a hit whose scores are others than those computed again is named, and what tells who is wrong" differs
differs_json () { exits 1 verify "$work/cnn" --json && judge '[(b["row"], b["stored_by"][:8], b["input_changed"]) for b in d["bad"]] == [(17, "openvino", False)] and d["differ"] == 1 and d["hits"] == 700 and d["confidence"] == 1'; }
ok "... as JSON" differs_json
touch "$work/patches.npy"
explained ()
{
    exits 1 verify "$work/cnn" && says '^an input of these changed since it was scored, which explains differences'
}
ok "where the input has changed, that is reported too" explained
nobody () { exits 2 verify "$work/none" && says 'none does not exist'; }
ok "no campaign there" nobody
gone () { exits 2 verify "$work/out" "$@" "$work/none.h5" && says "[-]${1#-} .*none.h5 does not exist"; }
ok "no scores of others there" gone --against
ok "no copies there" gone --output
engine () { exits 5 verify "$work/cnn" --engine reference && says 'reference engine cannot run this model'; }
ok "an engine that cannot run the model" engine
sample ()
{
    exits 5 keep "$bin/wiremill-worker" --verify --cache "$work" <"$made/model-1.wmm" &&
        says 'not from wiremill-producer'
}
ok "standard input that is not a sample" sample
ok "a sample of nothing" exits 2 keep "$bin/wiremill-producer" sample --pins x
outputs () { exits 5 keep "$bin/wiremill-broker" --outputs --campaign "$work/none" && says 'no campaign'; }
ok "the outputs of no campaign" outputs
ok "a seed that is none" exits 2 verify "$work/out" --seed x
"$bin/wiremill" broker --model "$work/cnn.onnx" --output "$work/cnn" --listen "ipc://$work/b" 2>"$work/broker.log" &
broker=$!
until_true 60 test -e "$work/cnn$beside/endpoint.json" || bail "no broker"
busy () { exits 75 verify "$work/cnn" && says "process $broker is the broker"; }
ok "a campaign that a broker serves: later" busy
kill -TERM $broker
done_testing
