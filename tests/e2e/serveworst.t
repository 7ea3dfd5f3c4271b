#!/bin/bash
# serveworst.t - wiremill serve's page of single hits: the worst by truth, the least sure without truth, held ones, as NumPy finds
# them in outputs and inputs; its filter; outputs that cannot be read; in `make proof` in a real browser too.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
command -v curl >/dev/null || { echo "1..0 # SKIP curl is not installed (make deps)"; exit 0; }
export WM_TIME_SCALE=10
unset WM_JOIN_FILE WM_BROKER
make_labelled || bail "no model or events"
http=127.0.0.1:$((port + 5)) out=$work/out
cat >"$work/hits.py" <<'PYTHON'
"""hits.py - make EVENTS TRUE UNKNOWN EMPTY: inputs; look PAGE... INPUT SCORES INPUT SCORES: do the pages list what is there?"""
import html, re, shutil, sys
import h5py, numpy as np

LABELS = ["track", "em", "none", "michel"]
places = {}  # of (input, hit)
ROWS = 200  # of an output, of either kind

def make(events, true, unknown, empty):
    for path in (true, unknown, empty):
        shutil.copy(events, path)
    with h5py.File(true, "r+") as f:
        f["hit_table/wire"][40:45], f["hit_table/time"][50] = 99999, np.inf
    with h5py.File(unknown, "r+") as f:
        del f["hit_table/truth"]
    with h5py.File(empty, "r+") as f:
        for group in (f["hit_table"],):
            columns = {n: (group[n][:0], group[n].maxshape, dict(group[n].attrs)) for n in group}
            for n, (value, most, attrs) in columns.items():
                del group[n]
                group.create_dataset(n, data=value, maxshape=most, chunks=True).attrs.update(attrs)

def rows_of(events, scores):
    with h5py.File(scores) as f, h5py.File(events) as g:
        t = {n: f["emtrkmichel"][n][:] for n in f["emtrkmichel"]}
        reason = dict(zip(f["held/row"][:].tolist(), (r.decode() for r in f["held/reason"][:])))
        truth = g["hit_table/truth"][:].squeeze() if "truth" in g["hit_table"] else None
        wire, time = (g["hit_table"][n][:].squeeze() for n in ("wire", "time"))
    places.update({(events.rsplit("/", 1)[1], ":".join(str(t[n][i]) for n in ("run", "subrun", "event", "hit_id"))):
                   "wire %d, time %.9g" % (wire[i], time[i]) if np.isfinite(time[i]) else "" for i in range(len(wire))})
    name = lambda i: ":".join(str(t[n][i]) for n in ("run", "subrun", "event", "hit_id"))
    s = np.stack([t[n] for n in LABELS]).astype(float)
    call = np.where(s[3] >= 0.5, 3, s[:3].argmax(0)) if len(t["run"]) else np.zeros(0, int)
    of = call if truth is None else truth
    at = np.flatnonzero(t["status"] == 0)
    at = at[np.argsort(s[of[at], at], kind="stable")][:ROWS]
    kind = lambda i: ("" if truth is None else LABELS[truth[i]] + " ") + "called " + LABELS[call[i]]
    return ([(name(i), "%.4g" % s[of[i], i], kind(i)) for i in at],
            [(name(i), "–", "held: " + reason[i]) for i in np.flatnonzero(t["status"] != 0)[:ROWS]])

def look(*arguments):
    at = next(i for i, path in enumerate(arguments) if path.endswith(".h5"))
    got, at_place = [], []
    for path in arguments[:at]:
        page = open(path, encoding="utf-8").read()
        for row in re.findall(r"(?s)<tr><th scope=\"row\">(.*?)</tr>", page):
            below = re.search(r"(?s)<small>([^<]*)", row.split("<td")[1])
            cells = [html.unescape(re.sub(r"(?s)<small>.*?</small>|<a .*|<[^>]*>", "", c)).strip() for c in row.split("<td")]
            got.append((cells[0], *(c.split(">", 1)[1] for c in cells[1:])))
            at_place.append((*got[-1][:2], below[1] if below else ""))
    wanted = {}
    for events, scores in zip(arguments[at::2], arguments[at + 1::2]):
        wanted[events.rsplit("/", 1)[1]] = rows_of(events, scores)
    for name, (worst, held) in wanted.items():
        mine = [row[1:] for row in got if row[0] == name]
        n = len(worst)
        by_score = lambda rows: sorted((float(r[1]), r[0], r[2]) for r in rows)
        assert by_score(mine[:n]) == by_score(worst), (name, [p for p in zip(by_score(mine[:n]), by_score(worst)) if p[0] != p[1]][:3])
        assert sorted(mine[n:]) == sorted(held), (name, mine[n:], held)
    wrong = [row for row in at_place if places[row[:2]] != row[2]]
    assert not wrong and sum(row[2] != "" for row in at_place) > 300, wrong[:3]
    scores = [2 if row[2] == "–" else float(row[2]) for row in got]
    assert scores == sorted(scores) and len(got) == sum(len(a) + len(b) for a, b in wanted.values()), len(got)

dict(make=make, look=look)[sys.argv[1]](*sys.argv[2:])
PYTHON
$python "$work/hits.py" make "$made/layout.h5" "$work/true.h5" "$work/unknown.h5" "$work/empty.h5" || bail "no inputs"
"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --spec "$work/labels.yaml" --input "$work/[tu]*.h5" --output "$out" >"$work/run" 2>&1
get () { curl -s -m 20 -D "$work/head" "http://$http$1" >"$work/said" && cat "$work/said"; } # path
serve () { "$bin/wiremill" serve --listen "$http" --interval 0.2 "$@" >"$work/serve" 2>&1 & serve=$!; } # options...
end () { kill "$serve" && wait "$serve" || { echo "exit $?"; cat "$work/serve"; return 1; }; }
files=("$work/true.h5" "$out/true.scores.h5" "$work/unknown.h5" "$out/unknown.scores.h5")

serve "$out"
listed () { get /worst && says '<h2 id="list-h">Worst hits'; }
ok "the list, read when it is asked for" until_true 60 listed
pages () # all of them
{
    local page
    for page in 1 2 3; do get "/worst?page=$page" >"$work/page$page" || return 1; done
    says 'previous page' && ! says 'next page' && $python "$work/hits.py" look "$work"/page[123] "${files[@]}" 2>&1
}
ok "worst, least sure and held hits, as NumPy finds them" pages
about () { says '>[0-9,]+ hits of 2 of 2 outputs<' && says 'Truth is known for 1:' && says 'Truth is not known for 1:'; }
ok "... of how many outputs, and whether truth is known" about
held () { get '/worst?q=held%3A&reason=' && [ "$(grep -c '<th scope="row">true.h5<' "$work/said")" = 6 ] && says 'held: bad wire' && says 'held: bad time'; }
ok "by words: held hits, each by its name" held
kind ()
{
    local kind n
    kind=$(get /worst | grep -o '<option value="[a-z]* called [a-z]*">[^<]*' | head -n 1)
    n=$(sed 's/.*(\([0-9]*\))$/\1/' <<<"$kind") kind=$(sed 's/<option value="\([^"]*\)".*/\1/' <<<"$kind")
    get "/worst?reason=${kind// /+}" && [ "$n" ] && [ "$(grep -c '<th scope="row">' "$work/said")" = "$n" ] && says "value=\"$kind\" selected" &&
        get "/worst?reason=${kind// /%20}&q=true" && says 'value="true"'
}
ok "by kind" kind
rubbish () { for q in '?q=%' '?q=%00%ff&page=-1' '?page=99999999999999999999' "?q=$(head -c 3000 /dev/zero | tr '\0' x)" '?reason=<script>' '?&&&=&q'; do
    get "/worst$q" && says '<h2 id="list-h">' && ! says '<script' || return 1; done; }
ok "queries that are none" rubbish
linked () { get /worst && ! says '/event/' && "$bin/wiremill" show "$out/true.scores.h5" -o "$out/true.html" >/dev/null 2>&1 && until_true 60 to_page; }
to_page () { get /worst && says '<a href="/event/true%2Ehtml#[0-9]+:[0-9]+:[0-9]+:[0-9]+">page of its events</a>'; }
ok "a page of its events is linked, once it is there, with the hit" linked
strict () { grep -qi "^content-security-policy: default-src 'none';.*form-action 'self'" "$work/head" && ! grep -q script-src "$work/head"; }
ok "no script may run there" strict
if [ "$(size '' 1 1)" ] && ! has chromium; then
    skip "chromium is not installed (make deps-browser)"
elif [ "$(size '' 1 1)" ]; then
    browser ()
    {
        hit=$(get /worst | grep -o '#[0-9:]*">page' | head -n 1 | grep -o '[0-9:]*')
        { for width in 1400 700 360; do for how in light dark; do echo "size $width 800 $how"; echo fit; echo audit; done; done
        cat <<STEPS
true !document.querySelector('td a[href*="$hit"]').click()
until location.hash == '#$hit' && document.querySelector('#identity')?.textContent == '$hit'
STEPS
        } | python3 tests/e2e/browser.py "http://$http/worst"
    }
    ok "the page, and a hit of it on the page of events, in Chromium" browser
fi
broker () # output, options...
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$1" --listen "ipc://$work/b" "${@:2}" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$1$beside/endpoint.json"
}
broker "$out" --spec "$work/labels.yaml"
answers () { get /health/ready && says 'the broker answers'; }
torn () { until_true 60 answers && head -c 3000 "$out/true.scores.h5" >"$work/torn" && cp "$work/torn" "$out/true.scores.h5" && until_true 60 unread 'Not read: 1 output. The first: .*true.scores.h5: truncated'; }
unknown=$($python -c 'import h5py, sys; print(format(len(h5py.File(sys.argv[1])["hit_table/wire"]), ","))' "$work/unknown.h5")
unread () { get /worst && says ">$unknown hits of 1 of 2 outputs" && says "$1" && [ "$(grep -c '<th scope="row">unknown' "$work/said")" = 200 ]; } # pattern
ok "an output that is damaged is named, and the other listed" torn
kill $broker && wait $broker
ok "... without a broker, which would see that it has changed" until_true 60 unread 'Not read, since they have changed: 1'
end

"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --spec "$work/labels.yaml" --input "$work/empty.h5" --output "$work/none" >"$work/run" 2>&1
serve "$work/none"
nothing () { get /worst && says '>0 hits of 1 of 1 output<' && says 'No row has these words'; }
ok "an output without hits" until_true 60 nothing
end
broker "$work/new"
serve "$work/new"
unwritten () { get /worst && says 'No output is written yet'; }
ok "a campaign without outputs" until_true 60 unwritten
end
kill $broker && wait $broker
done_testing
