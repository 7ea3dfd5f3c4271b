"""paper.py - the published model of inference as a service, measured times beside it, and what wiremill would need.

usage: paper.py [--fit FILE] [--rows FILE] [--rate HITS/S] [--gpus N] [--t-gpu S] ... [--json]

The model is that of arXiv:2009.04509, of ProtoDUNE's EmTrkMichelId on GPUs of a cloud: N clients process one event after
another and send the patches of each to n_gpu GPUs,

    t = (1 - p) t_cpu + t_gpu [1 + max (0, N / n_gpu - t_ideal / t_gpu)] + t_latency + t_pre
    t_ideal = (1 - p) t_cpu + t_gpu + t_latency

t_cpu is an event without GPUs, p the share of it that they take over; t_ideal / t_gpu is the number of clients that one GPU
serves before they wait for it. --fit sets t_gpu by least squares of model / measured - 1 of whole events. A row of a file is:
jobs, seconds of an event, their deviation, seconds of the module that asks for scores. --rate is what one core of wiremill
scores, as `wiremill plan` measures it.
"""
import argparse
import json
import sys
from types import SimpleNamespace


def own_s(model):
    return (1 - model.share) * model.t_cpu


def clients(model):
    """Those that one GPU serves before they wait for it."""
    return (own_s(model) + model.t_gpu + model.latency) / model.t_gpu


def module_s(model, jobs):
    return model.t_gpu * (1 + max(0, jobs / model.gpus - clients(model))) + model.latency + model.t_pre


def event_s(model, jobs):
    return own_s(model) + module_s(model, jobs)


def read(path):
    rows = []
    with open(path) as file:
        for n, line in enumerate(file, 1):
            words = line.replace(",", " ").split()
            if not words or words[0].startswith("#"):
                continue
            try:
                jobs, event, deviation, module = (float(word) for word in words[:4])
            except ValueError:
                sys.exit(f"paper.py: {path}:{n}: a row is four numbers: jobs, event, deviation, module")
            if not (0 < jobs < 1e9 and 0 < event < 1e9 and 0 <= deviation < 1e9 and 0 < module < 1e9):
                sys.exit(f"paper.py: {path}:{n}: a number is out of range")
            rows.append(SimpleNamespace(jobs=jobs, event=event, module=module))
    return rows or sys.exit(f"paper.py: {path} has no rows")


def fit(model, rows):
    def misfit(t_gpu):
        model.t_gpu = t_gpu
        return sum((event_s(model, row.jobs) / row.event - 1) ** 2 for row in rows)

    least, most = 0.01, 100.
    for _ in range(2):  # the second scan refines around the best place of the first
        step = (most / least) ** (1 / 400)
        best = min((least * step ** i for i in range(401)), key=misfit)
        least, most = best / step, best * step
    model.t_gpu = best
    jobs = max(row.jobs for row in rows)
    if jobs / model.gpus <= clients(model):
        sys.exit(f"paper.py: with {jobs:g} jobs at most none waits for one of {model.gpus} GPUs, so that t_gpu cannot be "
                 "fitted: add rows with more jobs, or give --t-gpu S")


def line(model, args, jobs, row=None):
    """wiremill's hits a second and cores are those with which so many clients do not wait."""
    hits_s = jobs / event_s(model, 0) * args.hits_per_event
    return {"jobs": jobs, "measured_event_s": row and row.event, "event_s": event_s(model, jobs),
            "measured_module_s": row and row.module, "module_s": module_s(model, jobs),
            "wiremill_hits_s": hits_s, "wiremill_cores": args.rate and hits_s / args.rate}


def cell(measured, modelled):
    if measured is None:
        return f" {'':8} {modelled:8.1f} {'':8}"
    return f" {measured:8.1f} {modelled:8.1f} {100 * (modelled / measured - 1):+6.1f} %"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--fit")
    parser.add_argument("--rows")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rate", type=float)
    for name, published in (("gpus", 4), ("hits-per-event", 55000), ("t-gpu", 2.5), ("t-cpu", 330), ("share", 0.65),
                            ("t-pre", 7), ("latency", 4.65)):
        parser.add_argument(f"--{name}", type=type(published), default=published)
    args = model = parser.parse_args()
    if args.fit:
        fit(model, read(args.fit))
    usual = [round(x * model.gpus * clients(model)) for x in (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)]
    lines = [line(model, args, row.jobs, row) for row in read(args.rows)] if args.rows else \
        [line(model, args, jobs) for jobs in usual]
    if args.json:
        print(json.dumps({"t_gpu": model.t_gpu, "clients_a_gpu": clients(model), "rows": lines}, indent=2))
        return
    print(f"an event without GPUs {model.t_cpu:g} s, of which GPUs take over {100 * model.share:.0f} %; preparing "
          f"{model.t_pre:g} s;\ntransmission and travel {model.latency:g} s; on a GPU {model.t_gpu:.3f} s\n"
          f"{model.gpus} GPUs: each serves {clients(model):.1f} clients before they wait\n")
    print("      ------- event, s --------- ------- module, s --------  wiremill needs")
    print(" JOBS MEASURED    MODEL     DIFF MEASURED    MODEL     DIFF    HITS/S  CORES")
    for it in lines:
        cores = f" {it['wiremill_cores']:6.1f}" if args.rate else ""
        print(f"{it['jobs']:5.0f}{cell(it['measured_event_s'], it['event_s'])}"
              f"{cell(it['measured_module_s'], it['module_s'])} {it['wiremill_hits_s']:9.0f}{cores}")


if __name__ == "__main__":
    main()
