#!/bin/bash
# servepage.t - the page of wiremill serve: its HTML, hostile names, health, passwords; in `make proof` in a real browser too.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
unset WM_JOIN_FILE WM_BROKER
make_model "${small}1" && make_events serve --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
out="$work/<b>out" http=127.0.0.1:$((port + 5)) endpoint=ipc://$work/b
hostile='<img src=x onerror="alert(1)">&amp;.h5' why='</script><script>alert(2)</script> lunch'
cp "$made/serve.h5" "$work/$hostile"

broker () # options...
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$endpoint" --batch-hits 8 "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
serve () { "$bin/wiremill" serve --listen "$http" --interval 0.2 "$@" >"$work/serve" 2>&1 & serve=$!; } # options...
end () { kill "$serve" && wait "$serve" || { echo "exit $?"; cat "$work/serve"; return 1; }; }
get () { curl -s -m 20 -D "$work/head" "$@" >"$work/said" && cat "$work/said"; } # curl's options, URL
code () { [ "$(curl -s -m 20 -o "$work/said" -w '%{http_code}' "${@:2}")" = "$1" ] || { echo "not $1"; cat "$work/said"; return 1; }; } # code, curl's options
shows () { get "http://$http/" && says "$1"; } # pattern
state () { shows "role=\"status\"><strong>$1</strong>"; } # word
command -v curl >/dev/null || { echo "1..0 # SKIP curl is not installed (make deps)"; exit 0; }

# No broker at all.
serve --broker "ipc://$work/nobody"
ok "no broker: the page names that" until_true 60 state "no answer"
unready () { code 503 "http://$http/health/ready" && says '^no broker has answered yet$' && code 200 "http://$http/health/live" &&
    code 503 "http://$http/status.json" && says '"error"'; }
ok "it is alive, but not ready" unready
ok "SIGTERM ends it" end

ok "a broker" broker
"$bin/wiremill" pause "$out" --why "$why" >/dev/null
"$bin/wiremill" produce --broker "$endpoint" --input "$work/$hostile" >"$work/produce" 2>&1 &
producer=$!
serve "$out"
ok "a paused campaign" until_true 60 state paused
ok "with a producer and its input" until_true 60 shows 'onerror=&quot;alert\(1\)&quot;&gt;&amp;amp;.h5</t[dh]>'
ok "it is ready" code 200 "http://$http/health/ready"
cat >"$work/check.py" <<'PYTHON'
"""check.py - HEAD PAGE: is the page well-formed, without references, with one script that its policy admits?"""
import base64, hashlib, re, sys
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}
head, source = open(sys.argv[1]).read(), open(sys.argv[2], encoding="utf-8").read()

class Page(HTMLParser):
    open, text, ids, tags = [], "", [], []
    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "style", "action"), (tag, name)
            assert name != "href" or re.match(r"(#|/[^/]|data:,)", value), value
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        self.text += data

page = Page()
page.feed(source)
assert source.startswith("<!doctype html>") and not page.open, page.open
assert page.tags.count("script") == page.tags.count("style") == 1 and "img" not in page.tags
assert len(page.ids) == len(set(page.ids)) and set(re.findall(r'href="#([^"]+)', source)) <= set(page.ids)
source = source.replace('xmlns="http://www.w3.org/2000/svg"', '')
assert "url(" not in source and "@import" not in source and not re.search(r'https?://|innerHTML|eval\(', source)
policy = re.search(r"(?im)^content-security-policy: (.*?)\r?$", head).group(1)
for tag in "script", "style":
    text = re.search(f"<{tag}>(.*?)</{tag}>", source, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"{tag}-src 'sha256-{digest}'" in policy, tag
assert policy.startswith("default-src 'none';") and "unsafe" not in policy
assert "x-content-type-options: nosniff" in head.lower() and "cache-control: no-store" in head.lower()
for text in sys.argv[3:]:
    assert text in page.text, text
PYTHON
checked () { get "http://$http/" >/dev/null && python3 "$work/check.py" "$work/head" "$work/said" "$hostile" "$why" "<b>out"; }
ok "it is well-formed HTML, names nothing outside, runs one script; hostile names are text" checked
syntax () { node --check ops/serve/page.js; }
if command -v node >/dev/null; then ok "the script's syntax" syntax; fi
same () { get "http://$http/status.json" | python3 -c 'import json, sys; a, b = json.load (sys.stdin), json.load (open (sys.argv[1]))
for key in "schema", "campaign", "inputs", "hits", "paused", "endpoint": assert a[key] == b[key], key' "$work/status"; }
"$bin/wiremill" status "$out" --json >"$work/status"
ok "status.json is what wiremill status has" until_true 60 same
elsewhere () { code 421 -H "Host: campaign.example" "http://$http/" && ! says "out" && code 200 -H "Host: localhost:1" "http://$http/" &&
    code 200 -H "Host: [::1]:1" "http://$http/" && code 421 -H "Host: 127.0.0.1.example" "http://$http/"; }
ok "under another name than localhost's it is refused: no other site's page reads it" elsewhere

# A browser: nothing in its console, what changes is changed in place, keys, widths, no broker.
scored ()
{
    "$bin/wiremill" work "$out" --idle-timeout 100 >"$work/work3" 2>&1 &
    echo $! >>"$work/pid"
    "$bin/wiremill" resume "$out" >/dev/null && wait $producer
}
if [ -z "$(size '' 1 1)" ]; then
    ok "a campaign" scored
elif ! command -v chromium >/dev/null; then
    skip "chromium is not installed (make deps-browser)"
    ok "a campaign" scored
else
    slow_engine
    browser () { python3 tests/e2e/browser.py "http://$http/" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }; }
    widths ()
    {
        for width in 1400 800 360; do for how in light dark; do echo "size $width 800 $how"; echo fit; echo audit; done; done
    }
    campaign ()
    {
        browser <<STEPS
true document.querySelector('#state strong').textContent == 'paused'
true document.querySelector('#state').textContent.includes('</script><script>alert(2)</script> lunch')
true document.body.textContent.includes('onerror="alert(1)">&amp;.h5') && !document.querySelector('main img')
true document.querySelector('#workers-h').parentElement.textContent.includes('No worker')
$(widths)
run WM_KILLER_SLOW_MS=300 "$bin/wiremill" work "$out" --engine openvino --idle-timeout 100 >"$work/work" 2>&1 & echo \$! >"$work/pid"
run WM_KILLER_SLOW_MS=300 "$bin/wiremill" work "$out" --engine openvino --idle-timeout 100 >"$work/work2" 2>&1 & echo \$! >>"$work/pid"
run "$bin/wiremill" resume "$out" >/dev/null
until document.querySelector('#state strong').textContent == 'running'
until document.querySelectorAll('table.sortable tbody tr').length == 2
true (() => { const v = (row, k) => Number(row.cells[k].dataset.v), rows = [...document.querySelectorAll('table.sortable tbody tr')], host = document.querySelector('.hosts-box tbody tr'); return v(host, 1) === 2 && v(host, 5) === rows.reduce((sum, row) => sum + v(row, 5), 0); })()
until document.querySelector('progress').value > 0.05
until document.querySelectorAll('#minutes rect[fill="#0b5fb4"]').length
true document.querySelector('#minutes [text-anchor=end] text').textContent == '0'
true document.querySelectorAll('#minutes table:not(.marks) tbody tr').length == 12
true !document.querySelector('#minutes summary').click()
true document.querySelector('#minutes table:not(.marks) tbody tr:last-child td').textContent != 'not measured'
$(widths)
size 1400 900
true !!(window.mark = document.querySelector('table.sortable thead th button'))
true mark.focus() || document.activeElement == mark
key Enter
true mark.parentElement.getAttribute('aria-sort') == 'ascending'
true !!(window.names = () => [...document.querySelectorAll('table.sortable tbody th')].map ((head) => head.textContent))
true window.first = names()[0]
true names()[0].localeCompare(names()[1], undefined, {numeric: true}) < 0
key Space
true mark.parentElement.getAttribute('aria-sort') == 'descending' && names()[1] == first
true window.seen = document.querySelector('progress').value
until document.querySelector('progress').value > seen
true document.activeElement == mark && names()[1] == first
true document.querySelector('#minutes details').open
key Tab
true document.activeElement == document.querySelectorAll('table.sortable thead button')[1]
true getComputedStyle(document.activeElement).outlineStyle == 'solid'
quiet
scripts off
true !document.querySelector('table.sortable button')
scripts on
until document.querySelector('table.sortable button')
key Tab
true document.activeElement.className == 'skip' && document.activeElement.getBoundingClientRect().left >= 0
key Enter
until document.activeElement.id == 'main'
quiet
STEPS
    }
    ok "a paused campaign and a running one, in Chromium, at three widths, light and dark" campaign
    gone ()
    {
        "$bin/wiremill" pause "$out" --why "$why" >/dev/null && browser <<STEPS
until document.querySelector('#state strong').textContent == 'paused'
run kill -STOP $broker
until document.querySelector('#state strong').textContent == 'no answer'
$(widths)
run kill -CONT $broker
until document.querySelector('#state strong').textContent == 'paused'
quiet
run kill -STOP $serve
until document.querySelector('#contact').textContent.includes('does not answer')
audit
run kill -CONT $serve
until document.querySelector('#contact').textContent == ''
true document.querySelector('h1').textContent = 'the campaign before'
until document.querySelector('h1').textContent == document.title.split(':')[0]
true document.querySelector('script').textContent = 'of an older version'
until document.querySelector('script').textContent.includes('refresh')
STEPS
    }
    ok "a broker that stops, and a server that does" gone
    finished ()
    {
        scored && browser <<STEPS
until document.querySelector('#state strong').textContent == 'finished'
true document.querySelector('progress').value == 1
audit
quiet
STEPS
    }
    ok "a finished campaign" finished
fi
ok "finished" until_true 60 state finished
while read -r pid; do kill "$pid"; done <"$work/pid"

end
serve "$out"
history () { shows '<figure id="hours">' && says 'compute<span[^<]*</span></th><td class="n more" data-v="[1-9]'; }
ok "a server that comes later has the history" until_true 60 history

# The broker dies; what it left on disk is shown, with its history.
kill -9 $broker
wait $broker 2>/dev/null
over () { state finished && says 'no broker runs' && says '<figure id="hours">' && code 503 "http://$http/health/ready" && says '^no broker runs'; }
ended () { until_true 60 over || over; } # which prints what is wrong
ok "no broker: what is on disk, and not ready" ended
ok "another broker" broker
ok "it is found" until_true 60 code 200 "http://$http/health/ready"
ok "SIGTERM ends it" end

# Who may read.
all=0.0.0.0:$((port + 5))
closed () { refused 2 "give --password-file FILE.*or --insecure" "$bin/wiremill" serve "$out" --listen "$all" &&
    for a in "[::]:0" "*:0" :0; do refused 2 "give --password-file" "$bin/wiremill" serve "$out" --listen "$a" || return; done; }
ok "another address than loopback: refused without a password" closed
umask 077
short () { echo short >"$work/password" && refused 2 "password of 12 to" "$bin/wiremill" serve "$out" --password-file "$work/password" &&
    echo "with a blank in it" >"$work/password" && refused 2 "without blanks" "$bin/wiremill" serve "$out" --password-file "$work/password" &&
    refused 2 "nothing does not exist" "$bin/wiremill" serve "$out" --password-file "$work/nothing" &&
    refused 2 "exclude each other" "$bin/wiremill" serve "$out" --password-file "$work/password" --insecure; }
ok "passwords that are none" short
printf '  correct-horse:battery \n' >"$work/password"
chmod 644 "$work/password"
serve "$out" --listen "$all" --password-file "$work/password"
warned () { until_true 60 code 200 "http://$http/health/ready" && grep -q "password.* may be read by others (mode 644)" "$work/serve"; }
ok "with one it serves, and warns of its mode; health is open" warned
door ()
{
    for path in "" metrics status.json; do
        code 401 "http://$http/$path" && ! says "lunch|campaign" && code 401 -u "x:wrong-horse-battery" "http://$http/$path" &&
            code 200 -u "anybody:correct-horse:battery" "http://$http/$path" &&
            code 200 -H "Authorization: Bearer correct-horse:battery" "http://$http/$path" || return 1
    done
    code 401 -H "Authorization: Bearer correct-horse:batter" "http://$http/" && code 401 -H "Authorization: Basic =" "http://$http/" &&
        code 401 -H "Authorization: Basic $(head -c 2000 /dev/zero | base64 -w 0)" "http://$http/" &&
        code 401 -H "Authorization: Basic eA==" "http://$http/" || return 1
    curl -s -m 20 -D - -o "$work/said" "http://$http/" | grep -qi '^www-authenticate: Basic realm="wiremill"'
}
ok "pages need it, as browsers send it or as a token" door
guess () { curl -s -m 60 -u x:wrong-horse-battery -o /dev/null -w '%{http_code}\n' "http://$http/?[1-100]" | grep -q 429; }
ok "who guesses must wait" until_true 100 guess
right=(-u "anybody:correct-horse:battery" "http://$http/")
waits () { guess && ! code 200 "${right[@]}" && says 'try again in a second' && code 200 --interface 127.0.0.2 "${right[@]}"; }
ok "... also with the right password; others need not" until_true 100 waits
open () { guess && code 401 "http://$http/" && code 200 "http://$http/health/live"; }
ok "... nor who sends none" open
ok "a moment later the right one opens" until_true 60 code 200 "${right[@]}"
end
serve "$out" --listen "$all" --insecure
ok "--insecure: anybody, under any name" until_true 60 code 200 -H "Host: head.example" "http://$http/"
end
kill $broker && wait $broker
done_testing
