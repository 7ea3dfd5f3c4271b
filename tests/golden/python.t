#!/bin/bash
# python.t - the Python package: its wheel, installed by pip without a compiler and without a network, and what it does.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} python=$PWD/build/venv/bin/python site=$work/site
make_model small-1 && make_model 1 && make_events lib --events 1 --seed 5 --tpcs 1 --hits "$(size 600 15000 15000)" ||
    bail "no models or events"
wheel=$(ls "$build"/wheel/wiremill-*.whl) || bail "there is no wheel in $build/wheel: make wheel"
cc -O1 -Iops/lib tests/lib/calls.c -L"$build/lib" -lwiremill -Wl,-rpath,"$PWD/$build/lib" -pthread -lm -o "$work/calls" || bail "cc"

# No program but Python can be found, and no index.
install () { PATH=/proc/nowhere "$python" -m pip install --no-index --no-deps --disable-pip-version-check --target "$site" "$wheel"; }
ok "pip installs it, without a compiler" install
small () { [ "$(stat -c %s "$wheel")" -lt 25000000 ]; }
ok "it is smaller than 25 MB" small
oldest () # its name promises a C library; no symbol may be younger
{
    local promised
    promised=$(sed 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/' <<<"$wheel")
    find "$site/wiremill/lib" -name '*.so*' -exec objdump -T {} + | grep -o 'GLIBC_[0-9.]*[0-9]' | sed 's/GLIBC_//' |
        sort -uV >"$work/symbols"
    [ -s "$work/symbols" ] && [ "$(printf '%s\n' "$promised" "$(tail -n 1 "$work/symbols")" | sort -V | tail -n 1)" = "$promised" ]
}
ok "it needs no younger C library than its name promises" oldest
own () # what it links comes from the wheel, under names that no library of the host has
{
    LD_DEBUG=files PYTHONPATH=$site "$python" -c 'import wiremill, ssl; ssl.create_default_context()' 2>"$work/loaded" || return 1
    for library in libwiremill wiremill/wm_{crypto,protobuf-c,sodium,xxhash,zstd}; do
        grep -q "calling init: $site/wiremill/lib/$library" "$work/loaded" ||
            { echo "not from the wheel: $library"; return 1; }
    done
    ! find "$site/wiremill/lib" -name '*.so*' -exec readelf -d {} + |
        grep -E '(NEEDED|SONAME).*\[lib' | grep -vE '\[(libc|libm|libwiremill|libopenvino_c|libonnxruntime)\.so'
}
ok "its libraries are its own" own
documented () # the examples of the docstrings, in a folder with a model and a campaign
{
    mkdir -p "$work/doc" && cp "$made/model-1.onnx" "$work/doc/model.onnx" && cp "$made/lib.h5" "$work/doc/events.h5" &&
        (cd "$work/doc" && "$bin/wiremill" run --quiet --model model.onnx --input events.h5 --output out >log 2>&1 &&
            PATH=$bin:$PATH PYTHONPATH=$site "$python" -c 'import doctest, os, numpy, wiremill
names = {"wiremill": wiremill, "np": numpy, "os": os}
results = [doctest.testmod(module, extraglobs=names) for module in (wiremill, wiremill._client, wiremill._files)]
print(results)
assert sum(r.attempted for r in results) >= 15 and not any(r.failed for r in results)')
}
ok "the examples of its docstrings" documented
notebook () # the example from top to bottom, as a person would
{
    local venv=$work/notebook
    PATH=/proc/nowhere "$venv/bin/python" -m pip -q install --no-index "$wheel" &&
        (cd "$work" && PATH=$venv/bin:$PATH WIREMILL_PROGRAM=$bin/wiremill timeout 600 "$venv/bin/python" \
            "$OLDPWD/tests/golden/notebook.py" "$OLDPWD/ops/python/example.ipynb" "$work/executed.ipynb")
}
parquet () # what the package writes for the program
{
    local big=$work/big.scores.h5
    export WIREMILL_PYTHON=$work/notebook/bin/python
    "$WIREMILL_PYTHON" tests/e2e/export.py make "$work/doc/out/events.scores.h5" "$big" &&
        keep "$bin/wiremill" export "$big" --to parquet && says 'big.scores.parquet: 40001 rows' &&
        exits 5 keep "$bin/wiremill" export "$made/lib.h5" --to parquet --output "$work" &&
        says 'wiremill export: .*lib.h5: not an output of wiremill run' && [ ! -e "$work/lib.parquet" ] &&
        (ulimit -f 100; trap '' XFSZ; exits 1 keep "$bin/wiremill" export "$big" --to parquet --force) &&
        says 'big.scores.parquet: cannot write: File too large' && ! ls "$work"/*.part &&
        "$WIREMILL_PYTHON" tests/e2e/export.py parquet "$big" "${big%.h5}.parquet"
}
if [ "$(size test proof soak)" != test ]; then
    if "$python" -m venv "$work/notebook" && "$work/notebook/bin/python" -m pip -q install --only-binary=:all: \
        h5py ipykernel matplotlib mypy nbclient pandas pyarrow >&2; then
        ok "the example notebook" notebook
        ok "wiremill export --to parquet" parquet
        ok "its types hold" "$work/notebook/bin/mypy" --strict --cache-dir "$work/types" ops/python/wiremill
    else
        skip "pip cannot install what a notebook needs"
        skip "pip cannot install pyarrow"
        skip "pip cannot install mypy"
    fi
fi
general= engines=()
for engine in openvino onnxruntime; do [ ! -e "$build/lib/wm_$engine.so" ] || engines+=("$engine"); done
if [ ${#engines[@]} != 0 ]; then
    "$bin/wiremill" import --general "$made/model-small-1.onnx" -o "$work/general.wmm" >&2 || bail "no general model"
    general=$work/general.wmm
fi
# Folders that have the packages openvino and onnxruntime: their unpacked wheels.
packages=$(readlink -f "$build/lib/openvino")/../..
packages+=:$(dirname "$(readlink -f "$build"/lib/onnxruntime/libonnxruntime.so.1)")/../..
try () # model, general model, folder
{
    mkdir "$work/${3:-$1}" && WIREMILL_PROGRAM=$bin/wiremill PYTHONPATH=$site:$packages timeout 300 "$python" \
        tests/golden/python.py "$work/calls" "$made/$1.wmm" "$made/$1.onnx" "$2" "$made/lib.h5" "$work/${3:-$1}" "${engines[@]}"
}
ok "what it promises" try model-small-1 "$general"
[ "$(size test proof soak)" = test ] || ok "... by the whole network" try model-1 ""
# Other Pythons of this machine, with the newest NumPy that each can have.
for other in $([ "$(size test proof soak)" = test ] || ls -d ~/.pyenv/versions/3.*/bin/python /usr/bin/python3.?? 2>/dev/null); do
    "$other" -c 'import sys; sys.exit (sys.version_info < (3, 9))' || continue
    version=$("$other" -c 'import platform; print (platform.python_version ())') venv=$work/venv-$version
    "$other" -m venv "$venv" && "$venv/bin/python" -m pip -q install --only-binary=:all: numpy h5py pandas pyarrow >&2 ||
        { skip "Python $version: pip cannot install NumPy"; continue; }
    of_venv ()
    {
        PATH=/proc/nowhere "$venv/bin/python" -m pip -q install --no-index "$wheel" &&
            site='' python=$venv/bin/python try model-small-1 "" "$version"
    }
    ok "Python $version" of_venv
    rm -rf "$venv"
done
without () # engine: names what is missing
{
    exits 1 keep env PYTHONPATH="$site" "$python" -c 'import sys
sys.modules[sys.argv[2]] = None # as if it were not installed
import wiremill
wiremill.Model (sys.argv[1], engine=sys.argv[2])' "$work/general.wmm" "$1" &&
        says "WiremillError: the $1 engine cannot be opened: lib$1.*; pip install 'wiremill\[$1\]', which is $1==[0-9.]+$" &&
        ! grep -q make "$work/said"
}
judge () # model, ONNX Runtime's library is loaded: True or False
{
    PYTHONPATH=$site:$packages "$python" -c 'import sys, wiremill
wiremill.Model (sys.argv[1])
print ("libonnxruntime.so" in open ("/proc/self/maps").read ())' "$1" 2>&1 | grep -x "$2"
}
for engine in "${engines[@]}"; do ok "without $engine" without "$engine"; done
case ${engines[*]} in
*onnxruntime)
    ok "an import has the package onnxruntime" judge "$made/model-small-1.onnx" True
    ok "... a model that is imported does not load it" judge "$made/model-small-1.wmm" False
    ;;
*) skip "ONNX Runtime is not built" ;;
esac
same () # the same bundle, the same bytes
{
    python3 ops/python/build_wheel.py "$build/bundle/wiremill" "$(sed 's/.*wiremill-\([^-]*\)-.*/\1/' <<<"$wheel")" "$work/${wheel##*/}" &&
        cmp "$wheel" "$work/${wheel##*/}"
}
ok "it is reproducible" same
done_testing
