#!/bin/bash
# texts.t - every text that a user gives, in every form in which editors and systems write it: lines that end with CR or
# CR LF, byte order marks, blanks that cannot be seen, tables with quotes, semicolons or tabs. All mean the same; UTF-16,
# UTF-32 and NULs are refused by name. A new text input gets its lines here.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled && make_events join --events 3 --seed 8 --hits 600 --tpcs 1 || bail "no model or events"
$python tests/e2e/join.py texts "$made/join.h5" "$work" >/dev/null || bail "no files"
printf 'tau_us: 10000\ntrigger_offset: 500\n' >"$work/facts.yaml"
why='a text in UTF-(16|32), not in UTF-8; type: iconv -f UTF-|a NUL byte'

forms () # folder, suffix, table or nothing, text on stdin: the files of all forms
{
    mkdir -p "$work/$1" && $python tests/e2e/texts.py "$work/$1" "$2" "${@:3}"
}
few () # folder, forms: in make test these alone, of the good ones; what reads a line is tried whole elsewhere
{
    local one form
    [ "$(size 1 0 0)" = 1 ] || return 0
    for one in "$work/$1"/good-*; do
        form=$(basename "$one") && form=${form#good-} && [[ " lf ${*:2} " == *" ${form%%.*} "* ]] || rm "$one"
    done
}
good () # what, folder, command: each good form does what the first does, `command FILE` prints it
{
    local what=$1 folder=$2 one
    shift 2
    "$@" "$work/$folder"/good-lf* >"$work/wanted" 2>&1 || { cat "$work/wanted"; return 1; }
    [ -s "$work/wanted" ] || { echo "$what: nothing is printed"; return 1; }
    for one in "$work/$folder"/good-*; do
        { "$@" "$one" >"$work/got" 2>&1 && sed -i "s,/$(basename "$one"),/$(cd "$work/$folder" && echo good-lf*),g" "$work/got" &&
            diff "$work/wanted" "$work/got"; } || { echo "$what: $one"; cat "$work/got"; return 1; }
    done
}
bad () # folder, exit code, command: each bad form is refused by name
{
    local folder=$1 code=$2 one
    shift 2
    for one in "$work/$folder"/bad-*; do
        exits "$code" keep "$@" "$one" && says "$why" || { echo "$one"; return 1; }
    done
}
cut () # hits, map: what the patches are
{
    rm -f "$work/cut.npy"
    "$bin/wiremill" cut --input "$1" --planes "$work/frames.h5" --channels "$2" --patches "$work/cut.npy" \
        --spec "$work/facts.yaml" 2>&1 >/dev/null || return
    md5sum <"$work/cut.npy"
}
quiet () { local code; "$@" >"$work/quiet" 2>&1; code=$?; [ $code = 0 ] && tail -n 1 "$work/quiet" || cat "$work/quiet"; return $code; }

forms hits .csv csv <"$work/hits.csv"
hits () { quiet cut "$1" "$work/channels.csv"; }
ok "hits" good hits hits hits
ok "... refused" bad hits 5 hits
forms maps .csv csv <"$work/channels.csv"
few maps cr behind before quotes numbered all # hits are read by the same functions
map () { quiet cut "$work/hits.csv" "$1"; }
ok "channel map" good map maps map
ok "... refused" bad maps 5 map
named () # as R writes a table: each row begins with its name, which has none in the first line
{
    grep -v '#' "$work/channels.csv" | awk 'NR == 1 { print } NR > 1 { print NR - 2 "," $0 }' >"$work/named.csv"
    exits 5 keep map "$work/named.csv" && says 'named.csv:2: more cells than the 5 columns that the first line names'
}
ok "... and rows with more cells than columns" named
none () { printf 'no\rsuch\rnames\r' >"$work/none.csv" && exits 5 keep hits "$work/none.csv" && says "none.csv:1: no column 'run'"; }
ok "a table whose columns are not found is held" none
empty () { grep -m 1 hit_id "$work/hits.csv" >"$work/empty.csv" && exits 0 keep hits "$work/empty.csv"; }
ok "... an empty one is none of those" empty

forms specs .yaml <"$work/facts.yaml"
spec () { cp "$1" "$work/s.yaml" && "$bin/wiremill" spec --check "$work/s.yaml"; }
ok "specification" good spec specs spec
ok "... refused" bad specs 2 spec
of_cut () { "$bin/wiremill" cut --input "$made/join.h5" --patches "$work/of.npy" --spec "$1"; }
ok "... by cut, too" bad specs 5 of_cut

echo 0123456789abcdef | forms passwords ''
mkdir "$work/empty" # of no campaign: what follows the password is refused with 5
password () { timeout 60 "$bin/wiremill" serve "$work/empty" --password-file "$1"; [ $? = 5 ]; }
ok "password file" good password passwords password
word () { timeout 60 "$bin/wiremill" serve "$work/empty" --password-file "$1"; }
ok "... refused" bad passwords 2 word

# One campaign, of which each list names a file of its own.
mkdir "$work/in"
printf '# a list\n%s\n' "$work/in/FORM.h5" | forms lists .txt
lists=()
for one in "$work"/lists/good-*; do
    form=$(basename "$one" .txt)
    sed -i "s/FORM/$form/" "$one" && cp "$made/layout.h5" "$work/in/$form.h5" && lists+=(--input-list "$one")
done
cp "$made/layout.h5" "$work/in/with a blank behind.h5 " && echo "$work/in/with a blank behind.h5 " >"$work/blank.txt"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" -w 1 --quiet)
score () { keep "${run[@]}" --output "$work/out" "${lists[@]}" --input-list "$work/blank.txt"; }
ok "lists of inputs" score
outputs () { [ "$(find "$1" -name '*.scores.h5' | wc -l)" = "$2" ] || { ls "$1"; return 1; }; }
ok "... each names its file, one with a blank at its end" outputs "$work/out" $((${#lists[@]} / 2 + 1))
listed () { "${run[@]}" --output "$work/no" --input-list "$1"; }
ok "... refused" bad lists 2 listed

# Each call of the command prints one form.
echo "$work/in/FORM.h5" | forms asked ''
few asked cr openmark mixed behind # each is a question
[ "$(size 0 1 1)" = 1 ] || rm "$work"/asked/bad-utf16?? "$work"/asked/bad-utf32 # each is a campaign
asked=("$work"/asked/good-*)
for one in "$work"/asked/good-*; do sed -i "s/FORM/$(basename "$one")/" "$one"; done
next="f=\$(ls '$work/asked' | grep good | head -n 1); [ -z \"\$f\" ] || { cat '$work/asked'/\$f; rm '$work/asked'/\$f; }"
feed () { keep timeout 100 "${run[@]}" --output "$work/fed" --files-from-command "$next"; }
ok "answers of --files-from-command" feed
ok "... each names its file" outputs "$work/fed" ${#asked[@]}
fed () { timeout 60 "${run[@]}" --output "$work/no" --files-from-command "cat '$1'"; }
ok "... refused" bad asked 1 fed

# One repository, of which each model has a configuration of its own.
printf 'max_batch_size: 8 # rows\ninstance_group { count: 2 }\nparameters { key: "a" value { string_value: "b" } }\n' | forms configs .pbtxt
for one in "$work"/configs/*; do
    name=$(basename "$one" .pbtxt)
    mkdir -p "$work/models/$name/1" && cp "$made/model-${small}1.onnx" "$work/models/$name/1/model.onnx" &&
        cp "$one" "$work/models/$name/config.pbtxt"
done
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
gateway --threads 2 --model-repository "$work/models" 2>"$log" &
gateway=$!
until_true 60 address
index () { curl -s -X POST "http://$http/v2/repository/index" >"$work/index"; }
models ()
{
    index && $python - "$work/index" <<'PY'
import json, sys
wrong = []
for one in json.load(open(sys.argv[1])):
    good = one["name"].startswith("good-")
    if (one["state"] == "READY") != good or (not good and not any(w in one["reason"] for w in ("iconv -f UTF-", "a NUL byte"))):
        wrong.append(one)
sys.exit(str(wrong) if wrong else 0)
PY
}
ok "configurations of models: loaded, or refused by name" until_true 60 models
max () { curl -s "http://$http/v2/models/good-$1/config" | grep -q '"max_batch_size": *8'; }
maxes () { local form; for form in lf cr crlf mark open mixed behind before; do max $form || { echo $form; return 1; }; done; }
ok "... whole" maxes
kill -TERM $gateway && wait $gateway
done_testing
