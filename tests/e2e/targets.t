#!/bin/bash
# targets.t - no verb destroys what it did not make: each option that names a file to write, on each kind of file.
#
# The options are those of the programs' tables (--print-paths), so that a new one is tried, too: it needs a row in
# `recipe`, and an option whose value is a path must state what it names.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
unset WM_JOIN_FILE WM_BROKER
make_model "${small}1" && make_events target --events 1 --seed 6 --hits 100 --tpcs 1 || bail "no model or events"
for program in "$bin"/wiremill*; do "$program" --print-paths; done >"$work/paths"

unstated () { ! awk -F'\t' '$4 ~ /FILE|DIR|GLOB|FOLDER|PATH|PIPE|LIST$|\/dev/ && $5 == "-" && $4 != "LIST"' "$work/paths" | grep .; }
ok "each option whose value is a path states what it names" unstated
known () { awk -F'\t' '$5 == "written" && $6 == "-"' "$work/paths" | grep . && return 1; [ "$(grep -c 'written' "$work/paths")" -ge 19 ]; }
ok "... and what is written has a kind" known

mapfile -t rows < <(awk -F'\t' '$5 == "written"' "$work/paths")

# ---- what lies there ----
v=$work/v
mkdir -p "$v/folder" "$work/in" "$work/glob" && cp "$made/target.h5" "$work/in/events.h5" && cp "$made/target.h5" "$work/glob/a.h5"
cp "$made/model-${small}1.onnx" "$work/in/model.onnx"
model=$made/model-${small}1.wmm
size=48
[ -z "$small" ] || size=16
printf 'patch: [%s, %s]\nlabels: [track, em, none, michel]\n' $size $size >"$work/in/spec.yaml"
"$bin/wiremill" run --quiet --model "$model" --spec "$work/in/spec.yaml" "$work/in/events.h5" -o "$work/out" >/dev/null 2>&1 ||
    bail "no campaign"
scores=$work/out/events.scores.h5
cp "$scores" "$v/scores.h5" && cp "$scores" "$work/in/scores.h5"
sed 's/wiremill synth/events by hand/' "$made/target.h5" >"$v/theirs.h5"
{ printf '\x93NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }" && head -c 96 /dev/zero; } >"$v/theirs.npy"
{ printf '\x93NUMPY\1\0v\0%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }" && head -c 16 /dev/zero; } >"$v/array.npy"
{ printf '\10\10\22\7pytorch' && head -c 999 /dev/zero; } >"$v/model.onnx"
printf '{"a": 1}\n' >"$v/values.json"
cp "$work/in/spec.yaml" "$v"
printf 'run,subrun,event\n1,1,1\n' >"$v/rows.csv"
printf '<!doctype html>\n<html><head><title>Mine</title></head></html>\n' >"$v/page.html"
printf '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">\n<title>Mine</title>\n</svg>\n' >"$v/drawing.svg"
{ printf '\x89PNG\r\n\x1a\n\0\0\0\15IHDR\0\0\0\1\0\0\0\1\10\2\0\0\0' && head -c 60 /dev/zero; } >"$v/drawing.png"
printf 'Notes of a person\n\nof two lines.\n' >"$v/notes.txt"
head -c 5000 /dev/urandom >"$v/bytes"

# ---- the commands ----
bench=(engine --model "$model" --input "$made/target.h5" --hits 16 --judged 0 --batch 16 --threads 1 --precision fp32 --seconds 0.02 --quiet)
recipe () # program, verb, option: sets `line`, which needs only the option, and `inputs`, the files that it reads
{
    inputs=() line=()
    case "$1 $2 $3" in
    "wiremill-producer cut patches") inputs=("$work/in/events.h5" "$work/in/spec.yaml") line=(--input "$work/in/events.h5" --spec "$work/in/spec.yaml") ;;
    "wiremill-producer synth output") line=(--events 1 --hits 100 --tpcs 1) ;;
    "wiremill-producer show output") inputs=("$scores" "$work/in/events.h5") line=("$scores" --input "$work/in/events.h5") ;;
    "wiremill-producer compare page") inputs=("$scores" "$work/in/scores.h5") line=("${inputs[@]}") ;;
    "wiremill report output") inputs=("$scores" "$work/in/events.h5" "$work/out$beside/journal/"*) line=("$work/out" --outputs 0) ;;
    "wiremill verify page") inputs=("$work/in/scores.h5" "$work/out$beside/ledger.db") line=("$work/out" --against "$work/in/scores.h5") ;;
    "wiremill bench json") inputs=("$work/glob/a.h5") line=("${bench[@]}") ;;
    "wiremill import output") inputs=("$work/in/model.onnx") line=("$work/in/model.onnx") ;;
    "wiremill model output") line=(new emtrkmichel --wire 16 --bin 16) ;;
    "wiremill keys output") inputs=("$work/out$beside/ledger.db") line=(add --role worker -c "$work/out") ;;
    "wiremill run asked-files" | "wiremill run processed-pfns" | "wiremill run processed-dids")
        inputs=("$work/in/list" "$model") line=(--model "$model" --input-list "$work/in/list" -o "$work/none") ;;
    "wiremill produce asked-files" | "wiremill produce processed-pfns" | "wiremill produce processed-dids")
        inputs=("$work/in/events.h5" "$work/in/metadata") line=("$work/in/events.h5" --campaign "$work/none" --sidecar-metadata "$work/in/metadata") ;;
    "wiremill work state-file" | "wiremill-worker - state-file") line=(--broker "ipc://$work/none") ;;
    "wiremill-gateway gateway access-log") inputs=("$model") line=(--model "m=$model" --grpc 127.0.0.1:0) ;;
    *) echo "no recipe for $1 $2 --$3: add one"; return 1 ;;
    esac
}
echo "$work/in/events.h5" >"$work/in/list"
echo '{}' >"$work/in/metadata"
call () # program, verb, option, file, more...
{
    local program=$bin/$1 verb=$2 option=$3 file=$4
    shift 4
    [ "$verb" = - ] && verb=() || verb=("$verb")
    timeout 60 "$program" "${verb[@]}" "${line[@]}" "--$option" "$file" "$@" </dev/null
}
# What a kind of file looks like that takes a whole campaign to make.
own () # kind, file
{
    case $1 in
    "state file of a worker") printf '{"schema": "wiremill-worker-1", "connected": true, "label": "a"}\n' >"$2" ;;
    "list of files") printf 'scope:a root://host//a/b.h5\n/a/c.h5\n' >"$2" ;;
    "access log of wiremill gateway") printf '2026-01-01T00:00:00.000Z 127.0.0.1:9 http GET:/v2 - OK 0 9 0.1\n' >"$2" ;;
    *) return 1 ;;
    esac
}
end_of () { case $1 in *show) echo .svg ;; *import) echo .wmm ;; *) echo .of ;; esac; } # program and verb

# A first file of each kind, of commands that do not need a campaign that runs.
declare -A kind_of
makes ()
{
    local program verb option value use kind flags n=0
    for row in "${rows[@]}"; do
        IFS=$'\t' read -r program verb option value use kind flags <<<"$row"
        n=$((n + 1))
        recipe "$program" "$verb" "$option" || return 1
        local file=$v/OWN-$n$(end_of "$verb")
        own "$kind" "$file" || exits 0 call "$program" "$verb" "$option" "$file" || return 1
        [ -s "$file" ] || { echo "no $file"; return 1; }
        kind_of[$file]=$kind
    done
}
ok "each has a recipe, which writes a new file" makes
ln -s "$v/notes.txt" "$v/link" && ln -s nowhere "$v/dangling" && mkfifo "$v/fifo"
chmod 444 "$v/bytes"
(cd "$v" && find . -type f -exec sha256sum {} + >"$work/sums")
whole () { (cd "$v" && sha256sum --check --quiet "$work/sums") && [ "$(readlink "$v/link") $(readlink "$v/dangling")" = "$v/notes.txt nowhere" ] && [ -p "$v/fifo" ] && [ -d "$v/folder" ]; }

# ---- what is refused ----
refuses () # program, verb, option, kind, flags: all that lies there but its own kind
{
    local file tried=0
    recipe "$1" "$2" "$3" || return 1
    : >"$work/said"
    for file in "$v"/[a-z]* "$v/folder/" "$v/none/x" /dev/null $(others "$3"); do
        [ "${kind_of[$file]}" != "$4" ] || [ "$4" = "join file" ] || continue
        [[ $5 != *streams* ]] || case $file in */fifo | /dev/null) continue ;; esac
        tried=$((tried + 1))
        exits 2 call "$1" "$2" "$3" "$file" >/dev/null 2>>"$work/said" || { tail -n 1 "$work/said"; return 1; }
    done
    [ "$(grep -c -- "--$3 .*\(give\|remove\)" "$work/said")" = $tried ] || { cat "$work/said"; return 1; }
    [ $tried -gt 15 ] && whole && [ -z "$(find "$v" -newer "$work/sums" ! -path "$v")" ]
}
# Files of the verbs, every sixth of them in turn.
turn=0 each=$(size 6 1 1)
others () { local all=("$v"/OWN-*) i; for ((i = turn % each; i < ${#all[@]}; i += each)); do echo "${all[i]}"; done; }
inputs_survive () # program, verb, option, flags: also by links, and by --force
{
    local input target force=()
    recipe "$1" "$2" "$3" || return 1
    [[ $4 != *force* ]] || force=(--force)
    [[ "$2 $3" != "bench json" ]] || line=(engine --input "$work/glob/*.h5" --model "$model")
    rm -rf "$work/links" && mkdir "$work/links"
    sha256sum /dev/null "${inputs[@]}" >"$work/inputs"
    for input in "${inputs[@]}"; do
        ln -s "$input" "$work/links/soft.any" && ln "$input" "$work/links/hard.any"
        for target in "$input" "$work/links/soft.any" "$work/links/hard.any"; do
            case "$target" in *hard.any) [[ $input != *$beside/* ]] || continue ;; esac
            exits 2 call "$1" "$2" "$3" "$target" "${force[@]}" 2>"$work/said" &&
                says "--$3 .*(is also|is the same file as|is a file of the campaign|is no|ends in|is there already)" || return 1
            [ ${#force[@]} = 0 ] || says 'is also|is the same file as|is a file of the campaign|ends in' || [ "$2" = show ] || return 1
        done
        rm "$work/links/soft.any" "$work/links/hard.any"
    done
    sha256sum --check --quiet "$work/inputs"
}
for row in "${rows[@]}"; do
    IFS=$'\t' read -r program verb option value use kind flags <<<"$row"
    ok "$program $verb --$option replaces a $kind only" refuses "$program" "$verb" "$option" "$kind" "$flags"
    ok "... and none of its inputs" inputs_survive "$program" "$verb" "$option" "$flags"
    turn=$((turn + 1))
done
both () { refused 2 '--processed-pfns .* is the same file as --processed-dids|--processed-pfns .* is also --processed-dids' "$bin/wiremill" run --model "$model" --input-list "$work/in/list" -o "$work/none" --processed-pfns "$work/$1" --processed-dids "$work/$2"; }
ok "two files of one name" both b b
ok "... that is not there yet, by another path" both b ./b
dataset () { refused 2 '--patches .* is also --input' "$bin/wiremill" cut --input "$work/in/events.h5:/x" --patches "$work/in/events.h5" --force; }
ok "a dataset is its file" dataset
again () { refused 2 '--json .* is also --input' "$bin/wiremill" bench engine --input "$work/glob/a.h5" --input "$work/in/events.h5" --json "$work/in/events.h5" --force; }
ok "an option given again" again
elsewhere () # no verb replaces a file of a campaign that it does not read, by --force or where it is empty
{
    local file n=0
    : >"$work/out$beside/log/none.log"
    for file in "$work/out$beside/"{ledger.db,lock,command,log/none.log} "$work/out$beside/journal/"* "$work/out/"*.scores.h5; do
        sha256sum "$file" >"$work/inputs"
        refused 2 "--output $file is a file of the campaign in $work/out$beside: give another name" "$bin/wiremill" synth \
            --events 1 --hits 10 --tpcs 1 --output "$file" $([[ $file == *none.log ]] || echo --force) &&
            sha256sum --check --quiet "$work/inputs" || { echo "of $file"; return 1; }
        n=$((n + 1))
    done
    [ $n -ge 6 ]
}
ok "a file of another campaign" elsewhere
kept_model () # the model that a campaign imported is not replaced by another import, though it is a .wmm; beside it one is
{
    local file force
    for file in "$work/out$beside/models/"*.wmm; do
        sha256sum "$file" >"$work/inputs"
        for force in "" --force; do
            refused 2 "--output $file is a file of the campaign in $work/out$beside: give another name" \
                "$bin/wiremill" import "$made/model-${small}1.onnx" --output "$file" $force || return 1
        done
        sha256sum --check --quiet "$work/inputs" && cp "$file" "$work/kept.wmm" &&
            "$bin/wiremill" import "$made/model-${small}1.onnx" --output "$work/kept.wmm" >/dev/null || return 1
    done
}
ok "a campaign's own model" kept_model
diary () # a folder called journal makes no campaign
{
    mkdir -p "$work/mine/journal" && echo text >"$work/mine/notes" &&
        exits 0 "$bin/wiremill" synth --events 1 --hits 10 --tpcs 1 --output "$work/mine/notes" --force
}
ok "... not of a person's folder" diary
lines () # in each form that the verb itself reads
{
    local form
    for form in '%s\n' '\xef\xbb\xbf%s' '#\r%s\r' ' %s \n'; do
        # shellcheck disable=SC2059
        printf "$form" "$work/in/events.h5" >"$work/lines"
        refused 2 'is in the list of inputs|is also in the list' "$bin/wiremill" bench engine --input-list "$work/lines" --json "$work/in/events.h5" --force || return 1
    done
}
ok "a file that a list names" lines
touch "$work/arrays" && rm "$work/arrays" && mkdir "$work/arrays"
ln -s "$scores" "$work/arrays/events.scores.csv" && ln "$scores" "$work/arrays/events.scores.npy"
sha256sum "$scores" >"$work/inputs"
exported () # format
{
    refused 2 'is the same file as the input' "$bin/wiremill" export "$scores" --to "$1" -o "$work/arrays" --force &&
        sha256sum --check --quiet "$work/inputs"
}
ok "export spares its input behind a symbolic link" exported csv
ok "... and a hard link" exported npy

# ---- what is replaced, and that it is whole ----
replaces () # program, verb, option, kind
{
    local own=$work/again/own$(end_of "$2") file=$work/again/link$(end_of "$2")
    recipe "$1" "$2" "$3" || return 1
    rm -rf "$work/again" && mkdir "$work/again" && : >"$own" && ln -s "$own" "$file"
    exits 0 call "$1" "$2" "$3" "$file" && [ -s "$own" ] && [ -L "$file" ] || return 1
    [ "$4" != "join file" ] || { exits 2 call "$1" "$2" "$3" "$own"; return; }
    cp "$v/notes.txt" "$own" && exits 0 call "$1" "$2" "$3" "$own" --force && ! cmp -s "$v/notes.txt" "$own" &&
        [ "$(echo "$work/again/"*)" = "$file $own" ]
}
killed () # program, verb, option: SIGKILL before the new file has its name; the next command replaces, and removes what is left
{
    local own=$work/again/own$(end_of "$2")
    recipe "$1" "$2" "$3" || return 1
    cp "$own" "$work/before"
    WM_FAILPOINT=file-rename:1 call "$1" "$2" "$3" "$own" && { echo "it was not killed"; return 1; }
    cmp "$work/before" "$own" && touch -d '2 days ago' "$own" && exits 0 call "$1" "$2" "$3" "$own" && [ "$own" -nt "$work/sums" ] &&
        [ -z "$(find "$work/again" -name 'own*' ! -path "$own")" ]
}
full () # program, verb, option, kind
{
    local own=$work/disk/own$(end_of "$2")
    recipe "$1" "$2" "$3" || return 1
    rm -rf "$work/disk/"* && cp "$work/again/own$(end_of "$2")" "$own" && cp "$own" "$work/before"
    dd if=/dev/zero of="$work/disk/ballast" bs=4k 2>/dev/null
    exits 75 keep call "$1" "$2" "$3" "$own" && says 'No space left on device; free some space there$' && cmp "$work/before" "$own" && [ "$(echo "$work/disk/"*)" = "$work/disk/ballast $own" ]
}
mkdir "$work/disk"
if mount -t tmpfs -o size=64m none "$work/disk" 2>/dev/null; then
    at_exit 'umount -l "$work/disk" 2>/dev/null; finish'
fi
for row in "${rows[@]}"; do
    IFS=$'\t' read -r program verb option value use kind flags <<<"$row"
    own "$kind" "$work/unused" && continue
    ok "$program $verb --$option replaces its own, an empty file and by --force any, through a link" \
        replaces "$program" "$verb" "$option" "$kind"
    [ "$kind" != "join file" ] || continue
    ok "... is killed" killed "$program" "$verb" "$option"
    if mountpoint -q "$work/disk"; then ok "... on a full disk" full "$program" "$verb" "$option" "$kind"; else skip "a tmpfs can be mounted by root only"; fi
done
streams () { "$bin/wiremill" bench "${bench[@]}" --json "$1" | grep -q '"schema": "wiremill-bench-1"'; }
ok "bench to stdout" streams -
ok "... by its device, a pipe" streams /dev/stdout
same () { echo before >"$work/both" && "$bin/wiremill" bench "${bench[@]}" --json /dev/stdout >>"$work/both" && grep -q wiremill-bench-1 "$work/both" && [ "$(head -n 1 "$work/both")" = before ]; }
ok "... a file: behind what is there" same
device () { "$bin/wiremill" bench "${bench[@]}" --json /dev/null >/dev/null && [ -c /dev/null ]; }
ok "... a device" device
done_testing
