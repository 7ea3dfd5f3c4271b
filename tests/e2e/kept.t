#!/bin/bash
# kept.t - imported models are kept for the next campaign, and nothing that is kept there is believed unseen.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_events kept --events 1 --seed 6 --hits 200 --tpcs 1 || bail "no events"
small () { made_once "$made/kept-$1.onnx" "$bin/wiremill" model new emtrkmichel --seed "$1" --wire 16 --bin 16 -o "$made/kept-$1.onnx"; }
small 1 && small 2 || bail "no models"
kept=$XDG_CACHE_HOME/wiremill/models m=$work/m.onnx
sha () { sha256sum "$1" | cut -d ' ' -f 1; }
one=$(sha "$made/kept-1.onnx") two=$(sha "$made/kept-2.onnx")

run () # output, options...
{
    local to=$work/$1
    shift
    keep "$bin/wiremill" run --model "$m" --input "$made/kept.h5" --output "$to" --workers 1 --threads 1 --quiet "$@"
}
file () { ls -i "$1" | cut -d ' ' -f 1; } # its inode
wmm () { echo "$work/$1$beside/models/$2.wmm"; } # output, model
linked () { [ "$(file "$(wmm "$1" "$2")")" = "$(file "$kept/$2.wmm")" ] || { echo "another file"; ls -li "$kept"; return 1; }; }
silent () { ! says 'imported again|is not used'; }

cp "$made/kept-1.onnx" "$m"
off () { WM_MODEL_CACHE=off run off && silent && [ ! -e "$kept" ]; }
ok "switched off, nothing is kept" off
first () { run first && silent && linked first "$one" && [ "$(stat -c %a "$kept")" = 700 ] && same_scores kept "$work/off" "$work/first"; }
ok "the first campaign keeps its model" first
# Its file is opened twice: for its first bytes, which name its kind, and to be hashed and imported.
opened ()
{
    python3 - "$m" "$bin/wiremill" run --model "$m" --input "$made/kept.h5" --output "$work/opened" --workers 1 \
        --threads 1 --quiet <<'EOF'
import ctypes, os, struct, subprocess, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, sys.argv[1].encode(), 0x20 | 0x08 | 0x10)  # opened, closed
code = subprocess.run(sys.argv[2:]).returncode
n = sum(mask == 0x20 for _, mask, _, _ in struct.iter_unpack('iIII', os.read(watch, 65536)))
print(f'exit code {code}, opened {n} times')
sys.exit(code or n != 2)
EOF
}
WM_MODEL_CACHE=off ok "a model's first import reads its file once" opened
same () { cmp "$(wmm off "$one")" "$(wmm "$1" "$one")" && same_scores kept "$work/off" "$work/$1"; }
inode=$(file "$kept/$one.wmm")
second () { run second && silent && [ "$(file "$kept/$one.wmm")" = "$inode" ] && linked second "$one" && same second; }
ok "the second uses it, with the same bytes" second
alias () { [ "$work/second$beside/models/$(sha "$kept/$one.wmm").wmm" -ef "$kept/$one.wmm" ]; }
ok "... under the name that workers look for" alias
grouped () { run grouped --group "$(id -gn)" && ! linked grouped "$one" && same grouped; }
ok "a campaign for a group has a file of its own" grouped

# The broker reads the model while it opens the campaign, and serves no other than the one pinned.
pinned ()
{
    "$bin/wiremill-broker" --outputs --campaign "$work/second$beside" |
        perl -MJSON::PP -e 'local $/; print decode_json (<>)->{pins}' >"$work/pins" && exits 5 keep "$bin/wiremill-broker" \
        --campaign "$work/other" --listen "ipc://$work/other" --pins "$work/pins" --wmm "$1" && says "$2"
}
ok "a broker refuses another model than the one pinned" pinned "$made/kept-1.onnx" 'SHA-256 [0-9a-f]*, the pins name'
missing () { "$bin/wiremill-broker" --campaign "$work/other" --listen "ipc://$work/other" --pins "$work/pins" --wmm "$work/none" >"$work/said" 2>&1; [ $? = 2 ] && says '[-]-wmm .*/none does not exist'; }
ok "... and none that cannot be read" missing

# A stamp of the file, from `wiremill` that has checked it, takes the place of reading it, as long as nobody writes to it.
stamp () # file
{
    # shellcheck disable=SC2046 # three numbers
    printf '%x:%x:%d:%s:%s' $(stat -c '%d %i %s' "$1") "$(stat -c %.9Y "$1" | tr -d .)" "$(stat -c %.9Z "$1" | tr -d .)"
}
stamped () # file, stamp, pattern of what the broker logs
{
    rm -f "$work/said"
    "$bin/wiremill-broker" --campaign "$work/stamped" --listen "ipc://$work/stamped.b" --pins "$work/pins" --wmm "$1" \
            --checked "$2" --advise x >"$work/said" 2>&1 &
    local broker=$!
    until_true 60 says "$3"
    local code=$?
    kill $broker 2>/dev/null
    wait $broker
    return $code
}
cp "$made/kept-1.onnx" "$work/other.wmm" && touch -d '1 hour ago' "$work/other.wmm"
ok "a file with the stamp that was given is not read again" stamped "$work/other.wmm" "$(stamp "$work/other.wmm")" "serves $work/stamped"
was=$(stamp "$work/other.wmm") && touch -d '2 hours ago' "$work/other.wmm"
ok "... one that was written since then is" stamped "$work/other.wmm" "$was" 'SHA-256 [0-9a-f]*, the pins name'
touch "$work/other.wmm"
ok "... and one that is being written, whatever its stamp" stamped "$work/other.wmm" "$(stamp "$work/other.wmm")" 'SHA-256'
passed () # `wiremill broker` becomes wiremill-broker
{
    touch -d '1 hour ago' "$(wmm second "$one")" && rm -f "$work/said"
    "$bin/wiremill" broker --model "$m" --output "$work/second" --listen "ipc://$work/passed.b" >"$work/said" 2>&1 &
    local broker=$!
    until_true 60 says 'serves' && tr '\0' ' ' <"/proc/$broker/cmdline" | grep -e "--checked $(stamp "$(wmm second "$one")") "
    local code=$?
    kill $broker 2>/dev/null
    wait $broker
    return $code
}
ok "... it is passed on" passed

# Workers of `wiremill run` wait at a pipe until its broker serves: they reach no other before.
mkfifo "$work/gate" && exec 8<>"$work/gate"
at_gate () { exec "$bin/wiremill-worker" --broker "ipc://$work/nobody" --give-up 0.1 --after 9 9<"$work/gate" 8>&- >"$work/at-gate" 2>&1; }
waits () { [ "$(readlink /proc/$pid/exe)" = "$bin/wiremill-worker" ] && grep -q '^SigCgt:.*4..2$' /proc/$pid/status; }
ends () { wait $pid; [ $? = "$1" ] && cat "$work/at-gate"; }
stopped () { until_true 60 waits && kill -TERM $pid && ends 75 && ! grep connects "$work/at-gate"; }
at_gate & pid=$!
ok "a worker at the gate is stopped by a signal" stopped
begins () { until_true 60 waits && ! grep connects "$work/at-gate" && exec 8>&- && ends 4 && grep connects "$work/at-gate"; }
at_gate & pid=$!
ok "... and begins when it opens" begins
exec 8>&-
ok "... a pipe that is none" exits 2 keep "$bin/wiremill-worker" --broker "ipc://$work/nobody" --after 2

# A byte changes: the campaign that has the file, and the next one, import again.
flip () { printf '\125' | dd of="$1" bs=1 seek=20000 conv=notrunc status=none; }
flip "$kept/$one.wmm"
damaged () { run "$1" && says "$one.wmm is damaged; the model is imported again" && linked "$1" "$one" && same "$1"; }
ok "a damaged one is made again" damaged third
: >"$kept/$one.wmm"
again () { run "$1" && linked "$1" "$one" && same "$1"; }
ok "... an empty one" again fourth
echo nonsense >"$kept/$one.known"
ok "... one whose line is damaged" again fifth
sed -i 's/ 0\.1\.0 / 0.0.9 /; s/ [0-9a-f]*$/ 0000/' "$kept/$one.known"
ok "... one of another build" again sixth
foreign () { run "$1" && says "$one.wmm is not used: it is not a file of yours alone" && same "$1"; }
chmod go+w "$kept/$one.wmm"
ok "one that others may write is not used" foreign seventh
cp "$kept/$one.wmm" "$work/elsewhere" && ln -sf "$work/elsewhere" "$kept/$one.wmm"
ok "... nor a link" foreign eighth
ok "... and is replaced" linked eighth "$one"
open_folder () { chmod g+w "$kept" && run ninth && says "models is not used: it is not yours alone; type" && same ninth; }
ok "a folder that others may write is not used" open_folder
chmod 700 "$kept"

# Remembered hashes: of a file that has not changed for 2 s.
remembered () { cat "$kept"/file-*.hash | grep -q "$1"; }
known () { drop "$work/tenth" && run tenth && remembered "$one"; }
ok "the hash of a file that rests is remembered" until_true 60 known
cp -p "$m" "$work/before"
printf '\125' | dd of="$m" bs=1 seek=20000 conv=notrunc status=none && touch -r "$work/before" "$m"
changed () { drop "$work/eleventh" && run eleventh && [ -e "$(wmm eleventh "$(sha "$m")")" ] && [ ! -e "$(wmm eleventh "$one")" ]; }
ok "a changed file of the same size and time is another model" changed
rested () { changed && remembered "$(sha "$m")"; }
ok "... also when it has rested" until_true 60 rested
cp "$made/kept-2.onnx" "$m"
other () { run twelfth && [ -e "$(wmm twelfth "$two")" ] && linked twelfth "$two"; }
ok "... and so is another file in its place" other
lie () # a remembered hash of a model that is not there is not relied upon
{
    known_two () { drop "$work/lie" && run lie && remembered "$two"; }
    until_true 60 known_two && sed -i "s/$two/$(printf '%064d' 0)/" "$kept"/file-*.hash &&
        drop "$work/lie" && run lie && [ -e "$(wmm lie "$two")" ] && remembered "$two"
}
ok "a remembered hash of no model is found out" lie

# Two at once fill an empty folder.
rm -rf "$kept"
both ()
{
    "$bin/wiremill" run --model "$m" --input "$made/kept.h5" --output "$work/a" --workers 1 --threads 1 --quiet >"$work/a.said" 2>&1 &
    local pid=$!
    run b && wait $pid && same_scores kept "$work/a" "$work/b" && run c && linked c "$two" && [ "$(ls "$kept"/*.tmp "$kept"/*.new 2>/dev/null | wc -l)" = 0 ]
}
ok "two commands fill it at once" both
rm -rf "$XDG_CACHE_HOME" && : >"$XDG_CACHE_HOME"
nowhere () { run nowhere && silent && same_scores kept "$work/a" "$work/nowhere"; }
ok "where it cannot be made, the campaign goes without" nowhere
full () # the models that were unused longest go, so that the rest is at most 2 GB
{
    local i
    rm -rf "$XDG_CACHE_HOME" && mkdir -p -m 700 "$kept" || return 1
    for i in 1 2 3; do
        truncate -s 900M "$kept/$(printf '%064d' "$i").wmm" && touch -d "2020-01-0$i" "$kept/$(printf '%064d' "$i").known" || return 1
    done
    run full && linked full "$two" && [ "$(cd "$kept" && echo 0*.wmm)" = "$(printf '%064d.wmm %064d.wmm' 2 3)" ]
}
ok "the oldest are removed above 2 GB" full
done_testing
