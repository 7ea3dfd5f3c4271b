"""reference.py - compares the manual's reference with sources and with real outputs: reference.py WHAT [FILE...]

Each WHAT is a function below; it returns what a page lacks, or has too much.
"""

import fnmatch
import json
import pathlib
import re
import sqlite3
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGES = ROOT / "ops/manual/reference"
FOLDERS = "schema", "kernels", "broker", "producer", "gpuworker", "ops"

# Variables that only tests set, and those that programs and jobs pass on to each other.
NOT_FOR_USERS = {
    "WM_CGROUP_ROOT", "WM_DEV", "WM_FAILPOINT", "WM_TIME_SCALE", "WM_VMSTAT", "WM_WATCH_SHARE",
    "WM_CONDOR_JOB", "WM_CPU_LIMIT", "WM_FARM",
}


def page(name):
    return (PAGES / f"{name}.md").read_text()


def cells(text):
    """The cells of each row of the tables of a page."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def ticked(text):
    """What stands between backticks, outside of blocks."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def differ(wanted, found):
    return [f"lacks {name}" for name in sorted(wanted - found)] + [f"has too much: {name}" for name in sorted(found - wanted)]


def environment():
    used = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".h", ".py", ".cc", ".profile", ".service") and "manual" not in path.parts:
                text = path.read_text()
                used |= set(re.findall(r'"(WM_[A-Z_]+)"', text)) | set(re.findall(r"\b(WM_[A-Z_]+)=", text))
                used |= set(re.findall(r'(?:getenv|environ(?:\.get)?) ?[(\[] ?"([A-Z][A-Z0-9_]+)"', text))
                used |= set(re.findall(r'(?:from_variable|slurm_bytes) \(self, "([A-Z_]+)"', text))
    named = set(ticked(page("environment")))
    ours = {name for name in named if re.fullmatch(r"WM_[A-Z_]+", name)}
    return [f"lacks {name}" for name in sorted(used - NOT_FOR_USERS - named)] + [
        f"has {name}, which no source has" for name in sorted(ours - used)] + [
        f"test-only {name} is in no source" for name in sorted(NOT_FOR_USERS - used)]


def numbers(name, header, pattern):
    wanted = set(re.findall(pattern, (ROOT / header).read_text()))
    return differ(wanted, {row[0] for row in cells(page(name)) if row[0].isdigit()})


def statuses():
    return numbers("statuses", "schema/wm_batch.h", r"WM_HIT_[A-Z_]+ = (\d+)")


def exit_codes():
    return numbers("exit-codes", "schema/base/wm_fault.h", r"WM_EXIT_[A-Z]+ = (\d+)")


def result_line(output):
    line = [line for line in pathlib.Path(output).read_text().splitlines() if line.startswith("wiremill-result ")][-1]
    keys = re.findall(r" ([a-z_]+)=", line)
    named = [ticked(row[0])[0] for row in cells(page("result-line")) if ticked(row[0])]
    return [] if keys == named else [f"has {named}, the line {keys}"]


def ledger(database):
    wrong = []
    link = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    sections = dict(re.findall(r"\n## (\w+)\n(.*?)(?=\n## |\Z)", page("ledger"), re.S))
    views = {name for name, in link.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    wrong += differ(views, set(sections))
    for view in views & set(sections):
        columns = {row[1] for row in link.execute(f"PRAGMA table_info ({view})")}
        named = {name for row in cells(sections[view]) for name in ticked(row[0])}
        wrong += [f"{view} {what}" for what in differ(columns, named)]
    return wrong


def keys_of(value, path=""):
    """Dotted paths of all values; [] for a member of a list."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from keys_of(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for member in value:
            yield from keys_of(member, f"{path}[]")
    else:
        yield path


def status_json(*files):
    named = set()
    for row in cells(page("status-json")):
        before = ""
        for name in ticked(row[0]):
            name = before + name if name.startswith(".") else name
            before = name.rpartition(".")[0]
            named.add(name)
            named |= {f"{name}.{member}" for member in ticked(row[2]) if re.fullmatch(r"[a-z_]+", member)}
    named = {name.replace("[]", "@") for name in named} # [ means a set to fnmatch
    found = {path for file in files for path in keys_of(json.loads(pathlib.Path(file).read_text()))}
    lists = {"producers[].label", "workers[].label", "held[].reason", "waits[].advice", "open[].path", "held_files[].reasons"}
    return [f"lacks {path}" for path in sorted(found) if not any(
        fnmatch.fnmatchcase(re.sub(r"\[\](\.earlier)?", "@", path), name) or fnmatch.fnmatchcase(path.replace("[]", "@"), f"{name}@")
        for name in named)] + [f"the outputs show no {path}" for path in sorted(lists) if len(files) > 1 and not any(
        one.startswith(path) for one in found)]


def metrics(*files):
    """What is scraped, and the names in the tables of the sources: a GPU is not everywhere."""
    names = set()
    for file in files:
        names |= set(re.findall(r"^# TYPE ([a-z_]+) ", pathlib.Path(file).read_text(), re.M))
    if not {"wiremill_up", "wiremill_worker_hits_total", "wiremill_gateway_model_ready"} <= names:
        return [f"the scrapes are not whole: {sorted(names)}"]
    sources = [*(ROOT / "ops/serve").glob("wm_metrics*.c"), ROOT / "producer/gateway/wm_gateway_metrics.c"]
    for source in sources:
        names |= set(re.findall(r'"((?:wiremill|nv)_[a-z_]+)"', source.read_text()))
    return differ(names, {name for row in cells(page("metrics")) for name in ticked(row[0])})


def c_api():
    text = (ROOT / "ops/lib/wiremill.h").read_text()
    functions = set(re.findall(r"^[a-z][a-z0-9_ *]*?\*?(wiremill_[a-z0-9_]+) \(", text, re.M))
    named = {name for row in cells(page("c-api")) for name in ticked(row[0]) if name.startswith("wiremill_")}
    return differ(functions, named)


if __name__ == "__main__":
    lacks = globals()[sys.argv[1]](*sys.argv[2:])
    print(*lacks, sep="\n")
    sys.exit(bool(lacks))
