"""metrics.py - the board and the alerts beside real metrics (metrics.t).

metrics.py names PAGE            each metric that board and alerts name has its TYPE on this page of /metrics, and the board
                                 names nothing outside: no address, no plugin, no data source but its variable.
metrics.py evaluate URL          Prometheus at this URL evaluates each expression; each of the board, and each selector of the
                                 alerts (whose comparisons keep nothing while all is well), has data. It has evaluated
                                 the rules, too.
"""
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BOARD, ALERTS = "ops/serve/grafana.json", "ops/serve/alerts.yml"
# Of Grafana itself: no plugin is needed.
KINDS = {"row", "stat", "timeseries", "state-timeline", "heatmap", "table"}
# ALERTS has a series for each alert that fires, and none while all is well: tests/e2e/alerts.yml has each of them.
EMPTY_WHILE_WELL = "ALERTS{"
VARIABLES = {"$campaign": ".*", "$__rate_interval": "1m"}
# What boards for Triton compute: labels of both sides must be the same.
OF_TRITON = [
    "rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])",
    "rate(nv_inference_queue_duration_us[1m]) / rate(nv_inference_request_success[1m]) / 1000",
    "rate(nv_inference_request_failure[1m]) / (rate(nv_inference_request_failure[1m]) + rate(nv_inference_request_success[1m]))",
    "sum by (model) (rate(nv_inference_compute_infer_duration_us[1m])) / sum by (model) (rate(nv_inference_request_duration_us[1m]))",
    "nv_inference_pending_request_count",
    "nv_gpu_memory_used_bytes / nv_gpu_memory_total_bytes",
    "nv_gpu_power_usage / nv_gpu_power_limit",
    "avg by (gpu_uuid) (nv_gpu_utilization)",
    "rate(nv_energy_consumption[1m])",
]
SELECTOR = re.compile(r'\b(?:wiremill|nv|up|ALERTS)\w*\b(?:\{[^}]*\})?')


def expressions_of_board():
    board = json.load(open(BOARD))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, f"{panel['title']}: an unknown variable: {expression}"
            yield panel["title"], expression


def expressions_of_alerts():
    """Without a parser of YAML: `expr:` and the lines that are indented deeper."""
    rule, expression = None, None
    for line in open(ALERTS).read().splitlines() + ["      - alert: end"]:
        key = re.match(r" {6}- alert: (\w+)| {8}(\w+):", line)
        if key and expression is not None:
            yield rule, expression
            expression = None
        if key and key.group(1):
            rule = key.group(1)
        elif re.match(r" {8}expr:", line):
            expression = line.split("expr:", 1)[1].strip(" |")
        elif expression is not None:
            expression += " " + line.strip()


def selectors(expression):
    """What is looked up; labels of `by (...)`, `on (...)` and `without (...)` are none."""
    text = re.sub(r'\b(by|on|without|ignoring) \([^)]*\)', " ", expression)
    return set(SELECTOR.findall(text))


def check_board():
    text = open(BOARD).read()
    board = json.loads(text)
    assert "//" not in text, "an address outside the board"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), "an id twice"
    assert {variable["name"] for variable in board["templating"]["list"]} == {"datasource", "campaign"}
    taken = set()
    for panel in board["panels"]:
        assert panel["type"] in KINDS, f"{panel['title']}: {panel['type']} is no panel of Grafana itself"
        assert panel["type"] == "row" or panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, f"{panel['title']} lies on another panel"
        taken |= cells


def names(page):
    check_board()
    metrics = {"up", "ALERTS"}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", open(page).read(), re.M):
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}.get(kind, ("",))
        metrics |= {name + suffix for suffix in suffixes}
    n = 0
    for where, expression in [*expressions_of_board(), *expressions_of_alerts()]:
        for selector in selectors(expression):
            n += 1
            if selector.split("{")[0] not in metrics:
                sys.exit(f"{where}: /metrics has no {selector.split('{')[0]}")
    assert n > 60, f"only {n} metrics are named"
    print(f"{n} metrics of board and alerts are in /metrics")


def ask(url, expression):
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=30) as reply:
            return json.load(reply)["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{expression}: {error.read().decode()}")


def wait_for_rules(url):
    """Until Prometheus has evaluated each rule, without an error."""
    wanted = {name for name, _ in expressions_of_alerts()}
    for _ in range(300):
        with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=30) as reply:
            rules = [rule for group in json.load(reply)["data"]["groups"] for rule in group["rules"]]
        if {rule["name"] for rule in rules if rule["health"] == "ok"} == wanted:
            return
        time.sleep(0.1)
    sys.exit(f"not evaluated: {[(rule['name'], rule.get('lastError')) for rule in rules if rule['health'] != 'ok']}")


def evaluate(url):
    wait_for_rules(url)
    faults, n = [], 0
    for where, expression in [*expressions_of_board(), *(("Triton's", expression) for expression in OF_TRITON)]:
        n += 1
        if not ask(url, expression) and not expression.startswith(EMPTY_WHILE_WELL):
            faults.append(f"board, {where}: no data: {expression}")
    for where, expression in expressions_of_alerts():
        ask(url, expression)
        for selector in selectors(expression):
            n += 1
            if not ask(url, selector):
                faults.append(f"alert {where}: no data: {selector}")
    print("\n".join(faults) or f"{n} expressions have data")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    {"names": names, "evaluate": evaluate}[sys.argv[1]](sys.argv[2])
