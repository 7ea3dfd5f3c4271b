#!/bin/bash
# screens.sh - a made campaign as the manual shows it: report.png, serve.png, show.png by Chromium, top.svg by tmux.
#
# usage: ops/manual/pictures/screens.sh BIN TO     (make screens)
# The campaign's clock is fixed by nothing, so the pictures differ in their times only.
set -e
bin=$(realpath "$1") to=$(realpath "$2")
work=$(mktemp -d /tmp/XXX)
pictures=$(realpath "$(dirname "$0")")
trap 'kill "$server" "$campaign" 2>/dev/null; tmux -L "wiremill-$$" kill-server 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
for n in 1 2 3 4; do
    "$bin/wiremill" synth --events 2 --seed "$n" --run "$n" --hits 20000 --output "events-$n.h5"
done
"$bin/wiremill" run --quiet --model synthetic --input 'events-*.h5' --output out
"$bin/wiremill" report out --pictures 0 --output report.html
"$bin/wiremill" show out/events-1.scores.h5 --event 1:1:1 --output show.html
"$bin/wiremill" serve out --listen 127.0.0.1:9555 &
server=$!
until curl -fs http://127.0.0.1:9555/health/live >/dev/null; do sleep 0.1; done
shot () # name, address
{
    chromium --headless --no-sandbox --hide-scrollbars --virtual-time-budget=3000 --window-size=1000,760 \
        --screenshot="$to/$1.png" "$2" 2>/dev/null
}
shot report "file://$work/report.html"
shot show "file://$work/show.html"
shot serve http://127.0.0.1:9555/

# A campaign under way, with an input that is held.
for n in {1..40}; do cp "events-$((n % 4 + 1)).h5" "run-$n.h5"; done
head -c 3000 events-1.h5 >run-0.h5
"$bin/wiremill" run --quiet --model synthetic --workers 2 --threads 1 --input 'run-*.h5' --output run >run.log 2>&1 &
campaign=$!
until [ -e run.wiremill/endpoint.json ]; do sleep 0.1; done
screen () { tmux -L "wiremill-$$" -f /dev/null "$@"; }
screen new-session -d -x 100 -y 18 "TERM=xterm-256color LC_ALL=C.UTF-8 NO_COLOR= '$bin/wiremill' top run"
until screen capture-pane -e -p | tee top.txt | grep -Eq ' [4-7][0-9]\.[0-9]% '; do sleep 1; done
python3 "$pictures/screen.py" <top.txt >"$to/top.svg"
ls -l "$to"/*.png "$to/top.svg"
