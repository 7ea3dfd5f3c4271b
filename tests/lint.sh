#!/bin/bash
# lint.sh - the house rules that a machine can check: who may include whom, and how files begin.
#
# usage: tests/lint.sh [ROOT]
# The arrows are the picture in CONTRIBUTING.md. Prints one line a fault; exits 1 if there is any.
cd "${1:-$(dirname "$0")/..}" || exit 1
faults=0
fault () { echo "$*"; faults=$((faults + 1)); }

# What each room may include of ours: shell patterns, and libraries it must not know.
declare -A may=(
    [schema/base]='schema/base/*'
    [schema]='schema/*'
    [kernels]='kernels/*|schema/base/*|schema/wm_batch.h|schema/wm_limits.h|onnx/*'
    [broker]='broker/*|schema/*'
    [producer]='producer/*|schema/*|kernels/wm_image.h|kernels/wm_spec.h'
    [gpuworker]='gpuworker/*|schema/*|kernels/wm_*'
    [ops]='ops/*|schema/*|kernels/wm_*'
)
declare -A not=(
    [schema/base]='zmq|czmq|msgpack|sqlite3|hdf5|jansson'
    [schema]='sqlite3|hdf5|jansson'
    [kernels]='zmq|czmq|msgpack|sqlite3|hdf5'
    [broker]='hdf5|protobuf-c|cuda'
    [producer]='sqlite3|cuda|protobuf-c'
    [gpuworker]='sqlite3|hdf5|protobuf-c|cuda'
    [ops]='sqlite3|cuda|protobuf-c'
)

allowed () # include, patterns separated by |
{
    local IFS='|' pattern
    set -f
    for pattern in $2; do
        # shellcheck disable=SC2053 # a pattern is meant
        [[ $1 == $pattern ]] && { set +f; return 0; }
    done
    set +f
    return 1
}

for room in schema/base schema kernels broker producer gpuworker ops; do
    while IFS=: read -r file line text; do
        name=${text#*\"} && name=${name%%\"*}
        case $name in
        *.sql.inc) ;; # made from the room's own .sql
        */*) allowed "$name" "${may[$room]}" ||
            fault "$file:$line: $room must not include $name (see CONTRIBUTING.md, arrows)" ;;
        *) fault "$file:$line: write the folder too: #include \"$room/$name\"" ;;
        esac
    done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' --include='*.inc' $room)
    while IFS=: read -r file line text; do
        fault "$file:$line: $room must not know this library: $text"
    done < <(grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<(${not[$room]})[./_]" --include='*.[ch]' $room)
done

# Every source file says what it is in its first line, stays short and narrow.
while read -r file; do
    base=${file##*/}
    read -r first <"$file"
    case $file in
    *.sh | *.t | .ci/run) first=$(sed -n 2p "$file"); [[ $first == "# $base - "* ]] || fault "$file:2: begin with '# $base - what it is'" ;;
    *.py) [[ $first == \"\"\"$base\ -\ * || $(sed -n 2p "$file") == \"\"\"$base\ -\ * ]] || fault "$file:1: begin with \"\"\"$base - what it is" ;;
    *) [[ $first == "/* $base - "* ]] || fault "$file:1: begin with '/* $base - what it is'" ;;
    esac
    lines=$(wc -l <"$file")
    ((lines <= 800)) || [[ $file == tests/* && $lines -le 1000 ]] || fault "$file: $lines lines; look again at 800"
    wide=$(awk 'length > 120 { print NR; exit }' "$file")
    [[ $file != *.[ch] || -z $wide ]] || fault "$file:$wide: much longer than 100 columns"
done < <(find schema broker producer gpuworker kernels ops tests .ci -type f \
    \( -name '*.[ch]' -o -name '*.sh' -o -name '*.t' -o -name '*.py' -o -path '.ci/run' \) | sort)

# No function longer than a screen or two.
while read -r where; do
    fault "$where"
done < <(find schema broker producer gpuworker kernels ops -name '*.c' -print0 | sort -z | xargs -0 awk '
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start > 71) print FILENAME ":" start ": a function of " FNR - start - 1 " lines; 70 are enough"; start = 0 }')

# Formatting is advice: versions of clang-format differ.
if command -v clang-format >/dev/null; then
    unformatted=$(find schema broker producer gpuworker kernels ops tests -name '*.[ch]' -print0 |
        xargs -0 clang-format --dry-run 2>&1 | sed -n 's/:[0-9]*:[0-9]*: warning.*//p' | sort | uniq -c)
    [ -z "$unformatted" ] || printf 'advice: make format would change\n%s\n' "$unformatted"
fi

if ((faults)); then
    echo "$faults faults"
    exit 1
fi
echo "lint: arrows, first lines and sizes are as agreed"
