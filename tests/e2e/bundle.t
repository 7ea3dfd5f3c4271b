#!/bin/bash
# bundle.t - make bundle: a campaign in an empty root, read-only, not as root; what make install puts where.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} bundle=$PWD/${WM_BUILD:-build/release}/bundle/wiremill
[ -x "$bundle/bin/wiremill" ] || bail "there is no bundle in $bundle: make bundle"
make_model 1 && make_events bundle --events 2 --seed 9 --hits 3000 --tpcs 1 || bail "no model or events"

# A root with the bundle, kernel file systems and one folder; a user who is not root, and has no network.
command -v bwrap >/dev/null || make -s deps PACKAGES=bubblewrap >&2
mkdir "$work/data" && cp "$made/model-1.onnx" "$made/bundle.h5" "$work/data"
empty=(bwrap --unshare-all --uid 1000 --gid 1000 --cap-drop ALL --clearenv --die-with-parent --proc /proc --dev /dev
    --ro-bind "$bundle" /cvmfs/wm --bind "$work/data" /data)
inside () { keep timeout 300 "${empty[@]}" --chdir /data "/cvmfs/wm/bin/$1" "${@:2}"; }
whole () { inside wiremill run --model model-1.onnx --input bundle.h5 --output "$@"; }
if ! unshare -Ur true 2>/dev/null; then
    skip "user namespaces are forbidden here"
else
    ok "a campaign in an empty root" whole out
    ok "its programs lie beside the loader, and find it fit" inside wiremill doctor out
    "$bin/wiremill" run --quiet --model "$made/model-1.onnx" --input "$made/bundle.h5" --output "$work/here" >&2
    ok "the scores are those of the build" same_scores bundle "$work/here" "$work/data/out"
    # The command of ops/bundle/Containerfile, as process 1: its entry point, environment and folder are read there.
    image () { sed -n "s/^$1 //p" ops/bundle/Containerfile; } # instruction
    contained ()
    {
        local set entry
        read -ra set <<<"$(image ENV | sed -E 's/([A-Z_]+)=([^ ]*)/--setenv \1 \2/g' | tr '\n' ' ')"
        read -ra entry <<<"$(image ENTRYPOINT | tr -d '[]",')"
        keep timeout 300 "${empty[@]}" --as-pid-1 --ro-bind "$bundle" "$(image COPY | cut -d ' ' -f 2)" "${set[@]}" \
            --chdir "$(image WORKDIR)" "${entry[@]}" run --model model-1.onnx --input '*.h5' --output contained
    }
    ok "the command of its Containerfile" contained
    ok "... the scores are the same" same_scores bundle "$work/here" "$work/data/contained"
    ok "verify: other programs, started by the first" inside wiremill verify --sample 50 out
    for engine in openvino onnxruntime; do
        [ -e "$bundle/lib/wm_$engine.so" ] || { skip "$engine is not in this bundle"; continue; }
        general () { whole "$engine" --engine "$engine" && says "scored by +$engine"; }
        ok "$engine" general
        ok "... and its licences" grep -rq . "$bundle/licenses/$engine"
    done
    if [ -e "$bundle/lib/wm_openvino.so" ] && [ -e "$bundle/lib/wm_onnxruntime.so" ]; then
        judged () { inside wiremill import --general model-1.onnx -o general.wmm && says 'judged by onnxruntime'; }
        ok "an import opens both" judged
    else
        skip "one of the general engines is not in this bundle"
    fi
    if [ -e "$bundle/lib/wm_cuda.so" ]; then
        cuda () { ! whole cuda --engine cuda && says 'cannot start: there is no NVIDIA driver'; }
        ok "the CUDA engine opens with its libraries" cuda
    else
        skip "the CUDA engine is not in this bundle"
    fi
    readonly_tree () { ! timeout 60 "${empty[@]}" /cvmfs/wm/bin/wiremill synth --events 1 --output /cvmfs/wm/x.h5 2>/dev/null; }
    ok "nothing can be written to the bundle" readonly_tree
fi

# On the host: nothing but the bundle's own libraries, but for its drivers; and a licence for each of them.
own ()
{
    LD_DEBUG=files "$bundle/bin/wiremill" doctor "$work" >"$work/doctor" 2>&1 || return 1
    local pid=$(sed -n "s|^ *\([0-9]*\):.*calling init: $bundle/lib/libzmq.*|\1|p" "$work/doctor" | head -1) # not of what it asks
    [ "$pid" ] && ! sed '/calling init: .*libOpenCL/,$d' "$work/doctor" | grep "^ *$pid:.*calling init: " | grep -v "calling init: $bundle/"
}
ok "no library of the host is loaded" own
licences ()
{
    local library package
    cmp LICENSE "$bundle/licenses/wiremill.txt" || return 1
    for library in "$bundle"/lib/*.so.* "$bundle"/bin/ld-*; do
        package=$(sed -n "s:^${library#"$bundle/"} ::p" "$bundle/licenses/files")
        [ -n "$package" ] && [ -s "$bundle/licenses/$package.txt" ] || { echo "no licence of $library ($package)"; return 1; }
    done
}
ok "a licence for each library" licences
# The library is for programs of the host: their C library, and the bundle's for the rest.
program ()
{
    local flags library
    export PKG_CONFIG_PATH=$bundle/sdk/lib/pkgconfig
    flags=$(pkg-config --cflags --libs wiremill) || return 1
    # shellcheck disable=SC2086 # words are meant
    cc ops/lib/examples/score.c $flags -Wl,-rpath,"$bundle/sdk/lib" -o "$work/score" || return 1
    head -c 92160 /dev/zero >"$work/zeros.f4"
    keep env LD_DEBUG=libs "$work/score" "$made/model-1.onnx" "$work/zeros.f4" || return 1
    [ "$(grep -c '^[0-9.e-]* [0-9.e-]* [0-9.e-]* [0-9.e-]*$' "$work/said")" = 10 ] || return 1
    for library in crypto sodium protobuf-c; do says "calling init: $bundle/sdk/lib/wiremill/lib$library" || return 1; done
    ! grep 'calling init: .*/bundle/.*/lib[cm]\.so' "$work/said"
}
ok "libwiremill, in a program of the host" program
alone () { mkdir "$work/bin" && cp "$bundle/bin/wiremill" "$work/bin" && refused 127 'is the bundle complete\?' "$work/bin/wiremill"; }
ok "a launcher without its bundle" alone

# make install and uninstall; the units of systemd.
place="$work/a place"
install () { make -s install B="$build" DESTDIR="$place" PREFIX=/opt/wiremill && [ -x "$place/opt/wiremill/bin/wiremill-worker" ]; }
ok "make install, below DESTDIR" install
engines () # each with its libraries, which the loader finds there
{
    local object
    for object in "$build"/lib/wm_*.so; do
        ldd "$place/opt/wiremill/lib/${object##*/}" >"$work/linked" && ! grep 'not found' "$work/linked" &&
            ! grep -E '(openvino|onnxruntime).* => ' "$work/linked" | grep -v "=> $place/opt/" || return 1
    done
}
ok "the engines are there" engines
less ()
{
    make -s install B="$build" DESTDIR="$work/less" PREFIX=/opt ONNXRUNTIME=none &&
        [ -z "$(find "$work/less" -name '*onnxruntime*')" ]
}
ok "... but for one that is left out" less
runs () { "$place/opt/wiremill/bin/wiremill" model new emtrkmichel -o "$work/new.onnx" && cmp "$work/new.onnx" "$made/model-1.onnx"; }
ok "it runs from there" runs
named () # the network that comes with wiremill: in a folder of that kind, by its name
{
    cmp ops/train/emtrkmichel.onnx "$place/opt/wiremill/share/wiremill/synthetic.onnx" && make_events tiny --events 1 --hits 200 --tpcs 1 &&
        "$place/opt/wiremill/bin/wiremill" run --quiet --model synthetic --input "$made/tiny.h5" --output "$work/named" &&
        [ -s "$work/named/tiny.scores.h5" ] && cmp "$bundle/share/wiremill/synthetic.onnx" ops/train/emtrkmichel.onnx
}
ok "--model synthetic" named
units ()
{
    local unit
    cp "$place"/opt/wiremill/lib/systemd/system/*.socket "$work"
    for unit in broker worker gateway; do
        unit=$place/opt/wiremill/lib/systemd/system/wiremill-$unit@.service
        grep -q '^ExecStart="/opt/wiremill/bin/wiremill" ' "$unit" || return 1
        sed "s|=\"/opt|=\"$place/opt|" "$unit" >"$work/${unit##*/}"
    done
    keep systemd-analyze verify --man=no "$work/wiremill-broker@one.service" "$work/wiremill-worker@one.service" \
        "$work/wiremill-gateway@a.service" "$work/wiremill-gateway-grpc.socket" "$work/wiremill-gateway-http.socket"
}
for unit in broker worker; do ln -s "wiremill-$unit@.service" "$work/wiremill-$unit@one.service"; done
ln -s wiremill-gateway@.service "$work/wiremill-gateway@a.service"
if command -v systemd-analyze >/dev/null; then
    ok "systemd takes its units" units
    worse () { sed -i 's|^ExecStart=.*|ExecStart=/proc/nowhere/wiremill|' "$work/wiremill-broker@.service" && ! units_again; }
    units_again () { systemd-analyze verify --man=no "$work/wiremill-broker@one.service"; }
    ok "... and would refuse others" worse
else
    skip "no systemd-analyze here"
fi
uninstall ()
{
    make -s uninstall B="$build" DESTDIR="$place" PREFIX=/opt/wiremill && [ -z "$(find "$place" ! -type d)" ] ||
        { find "$place" ! -type d; return 1; }
}
ok "make uninstall leaves no file" uninstall
done_testing
