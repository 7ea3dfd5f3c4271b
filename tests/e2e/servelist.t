#!/bin/bash
# servelist.t - wiremill serve with several campaigns: the list, each one's own pages, finished ones, hostile names; in `make
# proof` in a real browser too.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
unset WM_JOIN_FILE WM_BROKER
command -v curl >/dev/null || { echo "1..0 # SKIP curl is not installed (make deps)"; exit 0; }
make_model "${small}1" && make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 || bail "no model or events"
http=127.0.0.1:$((port + 5)) all="$work/all" hostile='<b>"x' model="$made/model-${small}1.wmm"
mkdir "$all" "$work/more" "$work/none"
head -c 20000 "$made/layout.h5" >"$work/broken.h5"

serve () { "$bin/wiremill" serve --listen "$http" --interval 0.2 "$@" >"$work/serve" 2>&1 & serve=$!; } # options...
end () { kill "$serve" && wait "$serve" || { echo "exit $?"; cat "$work/serve"; return 1; }; }
get () { curl -s -m 20 "http://$http$1" >"$work/said" && cat "$work/said"; } # path
code () { [ "$(curl -s -m 20 --path-as-is -o "$work/said" -w '%{http_code}' "http://$http$2")" = "$1" ] || { echo "not $1"; cat "$work/said"; return 1; }; } # code, path
row () { get / | tr -d '\n' | sed 's/<tr>/\n&/g' | grep -F ">$1</a>" >"$work/row" && cp "$work/row" "$work/said"; } # name: its row
run () { "$bin/wiremill" run --quiet --model "$model" "$@"; } # options...

ok "a campaign" run --input "$made/layout.h5" --output "$all/good"
ok "... with something held" exits 3 run --input "$made/layout.h5" --input "$work/broken.h5" --output "$all/$hostile"
ok "... of the same name elsewhere" run --input "$made/layout.h5" --output "$work/more/good"
"$bin/wiremill" broker --model "$model" --output "$all/live" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
broker=$!
ok "... and a broker without work" until_true 60 grep -q "\"pid\": *$broker" "$all/live$beside/endpoint.json"

# One campaign has the addresses that it always had.
serve "$all/good"
one () { get / && says '<h1>good</h1>' && says 'href="/status.json"' && ! says 'all campaigns' && code 200 /status.json && code 200 /metrics && code 404 /c/good/; }
ok "one campaign: its page is /" until_true 60 one
end

serve "$all" "$work/more/good" "$all/good"
ok "all campaigns of a folder, and one beside it; none of them twice" until_true 60 grep -q "http://$http/ lists 4 campaigns" "$work/serve"
known () { row live && says '>idle<' && row good && says 'worked|, mean '; }
ok "their states" until_true 60 known
summary () { get / && says 'role="status"><strong>4 campaigns</strong>' && says '[^0-9]3 finished' && says '[^0-9]1 idle' && says 'state warn'; }
ok "... are counted" until_true 60 summary
names () { get / >"$work/page" && [ "$(grep -o 'href="/c/[^"]*/"' "$work/page" | sort | paste -sd ' ')" = 'href="/c/-b--x/" href="/c/good-2/" href="/c/good/" href="/c/live/"' ]; }
ok "each has its own path" names
text () { row '&lt;b&gt;&quot;x' && ! grep -q '<b>"x' "$work/page"; }
ok "hostile names are text" text
held () { row '&lt;b&gt;&quot;x' && says 'href="/c/-b--x/held"[^>]*>0</a><small>and 1 input or batch'; }
ok "what is held" held
# When it was worked on, how fast, how many hits: as `wiremill status` prints them.
history ()
{
    local worked hits
    worked=$("$bin/wiremill" status "$all/good" | sed -n 's/^worked: //p') hits=$("$bin/wiremill" status "$all/good" | sed -n 's/^hits: \([0-9,]*\) scored.*/\1/p')
    [ "$worked" ] && [ "$hits" ] && get / && says "<td>$worked</td>" && says ">$hits<"
}
ok "when a finished one was worked on, how fast, and its hits, as status has them" history
# Its graph of the whole campaign ends when it was finished: all parts of it are measured.
whole () { get /c/good/ && sed '/<figure id="hours"/,/<\/figure>/!d' "$work/said" >"$work/hours" && [ "$(grep -c '<th scope="row">[0-9:]*</th><td class="n">[0-9]' "$work/hours")" = 12 ] && ! grep 'not measured' "$work/hours"; }
ok "... and its graph ends with it" until_true 60 whole
page () { get /c/good-2/ && says '<h1>good</h1>' && says "Folder $work/more/good$beside" && says 'href="/c/good-2/status.json"' && says 'href="/">all campaigns'; }
ok "the page of one" page
files ()
{
    get /c/live/status.json | python3 -c 'import json, sys; assert json.load (sys.stdin)["dir"].endswith ("live.wiremill")' &&
        get /c/live/metrics && says '^wiremill_up\{campaign="[0-9a-f]{32}"\} 1' && get /c/good/metrics && says '^wiremill_up\{campaign="[0-9a-f]{32}"\} 0'
}
ok "... its status and metrics" files
# The page of events that lies beside an output, which runs as a site of its own; no other file.
"$bin/wiremill" show "$all/good/layout.scores.h5" -o "$all/good/layout.html" >/dev/null 2>&1
cp "$all/good/layout.html" "$all/good/other.html" && ln -s layout.scores.h5 "$all/good/link.scores.h5" && ln -s layout.html "$all/good/link.html"
event () { curl -s -D "$work/head" -o "$work/event" "http://$http/c/good/event/layout.html" && cmp "$work/event" "$all/good/layout.html"; }
ok "a page of events beside an output" until_true 60 event
apart () { grep -qi "^content-security-policy: sandbox allow-scripts allow-downloads; default-src 'none';" "$work/head"; }
ok "... apart from ours" apart
other () { for name in other.html link.html layout.scores.h5 layout .html '' ../layout.html %2e%2e/good/layout.html ../../more/good/layout.html; do until_true 60 code 404 "/c/good/event/$name" || return 1; done; }
ok "... no other file, no link" other
truncate -s 9M "$all/good/big.html" && touch "$all/good/big.scores.h5"
ok "... none of more than 8 MiB" until_true 60 code 413 /c/good/event/big.html
# What is held, in full: as `wiremill held` lists it; by words and by reason.
rows () { get "/c/-b--x/held$1" && says '<h2 id="list-h">' && [ "$(grep -c '<th scope="row">' "$work/said")" = "$2" ]; } # query, rows
ok "what is held, read when it is asked for" until_true 60 rows '' 1
reason=$("$bin/wiremill" held "$all/$hostile" | sed -n 's/^held: .*broken.h5: \(truncated.*\)/\1/p')
listed () { rows '' 1 && [ "$reason" ] && says '<th scope="row">broken.h5<' && says '<td>all of it</td>' && grep -qF "<td>$reason</td>" "$work/said" && says '<option value="truncated">truncated \(1\)</option>'; }
ok "... its reason, as wiremill held has it" listed
sought () { rows '?q=BROKEN&reason=truncated' 1 && rows '?q=it+has%2020000' 1 && rows '?q=no%3csuch' 0 && says 'value="no&lt;such"' && rows '?reason=bad+time' 0 && rows '?page=99&q=%00%ff%' 0; }
ok "... by words and by reason" sought
clean () { get /c/good/held && says '<strong>nothing is held</strong>' && ! says '<form'; }
ok "... nothing of a campaign without" clean
strict () { curl -s -D "$work/head" -o /dev/null "http://$http/c/-b--x/held" && grep -qi "^content-security-policy: default-src 'none';.*form-action 'self'.*style-src 'sha256-" "$work/head" && ! grep -q script-src "$work/head"; }
ok "... no script may run there" strict
nothing () { for path in /c/ /c/none/ /c/live/x /c/live/../good/ /status.json /metrics /c/liv /c/%2e%2e/ /c/live%00/; do code 404 $path || code 400 $path || return 1; done; }
ok "nothing else is there" nothing
ready () { code 200 /health/ready && says '^live: the broker answers$' && says '^good: it is finished$'; }
ok "ready: brokers answer, and what is finished needs none" ready
if [ "$(size '' 1 1)" ] && ! has chromium; then
    skip "chromium is not installed (make deps-browser)"
elif [ "$(size '' 1 1)" ]; then
    browser ()
    {
        { for width in 1400 700 360; do for how in light dark; do echo "size $width 800 $how"; echo fit; echo audit; done; done
        cat <<'STEPS'
true document.querySelectorAll('tbody tr').length == 4
true !!(window.mark = document.querySelector('#campaigns-h'))
true document.title = 'before'
until document.title == 'wiremill: 4 campaigns, 0 running'
true document.querySelector('#campaigns-h') == mark
true !document.querySelector('a[href="/c/live/"]').click()
until document.querySelector('h1').textContent == 'live'
true document.title = 'before'
until document.title.startsWith('live: idle')
audit
load c/good/event/layout.html
until document.querySelector('canvas') && origin == 'null'
load c/-b--x/held
until document.querySelectorAll('tbody tr').length == 1
fit
audit
true document.querySelector('input').value = 'BROK'
true !document.querySelector('form button').click()
until location.search.includes('q=BROK') && document.querySelectorAll('tbody tr').length == 1
true document.querySelector('input').value == 'BROK'
size 360 800 dark
fit
audit
quiet
STEPS
        } | python3 tests/e2e/browser.py "http://$http/"
    }
    ok "the list and a page of it, in Chromium" browser
fi
end
serve "ipc://$work/b" "$all/good"
address () { row live && says '>idle<' && code 200 "$(grep -o '/c/[^"]*' "$work/row" | head -n 1)" && [ "$(get / | grep -o 'href="/c/' | wc -l)" = 2 ]; }
ok "an address beside a folder" until_true 60 address
end
serve "$all"
ok "a broker answers" until_true 60 ready
"$bin/wiremill" work "$all/live" --workers 2 --idle-timeout 100 >"$work/work" 2>&1 &
crew=$!
hosts () { get /c/live/ && ! says 'Temp\.' >/dev/null && says '<section aria-labelledby="hosts-h">' && says '<td class="n" data-v="2">2</td>'; }
ok "workers of a host are added up, and columns of GPUs appear only if a worker has a GPU" until_true 60 hosts
kill $crew && wait $crew
kill $broker && wait $broker
gone () { code 503 /health/ready && says '^live: no broker runs'; }
ok "a broker that ends: not ready" until_true 60 gone
logged () { grep -q 'wiremill serve: live: no broker runs' "$work/serve"; }
ok "... it is logged by its name" until_true 60 logged
end
serve "$all" "$all"
ok "three campaigns" until_true 60 grep -q "http://$http/ lists 3 campaigns" "$work/serve"
# What comes later: into the folder, with a path that is longer than an address may be; a broker there; one that wants keys.
deep=$(printf 'd%.0s' {1..235})
run --input "$made/layout.h5" --output "$all/$deep" >/dev/null 2>&1
later () { row "${deep:0:63}" && says 'worked|, mean ' && row good && says 'worked|, mean ' && get / && says '>4 campaigns<' && grep -q "wiremill serve: ${deep:0:47}: listed now" "$work/serve"; }
ok "a campaign that comes into the folder is listed, however long its path is" until_true 60 later
broker () { "$bin/wiremill" broker --model "$model" --output "$all/$1" "${@:2}" >"$work/broker" 2>&1 & broker=$!; } # output, options...
leave () { kill $broker && wait $broker; }
state () { row "$1" && says ">$2<"; } # name, state
answers () { get /health/ready && says "^${deep:0:47}: the broker answers$"; }
broker "$deep" --listen "ipc://$work/b"
ok "... and its broker is found, once it runs" until_true 60 answers
leave
broker keyed --listen "tcp://127.0.0.1:$port" --keys
ok "a campaign whose broker wants keys that were made after the server had begun" until_true 60 state keyed idle
keys=$all/keyed$beside
"$bin/wiremill" serve "$all/keyed" --listen "127.0.0.1:$((port + 8))" --interval 0.2 >"$work/alone" 2>&1 &
alone () { curl -s -m 20 "http://127.0.0.1:$((port + 8))/" >"$work/said" && says "role=\"status\"><strong>$1</strong>"; } # state
ok "... and the page of it alone" until_true 60 alone idle
mv "$keys/join-monitor" "$work/monitor" && cp -p "$keys/join-worker" "$keys/join-monitor"
leave
broker keyed --listen "tcp://127.0.0.1:$port" --keys
ok "... that refuses the key" until_true 60 state keyed refused
ok "... also on its own page, which does not end by that" until_true 60 alone refused
mv "$work/monitor" "$keys/join-monitor"
ok "... is asked again, with one that it takes" until_true 60 state keyed idle
ok "... by both" until_true 60 alone idle
leave
broker keyed --listen "ipc://$work/b"
ok "... and one that wants none" until_true 60 state keyed idle
leave
mkdir "$work/away" && mv "$all/$deep" "$all/$deep$beside" "$keys" "$work/away" # rm would race with who reads them
gone () { get / && ! says 'href="/c/(keyed|ddd)' && row good && code 404 /c/keyed/; }
ok "campaigns whose folders are gone are listed no longer" until_true 60 gone
end
# One that is damaged so that nothing of it can be read.
cp -a "$all/good$beside" "$all/torn$beside"
for file in "$all/torn$beside"/ledger.db "$all/torn$beside"/journal/*; do dd if=/dev/urandom of="$file" bs=4096 count=4 conv=notrunc 2>/dev/null; done
serve "$all"
torn () { row torn && says 'cannot be read; `wiremill status .*/torn.wiremill` prints why' && row good && says 'worked|, mean '; }
ok "one that cannot be read: its row has that, and the command that prints why" until_true 60 torn
end
rm -r "$all/torn$beside"
umask 077
echo correct-horse-battery >"$work/password"
serve "$all" --password-file "$work/password"
door () { code 401 / && code 401 /c/good/ && code 503 /health/ready && says '^a campaign: it is finished' && ! says 'good|live'; }
ok "with a password every page asks for it, and health names no campaign" until_true 60 door
end

several () { refused 2 "more/good: give all campaigns as arguments, or one by --campaign" "$bin/wiremill" serve "$all/live" "$work/more/good" --broker ipc://x; }
ok "a broker beside folders" several
nowhere () { refused 5 "none holds no campaign" "$bin/wiremill" serve "$work/none" && refused 2 "absent does not exist" "$bin/wiremill" serve "$all" "$work/absent" &&
    refused 2 "ftp://x is neither" "$bin/wiremill" serve "$all" "ftp://x"; }
ok "a folder without campaigns, one that is not there, an address that is none" nowhere
done_testing
