#!/bin/bash
# screens.sh - pages of a made campaign as the manual shows them: report.png, serve.png, show.png, by Chromium.
#
# usage: ops/manual/pictures/screens.sh BIN TO     (make screens)
# The campaign's clock is fixed by nothing, so the pictures differ in their times only.
set -e
bin=$(realpath "$1") to=$(realpath "$2")
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
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
ls -l "$to"/*.png
