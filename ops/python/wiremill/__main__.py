"""__main__.py - `python -m wiremill convert`: what the package does for a shell."""
from __future__ import annotations

import argparse
import re
import sys
from typing import Optional, Sequence, Union

from . import _convert

_USAGE, _BAD_INPUT, _FAILURE = 2, 5, 1   # exit codes


def _numbers(text: str, n: int) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(:\d+){%d}" % (n - 1), text):
        raise argparse.ArgumentTypeError(f"{text}: {n} whole numbers with colons are needed")
    return tuple(map(int, text.split(":")))


def _event(text: str) -> tuple[int, ...]:
    return _numbers(text, 3)


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not value:
        raise argparse.ArgumentTypeError(f"{text}: NAME=VALUE is needed")
    return name, value


def _plane(text: str) -> tuple[str, tuple[int, ...]]:
    name, value = _named(text)
    return name, _numbers(value, 2)


def _column(text: str) -> tuple[str, Union[str, int]]:
    name, value = _named(text)
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text}: {name} cannot name a column")
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value


def _pedestal(text: str) -> Union[str, float]:
    if text in ("check", "none", "median"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: none, median or a number is needed") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wiremill", description="What wiremill's Python package does for a shell.")
    verb = parser.add_subparsers(dest="verb", required=True).add_parser(
        "convert", help="ROOT files become an input file", allow_abbrev=False,
        description="Makes an input file (HDF5) of Magnify's histograms, of a flat tree of hits, or of both.")
    add = verb.add_argument
    add("-o", "--output", required=True, metavar="FILE.h5", help="the file to write")
    add("--planes", nargs="+", metavar="FILE.root", help="Magnify files, one event each")
    add("--hits", metavar="FILE.root:TREE", help="a tree whose entries are hits; FILE.root if it has one tree")
    add("--tag", help="read hu_TAG, hv_TAG and hw_TAG; in TAG {tpc} stands for the number of the TPC")
    add("--plane", action="append", default=[], type=_plane, metavar="NAME=TPC:PLANE", help="a histogram of another name; again for each")
    add("--tpc", type=int, default=0, help="the TPC of the tag's planes (0)")
    add("--axis", choices=("channel", "wire"), default="channel", help="what x counts (channel)")
    add("--column", action="append", default=[], type=_column, metavar="NAME=BRANCH", help="the branch of a column, or its one number")
    add("--event", type=_event, metavar="RUN:SUBRUN:EVENT", help="the event of the planes; else the tree Trun names it")
    add("--channels", metavar="MAP.csv", help="channel,cryostat,tpc,plane,wire; else row k of a histogram is wire k")
    add("--pedestal", type=_pedestal, default="check", metavar="none|median|ADC", help="what to take off samples; else raw ADC is refused")
    for name, text in ("tick-us", "length of a tick"), ("trigger-offset", "tick of the trigger"), ("tau-us", "electron lifetime"):
        add(f"--{name}", type=float, metavar="NUMBER", help=text)
    add("--force", action="store_true", help="replace the output if it is there")
    return parser


def main(words: Optional[Sequence[str]] = None) -> int:
    """Returns an exit code of wiremill's programs."""
    given = vars(_parser().parse_args(words))
    del given["verb"]
    output = given.pop("output")
    given["names"], given["columns"] = dict(given.pop("plane")), dict(given.pop("column"))
    if not given["planes"] and not given["hits"]:
        print("wiremill convert: there is nothing to convert: name --planes, --hits, or both", file=sys.stderr)
        return _USAGE
    try:
        made = _convert.convert(output, **given)
    except ModuleNotFoundError as why:
        print(f"wiremill convert: {why}", file=sys.stderr)
        return _FAILURE
    except FileExistsError as why:
        print(f"wiremill convert: {why.filename} is there already; --force replaces it", file=sys.stderr)
        return _USAGE
    except OSError as why:
        print(f"wiremill convert: {why.filename or output}: {why.strerror or why}", file=sys.stderr)
        return _USAGE if isinstance(why, FileNotFoundError) and why.filename != output else _FAILURE
    except ValueError as why:
        print(f"wiremill convert: {why}", file=sys.stderr)
        return _BAD_INPUT
    print(f"{output}: {made.events} events, {made.planes} planes, {made.hits} hits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
