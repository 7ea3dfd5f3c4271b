#!/bin/bash
# lint.sh - the house rules that a machine can check: who may include whom, how files begin, sizes, unused functions.
#
# usage: tests/lint.sh [ROOT]
# What a folder includes stands in its README.md. Prints one line a fault, and exits 1 if there is any. Lines of
# advice change nothing.
cd "${1:-$(dirname "$0")/..}" || exit 1
rooms=(schema kernels broker producer gpuworker ops)
faults=0
fault () { echo "$*"; faults=$((faults + 1)); }
advice () # what, list: one line with the first few
{
    [ -z "$2" ] || echo "advice: $(wc -l <<<"$2") $1: $(head -n 12 <<<"$2" | paste -sd ' ')$([ "$(wc -l <<<"$2")" -le 12 ] || echo ' ...')"
}

# Libraries that a room must not know.
declare -A not=(
    [schema/base]='zmq|czmq|msgpack|sqlite3|hdf5|jansson'
    [schema]='sqlite3|hdf5'
    [kernels]='zmq|czmq|msgpack|sqlite3|hdf5'
    [broker]='hdf5|protobuf-c|cuda'
    [producer]='sqlite3|cuda|protobuf-c'
    [gpuworker]='sqlite3|hdf5|protobuf-c|cuda'
    [ops]='sqlite3|cuda|protobuf-c'
)

# Each folder's README.md ends with what it includes of ours, and there are no circles. A folder may use the headers of the
# one above, which are the module's contract; a module uses its own folders and those below it in CONTRIBUTING.md's picture.
folder_of () { case $1 in */*) echo "${1%/*}" ;; *) echo . ;; esac; }
# What each module may include of the others.
declare -A may=(
    [schema]='schema' [kernels]='kernels|schema|onnx' [broker]='broker|schema' [producer]='producer|schema|kernels'
    [gpuworker]='gpuworker|schema|kernels' [ops]='ops|schema|kernels'
)
declare -A states used
while IFS= read -r folder; do
    [ -e "$folder/README.md" ] || { fault "$folder: write README.md: what is here, what it never does, where to begin reading"; continue; }
    ((depth = $(wc -l <"$folder/README.md"))); [[ $folder != */* || $folder = */cuda || $depth -le 20 ]] ||
        fault "$folder/README.md: $depth lines; 20 are enough"
    while read -r other; do states[$folder $other]=1; done < <(
        awk '/^\*\*Includes\*\*/ { on = 1 } on' "$folder/README.md" | grep -oE '`[a-z0-9/]+`' | tr -d '`')
done < <(find "${rooms[@]}" -name '*.[ch]' -printf '%h\n' | grep -v '^ops/lib/examples' | sort -u)
while IFS=: read -r file line text; do
    name=${text#*[\"<]} && name=${name%%[\">]*} folder=$(folder_of "$file")
    case $name in
    *.sql.inc | *.css.inc | *.js.inc) continue ;; # made from the room's own text
    gpuworker/wiremill_engine.h) [ "$folder" != kernels/plugin ] || continue ;; # includes nothing of ours
    */*) ;;
    *) fault "$file:$line: write the folder too: #include \"$folder/$name\""; continue ;;
    esac
    [[ ${name%%/*} =~ ^(${may[${folder%%/*}]})$ ]] || fault "$file:$line: ${folder%%/*} must not include $name (see CONTRIBUTING.md, arrows)"
    other=${name%/*}
    [ "$other" != "$folder" ] || continue
    used[$folder $other]=1
    [ "${states[$folder $other]}" ] || fault "$file:$line: $folder includes $other, which its README.md does not state"
    [[ $folder != broker/core || $other = schema* ]] || fault "$file:$line: the broker's core must not include $name: it decides, and schema/ has its values"
    [[ $name != *_private.h || $file = "$other"/* ]] || fault "$file:$line: $name is private to $other"
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<(schema|kernels|broker|producer|gpuworker|ops)/)' \
    --include='*.[ch]' --include='*.cu' --include='*.cuh' "${rooms[@]}")
for pair in "${!states[@]}"; do
    [ "${used[$pair]}" ] || fault "${pair% *}/README.md: ${pair#* } is not included any more"
done
# From a folder to the one above, and from a module to its own folders, is no circle.
circles=$(for pair in "${!used[@]}"; do [[ ${pair% *} = "${pair#* }"/* ]] || echo "$pair"; done | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([a-z]\)/\1/p' | paste -sd' ')
[ -z "$circles" ] || fault "a circle of folders: $circles"
for room in schema/base "${rooms[@]}"; do
    while IFS=: read -r file line text; do
        fault "$file:$line: $room must not know this library: $text"
    done < <(grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<(${not[$room]})[./_]" --include='*.[ch]' $room)
done

# Every source file has its purpose in its first line, and stays short and narrow.
while read -r file; do
    base=${file##*/}
    read -r first <"$file"
    case $file in
    *.sh | *.t | *.pl | .ci/run) first=$(sed -n 2p "$file"); [[ $first == "# $base - "* ]] || fault "$file:2: begin with '# $base - what it is'" ;;
    *.py) [[ $first == \"\"\"$base\ -\ * || $(sed -n 2p "$file") == \"\"\"$base\ -\ * ]] || fault "$file:1: begin with \"\"\"$base - what it is" ;;
    *) [[ $first == "/* $base - "* ]] || fault "$file:1: begin with '/* $base - what it is'" ;;
    esac
    lines=$(wc -l <"$file")
    ((lines <= 1200)) || fault "$file: $lines lines; one class has 1,200 at most"
    case $file in *_internal.h | *_impl.h | *_local.h) fault "$file: a private header's name ends in _private.h" ;; esac
done < <(find "${rooms[@]}" tests .ci -type f \
    \( -name '*.[ch]' -o -name '*.sh' -o -name '*.t' -o -name '*.py' -o -name '*.pl' -o -path '.ci/run' \) | sort)

# Rows of HDF5 are read by one function, and stored chunks by another: H5Dread leaves memory as it was where nothing was
# ever written.
while IFS=: read -r file line text; do
    fault "$file:$line: read by wm_h5_read, wm_h5_dataset_read or wm_chunks_fetch: $text"
done < <(grep -rnE '\<H5Dread(_chunk|_multi)? *\(' --include='*.[ch]' "${rooms[@]}" |
    grep -vE '^producer/files/(wm_h5_column.c:[0-9]+:    return H5Dread \(|wm_chunks.c:[0-9]+:    return H5Dread_chunk \()')

# A source that a page names is there, by its path from the root, from the page's module, or from the page.
while IFS=: read -r page path; do
    [ -e "$path" ] || [ -e "${page%%/*}/$path" ] || [ -e "$(dirname "$page")/$path" ] || fault "$page: there is no $path"
done < <(git ls-files '*.md' | grep -v RESULTS | xargs grep -oE '`[A-Za-z0-9_./-]+/wm_[a-z0-9_]+\.(c|h|cuh)`' | tr -d '`')

# A link of a page leads to a file. (Sphinx checks those between pages of the manual.)
while IFS=: read -r page target; do
    [ -e "$(dirname "$page")/${target%%#*}" ] || fault "$page: its link to $target leads nowhere"
done < <(git ls-files '*.md' | grep -v '^ops/manual/[a-z]' | xargs grep -oE '\]\([A-Za-z0-9_./-]+(#[^)]*)?\)' | sed 's/:](/:/; s/)$//')
# The version is set in schema/wm_limits.h. What cannot read it there repeats it.
version=$(sed -n 's/^#define WM_VERSION "\(.*\)"$/\1/p' schema/wm_limits.h)
grep -q "^project (wiremill_art VERSION $version " ops/art/CMakeLists.txt || fault "ops/art/CMakeLists.txt: WM_VERSION is $version"
[[ $(grep -m1 '^## ' ops/CHANGELOG.md) == "## $version ("*')' ]] || fault "ops/CHANGELOG.md: the first version is not $version"

# A type, an include guard, a constant of a header and a file's name mean one thing.
mapfile -t ours < <(git ls-files '*.[ch]' | grep -v '^tests/')
while read -r name; do fault "the type $name is defined more than once"; done < <(
    grep -hoE '^\} wm_[a-z0-9_]+_t;|^typedef .*[ *(]wm_[a-z0-9_]+_t(;|\))' "${ours[@]}" | grep -oE 'wm_[a-z0-9_]+_t(;|\))$' | sort | uniq -d | tr -d ';)')
while read -r name; do fault "the guard $name is that of more than one header"; done < <(
    grep -hoE '^#ifndef [A-Z0-9_]+_H$' "${ours[@]}" | sort | uniq -d)
while read -r _ name; do fault "the constant $name is defined in more than one header"; done < <(
    grep -hoE '^#define WM_[A-Z0-9_]+ ' $(printf '%s\n' "${ours[@]}" | grep '\.h$') | sort | uniq -d)
while read -r name; do fault "more than one file is called $name"; done < <(
    printf '%s\n' "${ours[@]##*/}" | grep '^wm_' | sort | uniq -d)

# No line longer than 100 columns, also where clang-format is off.
while read -r where; do
    fault "$where: longer than 100 columns"
done < <(find "${rooms[@]}" tests \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z |
    xargs -0 awk 'length > 100 { print FILENAME ":" FNR }')

while read -r where; do
    fault "$where: longer than 120 columns"
done < <(git ls-files Makefile '*.mk' 2>/dev/null | xargs awk 'length > 120 { print FILENAME ":" FNR }')

# No function longer than a screen or two.
while read -r where; do
    fault "$where"
done < <(find "${rooms[@]}" -name '*.c' -print0 | sort -z | xargs -0 awk '
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start > 71) print FILENAME ":" start ": a function of " FNR - start - 1 " lines; 70 are enough"; start = 0 }')

# Functions that nothing calls and non-static names without wm_ are faults; functions that only tests call, advice.
names=$(find "${rooms[@]}" tests \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) -print0 |
    xargs -0 perl tests/names.pl) || fault "tests/names.pl failed"
while read -r name; do fault "$name is called by nothing"; done < <(sed -n '/tests use it/!s/^unused //p' <<<"$names")
advice 'functions are called by tests only' "$(sed -n 's/^unused [^ ]*: \(.*\) (tests use it)/\1/p' <<<"$names")"
while read -r name; do fault "$name is not static and does not begin with wm_"; done < <(sed -n 's/^name //p' <<<"$names")

# Files of a folder do not call each other in a circle: each calls those below it.
while read -r circle; do
    fault "a circle of calls in $circle: move what is called from below into a file below, or make the class one file"
done < <(sed -n 's/^circle //p' <<<"$names" | sort)

# Words that the house's English rules out (tests/words.pl), in comments and pages.
while read -r at word; do
    fault "$at: \"$word\": name the actor instead"
done < <(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.md' '*.abnf' '*.mk' '*.sh' '*.pl' '*.py' Makefile |
    grep -vE '^tests/|RESULTS' | xargs perl tests/words.pl || echo 'tests/words.pl: failed')

# Whether a parent has ended is asked in one place (its number alone means nothing), and a process is named in one place
# (wm_environment.c gives a program that starts again the name it had).
while read -r where; do
    fault "$where: call wm_process_follow, or wm_process_name"
done < <(grep -rnE 'getppid|PR_SET_PDEATHSIG|PR_SET_NAME' --include='*.[ch]' "${rooms[@]}" |
    grep -vE '^(schema/base/wm_process|schema/base/wm_environment|gpuworker/engine/wm_cpu_limit)\.c:' | cut -d: -f1,2)

# Tests depend on nothing that a machine may have: an absent folder lies below /proc, where none can be made; what a test writes
# lies in its own folder, not in the home of a user or at a fixed name in /tmp; and a terminal's or user's setting is not read.
while read -r where; do
    fault "$where: an absent path is /proc/nowhere, which cannot be made"
done < <(grep -rnE "(^|[] =\"'(:>|,]|ipc://)/(nowhere|no/such|nonexistent|does/not|missing|absent)\>" tests | cut -d: -f1,2)
while read -r where; do
    fault "$where: write into \$work (mktemp), not at a fixed name in /tmp or at home"
done < <(grep -rnE '(>|mkdir( -p)?|touch|cp|mv|ln( -s)?) *"?(/tmp/[A-Za-z0-9]|~/)' --include='*.t' --include='*.sh' tests | cut -d: -f1,2)
while read -r where; do
    fault "$where: less than 60 s are not enough on a loaded machine: wait for a condition"
done < <(grep -rnE '\<until_(true|counted) [1-5]?[0-9] ' --include='*.t' --include='*.sh' tests | cut -d: -f1,2)

# Formatting is advice: versions of clang-format differ.
advice 'wrapped banners (/* ---- x ---- and */ on the next line)' \
    "$(grep -rnE --include='*.[ch]' '^/\* ---- .*-$' "${rooms[@]}" tests | cut -d: -f1,2)"
if command -v clang-format >/dev/null; then
    advice 'files that make format would change' "$(find "${rooms[@]}" tests -name '*.[ch]' -print0 |
        xargs -0 clang-format --dry-run 2>&1 | sed -n 's/:[0-9]*:[0-9]*: warning.*//p' | sort -u)"
fi

if ((faults)); then
    echo "$faults faults"
    exit 1
fi
echo "lint: arrows, first lines, sizes and names are as agreed"
