"""__main__.py - `python -m wiremill convert`, `plugin` and `shape`: what the package does for a shell."""
from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any, Optional, Sequence, Union

from . import _convert, _library, _plugin

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


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){0,5}", text):
        raise argparse.ArgumentTypeError(f"{text}: sizes such as 3x32x24 are needed, without the rows")
    return tuple(map(int, text.split("x")))


def _add_plugin(verbs: Any) -> None:
    verb = verbs.add_parser("plugin", help="a plug-in engine of a Python file", allow_abbrev=False,
                            description="Makes a plug-in, for wiremill run --engine, of a file with one @wiremill.engine.")
    verb.add_argument("source", metavar="FILE.py")
    verb.add_argument("-o", "--output", metavar="FILE.so", help="the plug-in (beside FILE.py)")
    verb.add_argument("--force", action="store_true", help="replace the output if it is there")
    verb = verbs.add_parser("shape", help="state the shape of a TorchScript model's input", allow_abbrev=False,
                            description="Writes the shape of a row into a file of torch.jit.save, for wiremill's engine of TorchScript.")
    verb.add_argument("model", metavar="NET.pt")
    verb.add_argument("shapes", type=_shape, nargs="+", metavar="3x32x24", help="of each input, without the rows")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wiremill", description="What wiremill's Python package does for a shell.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    _add_plugin(verbs)
    verb = verbs.add_parser(
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


def _convert_files(given: dict[str, Any]) -> str:
    output = given.pop("output")
    given["names"], given["columns"] = dict(given.pop("plane")), dict(given.pop("column"))
    made = _convert.convert(output, **given)
    return f"{output}: {made.events} events, {made.planes} planes, {made.hits} hits"


def _make_plugin(given: dict[str, Any]) -> str:
    output = given["output"] or f"{os.path.splitext(given['source'])[0]}.so"
    _plugin.make(_library.beside("wm_python.so"), given["source"], output, given["force"])
    return f"{output}: wiremill run --engine {output if os.path.dirname(output) else f'./{output}'}"


def _state_shape(given: dict[str, Any]) -> str:
    _plugin.state_shape(given["model"], given["shapes"])
    return f"{given['model']}: its input is {', '.join(' x '.join(map(str, shape)) for shape in given['shapes'])}"


def main(words: Optional[Sequence[str]] = None) -> int:
    """Returns an exit code of wiremill's programs."""
    given = vars(_parser().parse_args(words))
    verb = given.pop("verb")
    try:
        print({"convert": _convert_files, "plugin": _make_plugin, "shape": _state_shape}[verb](given))
        return 0
    except ModuleNotFoundError as why:
        code, text = _FAILURE, str(why)
    except FileExistsError as why:
        code, text = _USAGE, f"{why.filename} is there already; --force replaces it"
    except OSError as why:
        code = _USAGE if isinstance(why, FileNotFoundError) and not str(why.filename).endswith(".part") else _FAILURE
        text = f"{why.filename or verb}: {why.strerror or why}"
    except ValueError as why:
        code, text = _BAD_INPUT, str(why)
    print(f"wiremill {verb}: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
