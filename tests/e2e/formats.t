#!/bin/bash
# formats.t - schema/FORMATS.md and OUTPUTS.md: their examples are run and scored, their tables compared with real files.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=$PWD/build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"

# Each example is a code block; its first line names its file.
awk -v to="$work/" '/^```$/ { file = "" } file { print > file } /^```(python|yaml)$/ { getline; split ($2, n, ":"); file = to n[1] }' \
        schema/FORMATS.md schema/OUTPUTS.md
ok "the pages have five examples" test \
        "$(cd "$work" && ls exchange.py opensamples.py patches.py my.yaml scores.py | wc -l)" = 5
ok "the page of inputs is short enough to be read" test "$(wc -l <schema/FORMATS.md)" -lt 300
ok "... and that of outputs" test "$(wc -l <schema/OUTPUTS.md)" -lt 200
ok "README.md and both pages fit 132 columns" awk 'length > 132 { print FILENAME ": " FNR; bad = 1 } END { exit bad }' README.md \
    schema/FORMATS.md schema/OUTPUTS.md
made () { ( cd "$work" && $python "$1.py" ); }
scored () # hits, input, options...
{
    local hits=$1 input=$2
    shift 2
    keep "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/${input%.*}-out" --input "$work/$input" "$@" &&
        says "hits +$hits scored, 0 held"
}
read_back ()
{
    keep $python "$work/scores.py" "$work/$1-out/$1.scores.h5" && says "^$2 hits, $2 scored, em 0\.[0-9]+$"
}
for example in "exchange exchange.h5 20" "opensamples opensamples.h5 10 --spec $work/my.yaml" "patches patches.npy 12" \
        "patches ready.h5 12"; do
    read -r name input hits options <<<"$example"
    ok "$name.py" made "$name"
    # shellcheck disable=SC2086
    ok "... makes $input, which is scored" scored "$hits" "$input" $options
    ok "... and read" read_back "${input%.*}" "$hits"
done
twice ()
{
    cp "$work/patches.npy" "$work/again.npy" &&
        keep "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/twice" --input "$work/patches.npy" \
            --input "$work/again.npy" && says 'hits +24 scored' && ! says repeated
}
ok "patches that name no event are not taken for repeated events" twice
slash ()
{
    exits 5 keep "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/slash" \
            --input "$work/patches.npy:/a" && says 'a .npy array has no datasets'
}
ok "a dataset of an array" slash
ok "my.yaml is a specification" "$bin/wiremill" spec --check "$work/my.yaml"

# What the pages say of types is what files have; every status has its reason.
cat >"$work/compare.py" <<'PYTHON'
import sys, re, h5py
page = open(sys.argv[1] + "/FORMATS.md").read() + open(sys.argv[1] + "/OUTPUTS.md").read()
section = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
def rows(text):
    for cells in re.findall(r"^\| (\S.*?) \| (.*?) \|", text, re.M):
        names = re.findall(r"`([\w/]+)`", cells[0])
        for name in names:
            yield names[0].rsplit("/", 1)[0] + "/" + name if "/" not in name else name, cells
def check(title, path, kinds):
    n = 0
    with h5py.File(path) as f:
        for name, cells in rows(section[title]):
            if name not in f:
                assert cells[0].startswith("["), f"{name} is not in {path}"
                continue
            types = [t for t in kinds if t in cells[1]]
            assert types, cells
            assert f[name].dtype.kind in "".join(kinds[t] for t in types), (name, f[name].dtype, cells)
            assert ("3)" in cells[1]) <= (f[name].ndim == 2 or "(bad)" in cells[1]), (name, f[name].shape, cells)
            n += 1
        missing = [d for g in f for d in f[g] if f"{g}/{d}" not in [r[0] for r in rows(section[title])]]
    return n, missing
inputs = {"integer": "iu", "number": "iuf"}
for title, path in (("Events, exchange layout", sys.argv[2]), ("Events, OpenSamples layout", sys.argv[3])):
    n, missing = check(title, path, inputs)
    assert n > 9 and missing in ([], ["truth"]), missing  # of synth
n, missing = check("Scores", sys.argv[4], {"int64": "i", "int32": "i", "float32": "f", "uint8": "u", "uint16": "u", "uint64": "u", "text": "S", "float64": "f"})
assert n >= 15 and set(missing) <= {"none", "michel"}, missing
with h5py.File(sys.argv[4]) as f:
    for name in re.findall(r"`(\w+)`", section["Scores"].split("Attributes of the root:")[1].split("```")[0]):
        assert name in f.attrs or name in ("max_error", "judged_by", "events_missing"), name
reasons = re.findall(r"^\| (\d) \| (.*?) \|", section["Scores"], re.M)
source = open("schema/wm_batch.c").read()
assert len(reasons) == 8 and all(f'"{text}"' in source for number, text in reasons), reasons
PYTHON
types ()
{
    $python "$work/compare.py" schema "$made/one.h5" "$work/opensamples.h5" \
            "$work/exchange-out/exchange.scores.h5"
}
ok "the tables are what the files have" types
done_testing
