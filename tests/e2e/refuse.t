#!/bin/bash
# refuse.t - what a campaign refuses, by name, with the right exit code, losing nothing.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_model "${small}2" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/out" --quiet)

ok "an unknown verb names the nearest" refused 2 "did you mean status" "$bin/wiremill" statsu
ok "an unknown option names the nearest" refused 2 "did you mean --model" "${run[@]}" --modle x
ok "a number out of range" refused 2 "whole number from 1" "${run[@]}" --workers 0
ok "an engine that nobody knows" refused 2 "engine takes auto.sparse.*not 'sprase'" "${run[@]}" --engine sprase \
        --input "$made/one.h5"
ok "an empty name" refused 2 "worker is empty, perhaps by an unset variable" "$bin/wiremill" drain "$work" --worker ''
ok "an empty argument" refused 2 "an argument is empty" "$bin/wiremill" status ''
ok "an empty folder" refused 2 "output is empty" "$bin/wiremill" import "$made/model-${small}1.onnx" -o ''
ok "an = behind a letter" refused 2 "type -o x or --output=x" "$bin/wiremill" import "$made/model-${small}1.onnx" -o=x
ok "a ~ that the shell left" refused 2 'type "\$HOME/o", or \./~/o' "$bin/wiremill" import "$made/model-${small}1.onnx" -o '~/o'
full () { exits 1 "$@" >/dev/full 2>"$work/said" && says "stdout cannot be written: No space left on device"; }
for program in wiremill wiremill-broker wiremill-producer wiremill-worker; do
    ok "$program: what stdout does not take is an error" full "$bin/$program" --help
done
closed () { exits 1 "$@" >&- 2>"$work/said" && says "^wiremill(-producer)?: stdout cannot be written: Bad file descriptor; what was printed there is incomplete$"; }
ok "... nor a closed one" closed "$bin/wiremill" --help
ok "... of a verb of another program" closed "$bin/wiremill" model --help
ok "a verb that does not exist" refused 2 "there is no verb .rapport" "$bin/wiremill" rapport
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if chmod 711 "$work" && "${as[@]}" "$bin/wiremill" --version >/dev/null 2>&1; then
    mkdir -p "$work/runs/1" "$work/runs/2" && cp "$made/one.h5" "$work/runs/1" && chmod 755 "$work/runs" "$work/runs/1" &&
        chmod 0 "$work/runs/2"
    ok "a folder of a pattern that may not be read: its files are not left out" \
        refused 2 "the folder $work/runs/2 of '$work/runs/[*]/[*].h5' cannot be read: Permission denied" \
        "${as[@]}" "${run[@]}" --input "$work/runs/*/*.h5"
    mv "$work/runs/2" "$work/runs/lost+found"
    found () { "${as[@]}" "${run[@]}" --input "$work/runs/*/*.h5" >"$work/said" 2>&1; [ -s "$work/said" ] && ! says 'lost+found'; }
    ok "... but for lost+found, which is the file system's" found
    chmod 755 "$work/runs/lost+found"
else
    skip "needs setpriv where root runs the tests, to be another user"
fi
ok "no such input" refused 2 "no file matches" "${run[@]}" --input "$work/none-*.h5"
ok "no such model" refused 2 "does not exist" "$bin/wiremill" run --model "$work/no.onnx" \
    --output "$work/o" --input "$made/one.h5"
ok "no such model to import" refused 2 "no.onnx does not exist" "$bin/wiremill" import "$work/no.onnx" -o "$work/no.wmm"
input () { refused 2 "$1" "${run[@]}" --input "$2"; }
ok "... an input by its name" input "none.h5 does not exist" "$work/none.h5"
ln -s nowhere "$work/link.h5" && ln -s nowhere "$work/link.onnx"
ok "... a link to nothing" input "link.h5 is a symbolic link to a file that does not exist" "$work/link.h5"
ok "... a URL" input "input s3://host/a.h5: wiremill copies root://, https:// and http:// only" s3://host/a.h5
ok "... a folder" input "name its files" "$work"
model () { refused "$1" "$2" "$bin/wiremill" run --output "$work/o" --input "$made/one.h5" --model "$3"; }
ok "nothing to cut" refused 2 "none.h5 does not exist" "$bin/wiremill" cut --input "$work/none.h5" \
        --patches "$work/p.npy"
ok "no such channel map to cut by" refused 2 "none.csv does not exist" "$bin/wiremill" cut \
        --channels "$work/none.csv" --input "$made/one.h5" --patches "$work/p.npy"
ok "no such specification to cut by" refused 2 "none.yaml does not exist" "$bin/wiremill" cut \
        --spec none.yaml --input "$made/one.h5" --patches "$work/p.npy"
ok "a link to no model" model 2 "link.onnx is a symbolic link" "$work/link.onnx"
ok "a URL of a model" model 2 "a URL; fetch the file first" http://host/m.onnx
ok "a folder as a model" model 2 "is a folder; a file is needed" "$work"
ok "a model and an input that are swapped" refused 5 \
    "one.h5: not a model but an HDF5 file, .* give events by --input and the model by --model" \
    "$bin/wiremill" run --output "$work/o" --model "$made/one.h5" --input "$made/model-${small}1.onnx"
gzip -c "$made/one.h5" >"$work/a.h5.gz" && printf 'PK\3\4zip' >"$work/a.npz" && printf '\200\2pickle' >"$work/a.pt" &&
    : >"$work/a.h5" && printf 'root\0\0\361' >"$work/a.root"
cp "$made/model-${small}1.onnx" "$work/a.onnx" && printf 'text' >"$work/a.txt" && printf '\1\2\3' >"$work/a.bin"
printf "\223NUMPY\1\0v\0%-117s\n" "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 48, 48), }" >"$work/a.npy"
ok "a compressed model" model 5 "a.h5.gz: not a model but compressed by gzip; type: gunzip -k FILE" "$work/a.h5.gz"
ok "an archive of PyTorch" model 5 "a.npz: not a model but an archive .*torch.onnx.export" "$work/a.npz"
ok "a pickle of PyTorch" model 5 "a.pt: not a model but an archive .*torch.onnx.export" "$work/a.pt"
ok "an array as a model" model 5 "a.npy: not a model but a NumPy array" "$work/a.npy"
ok "an empty model" model 5 "a.h5: not a model but empty" "$work/a.h5"
others () # a line for each, with what to do; the comment and the good one are no mistakes
{
    ls "$work"/a.* | sed '1i # files that wiremill cannot read' >"$work/list"
    exits 3 keep "${run[@]}" --output "$work/others" --input-list "$work/list" --input "$work/l*.h5" \
            --input "$made/one.h5" &&
        says 'a.h5: the file is empty' && says 'a.h5.gz: compressed by gzip; type: gunzip -k FILE' &&
        says 'a.npz: an archive of NumPy' &&
        says 'a.npy: float64, but .*float32.*astype' && says 'a.onnx: a model, neither events nor scores: give it by --model' &&
        says 'a.pt: an archive' &&
        says 'a.root: a ROOT file' && says 'a.txt: a text; if it is a CSV of hits' &&
        says 'a.bin: neither an HDF5 file nor' &&
        says 'link.h5: a symbolic link to a file' && says '1 written, 10 held'
}
ok "each file of another kind is held, with what to do about it" others
folder () { refused 2 "$1 .*(one|link).h5 .*(is a file; a folder is needed|is a symbolic link to a file that does not exist)" "$bin/wiremill" "${@:2}"; }
ok "a file where the output's folder belongs" folder --output run --model "$made/model-${small}1.wmm" --input "$made/one.h5" \
        --output "$made/one.h5"
ok "... a link to nothing there" folder --output run --model "$made/model-${small}1.wmm" --input "$made/one.h5" \
        --output "$work/link.h5"
ok "a dataset without its slash" input "one.h5:a cannot be read; a dataset is named one.h5:/DATASET" "$made/one.h5:a"
ok "... where the campaign's does" folder --campaign broker --model "$made/model-${small}1.wmm" --output "$work/o" \
        --campaign "$made/one.h5"
ok "an input as a list of inputs" refused 2 "input-list .*one.h5 is an HDF5 file; a list of one path a line is needed" "${run[@]}" \
        --input-list "$made/one.h5"
ok "a folder as a list" refused 2 "--input-list .* is a folder; a file is needed" "${run[@]}" --input-list "$work"
ok "an input as a specification" refused 2 "spec .*one.h5 is an HDF5 file; a specification in YAML is needed" "${run[@]}" \
        --spec "$made/one.h5" --input "$made/one.h5"
ok "a folder for synthetic events, before they are made" refused 2 "is a folder; give a file" "$bin/wiremill" synth \
        --output "$work"
cp "$made/one.h5" "$work"/$'a\nb.h5' &&
    ok "an input whose name contains a line break" refused 2 "line break, rename it: .*a.b.h5" "${run[@]}" \
        --input "$work/a?b.h5"
for verb in run produce; do
    ok "$verb: an endpoint without tcp://" refused 2 \
            "--broker takes tcp://HOST:PORT or ipc:///PATH, not .host:5555.; did you mean tcp://host:5555" \
            "$bin/wiremill" $verb --broker host:5555 --input "$made/one.h5"
    ok "... a URL" refused 2 "--broker takes tcp://HOST:PORT or ipc:///PATH, not .http://host." "$bin/wiremill" $verb \
            --broker http://host --input "$made/one.h5"
done
printf 'labels: [run, em, none, michel]\n' >"$work/labels.yaml"
early ()
{
    refused 5 "labels.yaml:1: labels: the output already has a column 'run'" "$bin/wiremill" run \
            --model "$made/model-${small}1.wmm" --output "$work/early" --spec "$work/labels.yaml" --input "$made/one.h5" &&
        [ ! -e "$work/early$beside/ledger.db" ]
}
ok "a label that is a column already, before anything is pinned" early
small () { refused 1 "$1" bash -c "ulimit $2; exec \"\$@\"" _ "${run[@]}" --input "$made/one.h5"; }
ok "a shell that allows small files only" small "files of 100 KiB, .*ulimit -f unlimited" "-f 100"
ok "... and few" small "allows 24 open files, .*ulimit -n 1024" "-n 24"
large ()
{
    exits 1 bash -c 'ulimit -f 8; exec "$@"' _ "$bin/wiremill" import "$made/model-${small}1.onnx" \
            -o "$work/large.wmm" 2>"$work/said" && says 'File too large'
}
ok "a file that passes ulimit -f is an error, not a death" large
synth ()
{
    exits 1 bash -c 'ulimit -f 8; exec "$@"' _ "$bin/wiremill" synth --hits 1000 --events 1 \
            -o "$work/large.h5" 2>"$work/said" && says 'large.h5: cannot write: File too large; ulimit -f of this shell, .* allows no larger file$' &&
        [ -z "$(find "$work" -maxdepth 1 -name 'large.h5*')" ]
}
ok "... nor of synth, which leaves nothing" synth
patches=(--input "$made/one.h5" --patches "$work/cut.npy")
unfinished ()
{
    WM_FAILPOINT=cut-head:1 exits 1 "$bin/wiremill" cut "${patches[@]}" && [ ! -e "$work/cut.npy" ] &&
        "$bin/wiremill" cut "${patches[@]}" && head -c 6 "$work/cut.npy" | grep -q NUMPY
}
ok "a cut whose reader was killed leaves no array" unfinished
mkdir "$work/same" && cp "$made/one.h5" "$work/same/1.h5" && cp "$made/one.h5" "$work/same/2.h5" &&
    cp "$made/one.h5" "$work/same/3.h5"
repeats ()
{
    keep "${run[@]}" --output "$work/same" --input "$work/same/*.h5" &&
        says '2 events are repeated: run 1, subrun 1, event 1 is in .*1.h5 and .*2.h5; all are scored' &&
        [ "$(grep -c 'subrun' "$work/said")" = 1 ]
}
ok "repeated events are one line" repeats
mkfifo "$work/pipe.onnx"
ok "... nor a pipe" refused 5 "not a regular file" timeout 20 "$bin/wiremill" import "$work/pipe.onnx" -o "$work/no.wmm"
printf '\010\001\022\000' >"$work/saved_model.pb"
ok "a SavedModel is refused, with advice" refused 5 "SavedModel.* tf2onnx" "$bin/wiremill" import \
    "$work/saved_model.pb" -o "$work/no.wmm"
head -c 100000 "$made/model-${small}1.onnx" >"$work/cut.onnx"
ok "a damaged model" refused 5 "cut.onnx" "$bin/wiremill" run --model "$work/cut.onnx" \
    --output "$work/o" --input "$made/one.h5"
ok "no such preset" refused 2 "protodune-2021" "${run[@]}" --spec protodune-2012 --input "$made/one.h5"
printf 'pathc: [48, 48]\n' >"$work/spec.yaml"
ok "an unknown key of a specification names the nearest" refused 5 "patch" "${run[@]}" \
    --spec "$work/spec.yaml" --input "$made/one.h5"
ok "no broker at that endpoint" refused 4 "" "$bin/wiremill" status --broker "ipc://$work/nobody"
tries ()
{
    WM_TIME_SCALE=10 refused 4 \
        "no broker answers at tcp://127.0.0.1:9; goes on trying for [0-9]+ s" \
        "$bin/wiremill" "$@" --broker tcp://127.0.0.1:9 --give-up 2
}
ok "a worker logs that it waits for a broker" tries work --cache "$work/cache"
ok "a producer too" tries produce --input "$made/one.h5"
ok "a budget below zero" refused 2 "budget takes a whole number from 17039360" "$bin/wiremill" broker \
        --model "$made/model-${small}1.wmm" --output "$work/o" --budget -1
ok "a folder whose name contains a line break" refused 2 "contains a line break" "$bin/wiremill" run \
    --model "$made/model-${small}1.wmm" \
    --output "$work"/$'a\nb' --input "$made/one.h5"
ok "no campaign there" refused 5 "holds no campaign" "$bin/wiremill" status "$work"

head -c 20000 "$made/two.h5" >"$work/short.h5"
truncated () { refused 3 "short.h5" "${run[@]}" --input "$made/one.h5" --input "$work/short.h5"; }
ok "a truncated file is held by name, the rest is done" truncated
as_file ()
{
    keep "$bin/wiremill" status --files "$work/out" && says "/short.h5 .* held +- +-$" &&
        keep "$bin/wiremill" top --once "$work/out" "$work/out" && says "^  out +finished .* 1 file +0$" &&
        keep "$bin/wiremill" why "$work/out" && ! says "^failures:"
}
ok "it is held as a file, not as so many rows; it is no failure of an engine" as_file
ok "status notices a full disk under its stdout" full "$bin/wiremill" status "$work/out" --json
ok "the rest is there" test -s "$work/out/one.scores.h5"
ok "and it is still held the next time" truncated
scores ()
{
    refused 5 "one.scores.h5: an output of wiremill, not an input" "$bin/wiremill" run --model "$made/model-${small}1.wmm" \
            --output "$work/scores" --input "$work/out/one.scores.h5"
}
ok "an output as an input" scores

mkdir -p "$work/foreign"
echo "mine" >"$work/foreign/one.scores.h5"
ok "a file that is not ours is in the way" refused 5 "one.scores.h5 is in the way" "$bin/wiremill" run \
    --model "$made/model-${small}1.wmm" --output "$work/foreign" --quiet --input "$made/one.h5"
ok "and it is left alone" grep -q mine "$work/foreign/one.scores.h5"

# Whatever a campaign is pinned to, alone and together. (Another protocol: test_broker_refusals, test_broker_client.)
before=$failures mismatches=0
mismatch () # what, code, pattern, command...
{
    mismatches=$((mismatches + 1))
    ok "another $1 is refused" refused "${@:2}"
}
printf 'view: own\n' >"$work/own.yaml"
for model in '' 2; do for spec in '' "$work/own.yaml"; do for precision in '' fast; do for batch in '' 100; do
    what=${model:+|model}${spec:+|view}${precision:+|precision}${batch:+|batch}
    [ -z "$what" ] && continue
    mismatch "${what:1}" 5 "pinned to .?(${what:1})" "$bin/wiremill" run --model "$made/model-$small${model:-1}.wmm" \
        --output "$work/out" --quiet \
        --input "$made/one.h5" ${spec:+--spec $spec} ${precision:+--precision $precision} ${batch:+--batch-hits $batch}
done; done; done; done
cp "$made/one.h5" "$work/own.h5"
own=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/own" --quiet --input "$work/own.h5")
ok "a campaign of its own" exits 0 "${own[@]}"
mismatch "folder of outputs" 5 "pinned to output" "${run[@]}" --campaign "$work/own$beside" --input "$made/one.h5"
# What a person added to an output is nowhere else.
score=$work/own/own.scores.h5
cp "$score" "$work/before.h5" && printf x >>"$score" && cp -p "$score" "$work/mine.h5"
stays ()
{
    refused 3 "$score was changed since it was written: it stays as it is" "${own[@]}" && cmp "$score" "$work/mine.h5"
}
ok "an output that was changed stays, and is named" stays
ok "... each time" stays
kept ()
{
    keep "${own[@]}" --retry-held && says "kept as $score.changed-1" && cmp "$score.changed-1" "$work/mine.h5" &&
        cmp "$score" "$work/before.h5"
}
ok "--retry-held keeps it under another name, and writes it again" kept
ok "after which all is done" exits 0 "${own[@]}"
printf x >>"$score" && printf x >>"$work/own.h5"
both ()
{
    keep "${own[@]}" --retry-held && says "kept as $score.changed-2" && cmp "$score.changed-2" "$work/mine.h5" &&
        exits 0 "${own[@]}"
}
ok "also where the input was changed too" both
touch "$work/own.h5" && sum=$(cksum <"$work/own/own.scores.h5")
mismatch "time of an input" 3 "own.h5: changed since its output was written" "${own[@]}"
summary () { says "files +1 written, 0 held, 1 changed" && says "nothing was scored: --retry-held" && ! grep -q "left to do" "$work/said"; }
ok "... whose summary does not claim that all is done" summary
printf x >>"$work/own.h5"
mismatch "size of an input" 3 "own.h5: changed since its output was written" "${own[@]}"
ok "and its output stays" test "$(cksum <"$work/own/own.scores.h5")" = "$sum"
proved P13 $mismatches $((mismatches - failures + before))

mkdir -p "$work/shut$beside/lock"
shut () { refused 5 "cannot open $work/shut$beside/lock: Is a directory; .*--campaign" "$bin/wiremill" run \
    --model "$made/model-${small}1.wmm" \
    --output "$work/shut" --quiet --input "$made/one.h5" && [ "$(grep -c "cannot open" "$work/said")" = 1 ]; }
ok "a lock that cannot be opened is reported once" shut

"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/out" --listen "ipc://$work/b" 2>/dev/null &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$work/out$beside/endpoint.json"
second () { WM_TIME_SCALE=10 refused 75 "$broker" "${run[@]}" --input "$made/one.h5"; }
ok "a second broker on the campaign names the holder" second
kill $broker && wait $broker
ok "and the campaign goes on afterwards" exits 0 "${run[@]}" --input "$made/one.h5"
ready () { "$bin/wiremill" cut --input "$made/one.h5" --event 0 --patches "$work/ready.npy" && exits 5 keep "$bin/wiremill" cut \
    --input "$work/ready.npy" --patches "$work/again.npy" && says "ready.npy holds ready-made patches: there is nothing to cut"; }
ok "patches that are cut already" ready
ok "a precision that is none is a question of usage" refused 2 "fp32.split.fast, not 'half'" "${run[@]}" \
        --precision half --input "$made/one.h5"
ok "a broker that is not there is named as it was typed" refused 4 "tcp://127.0.0.1:9( |$)" "$bin/wiremill" produce \
    --broker tcp://127.0.0.1:9 --give-up 1 --input "$made/one.h5"

# Without a general engine everything else is built, and make and the programs that need it print how to get it.
no_engine () # engine, variables of make...
{
    local b=$work/without engine=$1
    shift
    keep env PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0 make -o "$b/lib/libkernels.a" -o "$b/lib/libschema.a" \
        B="$b" "$@" "$b/lib/wm_$engine.so" && says "WITHOUT .* Type make .*PyPI.* make ${engine^^}=" &&
        [ ! -e "$b/lib/wm_$engine.so" ]
}
how () { echo "cannot be opened: .*none.so.*make. fetches and builds it .*make ${1^^}="; } # engine
declare -A lacks=([openvino]="ONNX Runtime alone" [onnxruntime]="no second engine")
for engine in openvino onnxruntime; do
    ok "make goes on without $engine, and prints how to get it" no_engine "$engine" "${engine^^}=$work/nowhere"
    ok "... and where it cannot be fetched" no_engine "$engine" "${engine^^}_VERSION=0"
    ok "of which nothing is left" test ! -e "build/$engine-0" -a ! -e "build/$engine-0.tmp"
    ok "doctor prints it too" keep env "WM_${engine^^}_SO=$work/none.so" "$bin/wiremill" doctor "$work"
    ok "... with what is missed" says "warn +$engine +${lacks[$engine]} .*$(how "$engine")"
done
export WM_OPENVINO_SO=$work/none.so WM_ONNXRUNTIME_SO=$work/none.so
neither ()
{
    keep "$bin/wiremill" doctor "$work" && says "warn +openvino +no models outside" && says "warn +onnxruntime +no models outside"
}
ok "without both, doctor prints which models cannot run" neither
ok "a model that needs it" "$bin/wiremill" import --general "$made/model-${small}1.onnx" -o "$work/general.wmm"
ok "... is refused in one line that explains how to get it" refused 6 "$(how openvino)" "$bin/wiremill" run \
    --model "$work/general.wmm" \
    --output "$work/general" --quiet --input "$made/one.h5"
ok "... which is one" test "$(grep -c 'openvino engine cannot be opened' "$work/said")" = 1
unset WM_OPENVINO_SO WM_ONNXRUNTIME_SO
done_testing
