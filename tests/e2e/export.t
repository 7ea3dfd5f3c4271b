#!/bin/bash
# export.t - the rows of outputs as CSV and as NumPy arrays: the same numbers, whole files, nothing overwritten.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model ${small}1 && make_events export --events 2 --seed 5 --hits 40 --tpcs 1 || bail "no model or events"
size=48
[ -z "$small" ] || size=16
printf 'patch: [%s, %s]\n' $size $size >"$work/spec.yaml"
campaign () # layout
{
    "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$made/export.h5" --output "$work/$1" --spec "$work/spec.yaml" \
        --layout "$1" >"$work/said" 2>&1 && ln -s "$work/$1/export.scores.h5" "$work/$1.h5"
}
campaign both && campaign numl || bail "no outputs: $(cat "$work/said")"
$python tests/e2e/export.py make "$work/both.h5" "$work/big.h5" || bail "no large output"
ex () { keep "$bin/wiremill" export "$@"; }
mkdir "$work/arrays"
for kind in both numl big; do
    as () # format, options...
    {
        ex "$work/$kind.h5" --to "$1" && says "$kind.$1: [0-9]+ rows" && $python tests/e2e/export.py "$1" "$work/$kind."{h5,$1}
    }
    ok "$kind as CSV" as csv
    ok "$kind as an array" as npy
done
alone () { ex "$work/big.h5" --to npy --scores --output "$work/arrays" && $python tests/e2e/export.py scores "$work/big.h5" "$work/arrays/big.npy"; }
ok "the scores alone, in a folder" alone
ok "nothing else is left" [ "$(cd "$work" && ls ./*.part arrays/*.part 2>/dev/null)" = "" ]
here () { (cd "$work/numl" && keep "$bin/wiremill" export export.scores.h5 --to csv && cmp export.scores.csv ../numl.csv); }
ok "a file without a folder" here
ok "a file that is there" exits 2 ex "$work/numl.h5" --to csv
ok "... by name" says 'numl.csv is there already; give another name, or --force to replace it$'
echo old >"$work/numl.csv"
ok "... is replaced by --force" eval 'ex "$work/numl.h5" --to csv --force && cmp "$work/numl.csv" "$work/numl/export.scores.csv"'
twice () { exits 2 ex "$work/both/export.scores.h5" "$work/numl/export.scores.h5" --to npy -o "$work/arrays" && says "export.scores.h5: another file of this name"; }
ok "two files of one name" twice
many () # comparing each name with each would take half a minute
{
    mkdir "$work/n" && seq -f "$work/n/%05.0f.scores.h5" 12000 | xargs touch &&
        (ulimit -t 5 && exits 2 ex "$work"/n/* "$work/n/00001.scores.h5" --to csv -o "$work/arrays" &&
            says "n/00001.scores.h5: another file of this name")
}
ok "... of 12,000" many
ok "an input" eval 'exits 5 ex "$made/export.h5" --to csv -o "$work/arrays" && says "export.h5: no table of scores: it is no output of wiremill"'
cp "$work/big.h5" "$work/bad.h5"
$python -c "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); del f['emtrkmichel/tpc']; f['emtrkmichel/tpc'] = [1, 2]" "$work/bad.h5"
ok "a column that is too short" eval 'exits 5 ex "$work/bad.h5" --to csv && says "bad.h5: emtrkmichel/tpc has 2 rows, the table 40001"'
ok "... leaves nothing" [ ! -e "$work/bad.csv" ]
no_file ()
{
    exits 2 ex "$work/both.h5" "$work/none.h5" --to csv -o "$work/arrays" && says 'none.h5 does not exist' &&
        [ ! -e "$work/arrays/both.csv" ]
}
ok "no file: nothing is written of the others" no_file
ok "no folder" eval 'exits 2 ex "$work/big.h5" --to npy -o "$work/none" && says "[-]-output .*none does not exist"'
ok "no format" exits 2 ex "$work/big.h5"
ok "scores as CSV" eval 'exits 2 ex "$work/big.h5" --to csv --scores && says "[-]-scores goes with --to npy"'
ok "no names" exits 2 ex --to csv
# Parquet is written by the Python package: python.t tries it.
parquet () { keep env -u PYTHONPATH WIREMILL_PYTHON="$1" "$bin/wiremill" export "$2" --to parquet; }
ok "Parquet without Python" eval 'exits 1 parquet "$work/none" "$work/big.h5" &&
    says "needs Python: $work/none: No such file or directory; install python3, or name another by WIREMILL_PYTHON"'
ok "... without the package" eval "exits 1 parquet $PWD/$python \"\$work/big.h5\" &&
    says \"[-]-to parquet: No module named 'wiremill', in .*; install the Python package wiremill there with its extra arrow\""
echo old >"$work/numl.parquet"
ok "... does not replace a file" eval 'exits 2 parquet "$work/none" "$work/numl.h5" && says "numl.parquet is there already"'
limited () { (ulimit -f 100; trap '' XFSZ; exits 1 ex "$work/big.h5" --to csv --force) && says 'big.csv: cannot write: File too large'; }
ok "a disk without room" limited
ok "... keeps the old file" eval '$python tests/e2e/export.py csv "$work/big."{h5,csv} && [ ! -e "$work"/big.csv.*.part ]'
done_testing
