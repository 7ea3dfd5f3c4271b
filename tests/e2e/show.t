#!/bin/bash
# show.t - prints the first rows of an output as text, on a machine that has only wiremill; and what make prints first.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model 1 && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
file=$work/out/one.scores.h5
hits=4383

line () { sed -n 's/^  read it with  *//p' "$work/run"; }
run ()
{
    "$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/one.h5" --output "$work/out" >"$work/run" &&
        [ "$(line)" = "$bin/wiremill show $file" ]
}
ok "the summary of a run ends with a command that reads it" run
first ()
{
    keep env PATH=/proc/nowhere "${BASH}" -c "$(line)" && says "^$file: $hits hits, 0 held; model f1156a47ecb1, fp32$" &&
        [ "$(grep -c ' scored$' "$work/said")" = 10 ]
}
ok "which needs no other program" first
columns ()
{
    says '^run +event +tpc +plane +hit_id +track +em +none +michel +status$' &&
        says "^ +1 +1 +0 +0 +0( +[01]\.[0-9]{4}){4} +scored$" && says "^rows 0 to 9 of $hits;"
}
ok "a line for each hit: which one, its scores, its status" columns
narrow () { ! grep -Ev "^$work" "$work/said" | grep -E '^.{81}'; }
ok "in 80 columns" narrow
some ()
{
    keep "$bin/wiremill" show --from 4380 -n 20 "$file" "$file" && says "^ +1 +1 +0 +2 +4382 " &&
        [ "$(grep -c ' scored$' "$work/said")" = 6 ] && says "^rows 4380 to 4382 of $hits"
}
ok "other rows, of several files" some
refused () # pattern, arguments...
{
    local pattern=$1
    shift
    exits ${code:-5} keep "$bin/wiremill" show "$@" && says "^wiremill show: .*$pattern"
}
ok "rows past the end" refused "/one.scores.h5 has $hits rows; there is no row $hits, they are counted from 0$" --from $hits "$file"
last () { keep "$bin/wiremill" show --from $((hits - 1)) "$file" && says "^rows $((hits - 1)) to $((hits - 1)) of $hits;"; }
ok "... and the last one" last
code=2 ok "a folder" refused "/out/ is a folder; name a file in it: [^ ]*/out/NAME.scores.h5" "$work/out/"
code=2 ok "... to draw" refused "/out is a folder; name a file in it: [^ ]*/out/NAME.scores.h5" "$work/out" --output "$work/e.svg"
ok "a file of events" refused 'is not an output of wiremill; outputs are \*.scores.h5' "$made/one.h5"
ok "a model" refused 'a model, not an output' "$made/model-1.wmm"
not_given () { ! says '[-]-model|--input'; }
ok "... with no option that show has not" not_given
head -c 20000 "$file" >"$work/cut.scores.h5"
ok "an output that is cut off" refused 'truncated' "$work/cut.scores.h5"
no_file () { exits 2 keep "$bin/wiremill" show "$file" "$work/none.h5" && says 'none.h5 does not exist'; }
ok "a file that is not there" no_file
bare () { exits 2 keep "$bin/wiremill" show && says 'name a file of scores'; }
ok "no file" bare

# Before make begins, it prints how long it takes and what it installs. (-o deps: installs nothing; AGAIN: does nothing.)
about ()
{
    keep make --no-print-directory -o deps AGAIN=: B="$work/build" OPENVINO="$work/ov" \
        ONNXRUNTIME="${2:-$work/ort}" VENV="$work/venv" "$1"
}
run_about ()
{
    about run && says '^make run: .*minutes on 2 cores \(this machine has [0-9]+\)' && says 'fetches OpenVINO .*MB' &&
        says 'fetches ONNX Runtime .*MB' && says 'installs Debian packages' && about run none && ! says 'fetches ONNX Runtime'
}
ok "make run" run_about
test_about ()
{
    about test && says '^make test: .*minutes on 2 cores' && says 'installs numpy, h5py, .*onnxruntime, pandas for Python to'
}
ok "make test" test_about
again ()
{
    mkdir -p "$work/build/bin" "$work/ov" "$work/ort" && touch "$work/build/bin/wiremill" && about run &&
        says '^make run: .*half a minute' && ! says 'fetches' >/dev/null
}
ok "make run again" again
done_testing
