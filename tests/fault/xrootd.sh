#!/bin/bash
# xrootd.sh - an xrootd server for a test, of $work/data, and what campaigns with it need: `. tests/fault/xrootd.sh FILE.t`.
# shellcheck shell=bash
# xrootd listens on all addresses: where it is allowed, in a network that nobody else sees.
apart=(unshare --net) && [ "$(id -u)" = 0 ] || apart=(unshare --map-current-user --net)
if [ -z "$WM_RENDER_PROCESS" ] && "${apart[@]}" ip link set lo up 2>/dev/null; then
    WM_RENDER_PROCESS=1 exec "${apart[@]}" sh -c 'ip link set lo up && exec bash "$0"' "$1"
fi
. tests/helper.sh
export WM_TIME_SCALE=20
has xrootd xrdcp curl || { skip "xrootd-server, xrootd-client or curl is not installed"; done_testing; }
make_events stage-a --events 2 --seed 7 --hits 600 --tpcs 1 && make_events stage-b --events 1 --seed 8 --hits 600 --tpcs 1 &&
    make_events stage-c --events 1 --seed 9 --hits 300 --tpcs 1 || bail "no events"
made_once "$made/stage.onnx" "$bin/wiremill" model new emtrkmichel --seed 1 --wire 16 --bin 16 -o "$made/stage.onnx" || bail "no model"
chmod 755 "$work" && mkdir -m 755 "$work/data" && mkdir -m 777 "$work/admin" && cp "$made"/stage-?.h5 "$work/data" && chmod 644 "$work"/data/*
cat >"$work/xrootd.cfg" <<EOF
all.role server
all.export /data
oss.localroot $work
xrd.port $port
xrd.allow host localhost
xrd.allow host 127.0.0.1
xrootd.chksum adler32
all.adminpath $work/admin
all.pidpath $work/admin
EOF
as=() && [ "$(id -u)" != 0 ] || as=(-R nobody)
server () # starts it; its pid is in $server
{
    xrootd "${as[@]}" -c "$work/xrootd.cfg" -l "$work/admin/log" >/dev/null 2>&1 &
    server=$!
    # Nothing of a killed test outlives it for long. One process, which a test that ends ends too: make waits for each that
    # still has its job server's pipe.
    perl -e 'sleep 300; kill 9, shift' $server >/dev/null 2>&1 &
    until_true 60 env XRD_CONNECTIONWINDOW=1 XRD_CONNECTIONRETRY=1 xrdfs "root://127.0.0.1:$port" stat /data
}
server || { cat "$work"/admin/log; bail "xrootd does not serve"; }
export XRD_CPCHUNKSIZE=8192 XRD_CPPARALLELCHUNKS=1
