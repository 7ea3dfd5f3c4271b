"""surfaces.py - BIN OUTPUT [RUN]: every number that a campaign's surfaces print, by its name; one that differs fails

RUN is what `wiremill run` printed of the campaign. The campaign must stand still: finished, stopped, paused, or without
a worker. The truth is what lies in the outputs (HDF5) and in the ledger (wiremill sql).
"""
import glob, html, json, os, re, subprocess, sys, time, urllib.request
import h5py

BIN, OUTPUT = sys.argv[1], sys.argv[2]
RUN = open(sys.argv[3]).read() if len(sys.argv) > 3 else ""
COUNTERS = ("n_fail", "n_lost", "n_preempt", "duplicate", "late", "copies", "again", "held", "alarm")
FAULTS = ("failed on a worker", "were in the engine when", "gave back when it left", "came twice", "after their lease",
          "a second worker near", "beyond the allowed error", "batches that were held", "ALARMS")
FAULT_OF = dict(zip(FAULTS, ("n_fail", "n_lost", "n_preempt", "duplicate", "late", "copies", "again", "held", "alarm")))
seen = {}  # name -> {surface: value}


def put(surface, name, value):
    seen.setdefault(name, {}).setdefault(surface, value)


def wiremill(*words):
    done = subprocess.run([BIN + "/wiremill", *words], stdout=subprocess.PIPE, text=True, check=True, timeout=120,
                          env=dict(os.environ, COLUMNS="160"))
    return done.stdout


def number(text):
    return int(text.replace(",", ""))


def take(surface, text, pattern, *names):
    """The groups of a pattern that must be there, by their names."""
    found = re.search(pattern, text, re.M)
    if not found:
        sys.exit(f"{surface} has no '{pattern}':\n{text[:6000]}")
    for name, group in zip(names, found.groups()):
        if group is not None:
            put(surface, name, group if "text" in name else number(group))
    return found


def sql(query):
    return json.loads(wiremill("sql", OUTPUT, query, "--json"))


def outputs():
    scored = held = 0
    events = set()
    for path in glob.glob(OUTPUT + "/*.scores.h5"):
        with h5py.File(path) as file:
            table = next(file[n] for n in file if n not in ("engine", "held"))
            status = table["status"][:]
            scored += int((status == 0).sum())
            held += int((status != 0).sum())
            events |= {(path, *e) for e in zip(table["run"][:], table["subrun"][:], table["event"][:])}
            assert len(file["held/row"]) == (status != 0).sum() == file.attrs["hits_held"], path
    put("HDF5", "hits written", scored)
    put("HDF5", "held written", held)
    put("HDF5", "events written", len(events))
    put("HDF5", "inputs written", len(glob.glob(OUTPUT + "/*.scores.h5")))


def ledger():
    row = sql("select * from progress")[0]
    for name in ("inputs", "written", "held", "open"):
        put("ledger", "inputs" if name == "inputs" else "inputs " + name, row[name])
    put("ledger", "hits written", row["hits"] - row["hits_held"])
    put("ledger", "held written", row["hits_held"])
    put("ledger", "events written", row["events"])
    waiting = sql("select coalesce (sum (n_hit - n_held), 0) as n from batch where state = 1")[0]["n"]
    put("ledger", "scored", row["hits"] - row["hits_held"] + waiting)


def history(is_running):
    """Only a ledger that no broker serves has all of it."""
    if is_running:
        return
    row = sql("select sum (hits) as hits, sum (fail) as n_fail, sum (lost) as n_lost, sum (preempt) as n_preempt,"
              " sum (duplicate) as duplicate, sum (late) as late, sum (copies) as copies, sum (again) as again,"
              " sum (held) as held, sum (alarm) as alarm from minute")[0]
    put("ledger's history", "scored", row["hits"])
    for name in COUNTERS:
        put("ledger's history", "fault " + name, row[name])
    put("ledger's workers", "hits of workers", sql("select coalesce (sum (hits), 0) as n from worker")[0]["n"])


def is_timed(s):
    """Whether the time of any hit is known: a broker that was killed in its first second left none in the ledger."""
    return s["hits"]["done"] and (s["endpoint"] or sql("select count (*) as n from minute where begin_s > 0 and hits > 0")[0]["n"])


def status():
    s = json.loads(wiremill("status", "--json", OUTPUT))
    for name in ("written", "held", "open"):
        put("status --json", "inputs " + name, s["inputs"][name])
    put("status --json", "inputs", s["inputs"]["total"])
    put("status --json", "scored", s["hits"]["done"])
    put("status --json", "held", s["hits"]["held"])
    put("status --json", "events done", s["events"]["done"])
    put("status --json", "events written", s["events"]["written"])
    put("status --json", "state text", s["campaign"]["state"])
    put("status --json's engines", "scored", sum(s["rows"].values()))
    for name in COUNTERS:
        if name != "held":
            put("status --json", "fault " + name, s["counters"][name])
    text = wiremill("status", OUTPUT)
    take("status", text, r"^files: ([\d,]+) written, ([\d,]+) open, ([\d,]+) held of ([\d,]+)",
         "inputs written", "inputs open", "inputs held", "inputs")
    take("status", text, r"^hits: ([\d,]+) scored(?: \(.*\))?, ([\d,]+) held", "scored", "held")
    percent = take("status", text, r"^CAMPAIGN.*\n\S+ +(?:.*? )(-|[\d.]+%) ", "percent text").group(1)
    if not s["endpoint"] and is_timed(s):
        take("status", text, r"^worked: .* mean ([\d.kM]+) hits/s in (.*?), at most", "mean text", "time worked text")
    if s["campaign"]["state"] == "paused":
        assert s["eta_s"] is None, "a pause has no end that is known"
    if s["inputs"]["open"]:
        assert percent != "100.0%", text
    return s


def top(s):
    text = wiremill("top", "--once", OUTPUT)
    take("top", text, r"^progress +(-|[\d.]+%) ", "percent text")
    take("top", text, r"^hits +([\d,]+) scored of (?:at least |about )?([\d,]+), ([\d,]+) held; ([\d,]+) events? done",
         "scored", "hits in all or more", "held", "events done")
    take("top", text, r"^files +([\d,]+) of ([\d,]+) written, ([\d,]+) open, ([\d,]+) held", "inputs written", "inputs",
         "inputs open", "inputs held")
    if s["campaign"]["state"] == "paused":
        assert re.search(r"ETA -$", text, re.M), text
    if not s["endpoint"] and is_timed(s):
        take("top", text, r"mean ([\d.kM]+) hits/s in (.*?), at most", "mean text", "time worked text")


def text_of(page):
    page = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def rows_of(page):
    cell = lambda c: " ".join(html.unescape(re.sub(r"<[^>]+>", " ", c)).split())
    return [[cell(c) for c in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.S)]
            for row in re.findall(r"<tr\b.*?</tr>", page, re.S)]


def faults(surface, rows, column):
    for row in rows:
        for what, name in FAULT_OF.items():
            if what in row[0]:
                put(surface, "fault " + name, number(row[column]))


def short(n):
    return f"{n:.0f}" if n < 10000 else f"{n / 1e3:.1f}k" if n < 1e6 else f"{n / 1e6:.1f}M"


def report(s):
    page = OUTPUT + ".report.html"
    wiremill("report", "--output", page, OUTPUT)
    source = open(page, encoding="utf-8").read()
    os.unlink(page)
    rows, text = rows_of(source), text_of(source)
    first = {row[0]: row[1:] for row in rows if row}
    take("report", first["Inputs"][0], r"([\d,]+): ([\d,]+) written, ([\d,]+) open, ([\d,]+) held", "inputs",
         "inputs written", "inputs open", "inputs held")
    take("report", first["Hits"][0], r"([\d,]+) scored.*, ([\d,]+) held", "scored", "held")
    put("report", "events done", number(first["Events"][0]))
    faults("report", rows, 1)
    if s["endpoint"] or is_timed(s):  # what has no row was folded into a sentence
        listed = any(what in row[0] for row in rows for what in FAULTS)
        assert ("No other faults." if listed else "No faults.") in text, text[:6000]
        for name in COUNTERS:
            put("report", "fault " + name, 0)
    at = [i for i, row in enumerate(rows) if row[:1] == ["Worker"]]
    of_workers = 0
    if at:
        for row in rows[at[0] + 1:]:
            if len(row) != 9:
                break
            of_workers += number(row[7])
    missing = re.search(r"Scored, and not in this table: ([\d,]+) hits?\.", text)
    if not s["endpoint"]:
        put("report's workers", "hits of workers", of_workers)
    put("report's workers and what they lack", "scored", of_workers + (number(missing[1]) if missing else 0))
    unknown = re.search(r"Scored at times that are not known: ([\d,]+) hits?\.", text)
    assert not s["hits"]["done"] or is_timed(s) or unknown or "no history of its times: its broker was killed" in text, text
    if is_timed(s):
        found = take("report", text, r"([\d,]+) hits from .*? UTC: ([\d,]+) hits/s in the (.*?) in which workers",
                     "scored", "mean", "time worked text")
        if not s["endpoint"]:
            put("report", "mean text", short(number(found[2])))
    at = [i for i, row in enumerate(rows) if row[:1] == ["Engine"]]
    if at:
        of_engines = [number(row[1]) for row in rows[at[0] + 1:] if len(row) == 2 and "/" in row[0]]
        put("report's engines", "scored", sum(of_engines))


def serve(s):
    process = subprocess.Popen([BIN + "/wiremill", "serve", "--listen", "127.0.0.1:" + os.environ["SURFACES_PORT"],
                                "--interval", "0.2", OUTPUT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    get = lambda path: urllib.request.urlopen(
        f"http://127.0.0.1:{os.environ['SURFACES_PORT']}{path}", timeout=30).read().decode()
    try:
        end = time.monotonic() + 60
        while True:
            try:
                page = get("/")
                if "<dt>Scored" in page and ("<figure id=\"hours\">" in page or not is_timed(s)):
                    break
            except OSError:
                pass
            assert time.monotonic() < end, "serve does not show the campaign"
            time.sleep(0.1)
        told, metrics = json.loads(get("/status.json")), get("/metrics")
    finally:
        process.terminate()
        process.wait(60)
    for name in ("written", "held", "open"):
        put("serve's status.json", "inputs " + name, told["inputs"][name])
    put("serve's status.json", "scored", told["hits"]["done"])
    put("serve's status.json", "held", told["hits"]["held"])
    text = text_of(page)
    take("serve", text, r"Scored ([\d,]+) hits? of ([\d,]+) announced", "scored", "hits announced")
    take("serve", text, r"Held ([\d,]+) hits? and", "held")
    take("serve", text, r"Inputs ([\d,]+) of ([\d,]+) written, ([\d,]+) held", "inputs written", "inputs", "inputs held")
    put("status --json", "hits announced", s["hits"]["announced"])
    faults("serve", rows_of(page), 2)
    state = re.search(r'id="state" class="state (\w*)" role="status"><strong>(.*?)</strong>', page)
    put("serve", "state text", state[2])
    if state[2] == "finished":
        assert (state[1] == "warn") == bool(s["hits"]["held"] or s["held_total"]), state[0]
    for row in rows_of(page):  # nothing can happen more often in an hour than in all
        if any(what in row[0] for what in FAULTS):
            assert number(row[1]) <= number(row[2]), row
    if s["endpoint"]:
        metric = dict(re.findall(r"^(wiremill_\w+(?:\{[^}]*?\}))\s+(\S+)$", metrics, re.M))
        value = lambda name, state="": next(
            (int(float(v)) for k, v in metric.items()
             if k.startswith(name + "{") and (not state or f'state="{state}"' in k)), None)
        put("metrics", "scored", value("wiremill_hits_scored"))
        put("metrics", "held", value("wiremill_hits_held"))
        put("metrics", "events done", value("wiremill_events_scored"))
        for name in ("written", "open", "held"):
            put("metrics", "inputs " + name, value("wiremill_inputs", name))


def run():
    found = take("run's last line", RUN, r"^wiremill-result exit=(\d+) files=\d+ written=(\d+) held=(\d+) left=(\d+) .* "
                 r"hits=(\d+) hits_held=(\d+)", "exit text", "inputs written", "inputs held", "inputs open", "scored", "held")
    if found[1] in ("0", "3"):
        take("run", RUN, r"^  files +([\d,]+) written, ([\d,]+) held", "inputs written", "inputs held")
        take("run", RUN, r"^  hits +([\d,]+) scored.*, ([\d,]+) held", "scored", "held")
        take("run", RUN, r"^  events +([\d,]+)$", "events written")
        put("run's engines", "scored", sum(map(number, re.findall(r"([\d,]+) hits(?: \(.*\))?$",
            "\n".join(line for line in RUN.splitlines() if "/fp32/" in line), re.M))))


def python():
    import wiremill as package
    scored = held = 0
    for path in glob.glob(OUTPUT + "/*.scores.h5"):
        hits = package.read(path)
        scored += int((hits.columns["status"] == 0).sum())
        held += int((hits.columns["status"] != 0).sum())
    put("Python", "hits written", scored)
    put("Python", "held written", held)


outputs()
ledger()
s = status()
history(s["endpoint"])
top(s)
report(s)
serve(s)
python()
if RUN:
    run()
if not s["inputs"]["open"]:  # what is scored lies in the outputs
    put("HDF5", "scored", seen["hits written"]["HDF5"])
    if s["inputs"]["held"] == 0:
        put("HDF5", "held", seen["held written"]["HDF5"])
bad = [f"{name}: " + ", ".join(f"{k} {v}" for k, v in of.items())
       for name, of in seen.items() if name not in ("exit text", "hits in all or more") and len(set(of.values())) > 1]
print("\n".join(f"{name}: {next(iter(of.values()))} in {', '.join(of)}" for name, of in seen.items()))
print(f"{sum(map(len, seen.values()))} numbers by {len(seen)} names")
sys.exit("these differ:\n" + "\n".join(bad) if bad else 0)
