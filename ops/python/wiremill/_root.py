"""_root.py - what ROOT files hold: planes as Magnify's histograms, and hits as a flat tree. Needs the package uproot."""
from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _files

Event = tuple[int, int, int]
_MAGNIFY = re.compile(r"(?:.*/)?h([uvw])_([^/]+)")
_INTEGERS = ("run", "subrun", "event", "cryostat", "tpc", "plane", "wire", "channel", "hit_id")
_ABSENT = ("run", "subrun", "cryostat", "tpc")   # 0 where the tree has no such branch
_TRUN = {"run": ("runNo", "run"), "subrun": ("subRunNo", "subrun"), "event": ("eventNo", "event")}
_TREES = ("TTree", "TNtuple", "TNtupleD", "ROOT::RNTuple")
_LISTED = 12   # names in a message


class Plane(NamedTuple):
    """A histogram of one plane."""

    name: str
    tpc: int
    plane: int
    channel: int                    # of the first row
    tick: int                       # of the first column
    adc: NDArray[np.float32]        # (channels, ticks)


def _listed(names: Any) -> str:
    names = sorted(names)
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "") or "none"


def _first(why: Exception) -> str:
    return next(iter(str(why).strip().splitlines()), type(why).__name__).rstrip(",")


def opened(path: str) -> Any:
    """The file, open."""
    uproot = _files.package("uproot", "convert")
    if not os.path.exists(path) and "://" not in path:
        raise FileNotFoundError(2, "No such file", path)
    try:
        return uproot.open(path)
    except Exception as why:   # whatever a damaged file provokes in uproot
        raise ValueError(f"{path}: cannot be read as a ROOT file: {_first(why)}") from None


def _kept(path: str, name: str, function: Any) -> Any:
    """What `function` reads of an object; the exceptions of damaged bytes become one that names the object."""
    try:
        return function()
    except (KeyboardInterrupt, MemoryError):
        raise
    except ImportError as why:   # of what a compression needs
        raise ModuleNotFoundError(f"{path}: {name}: {' '.join(str(why).split())}", name=why.name) from None
    except Exception as why:
        raise ValueError(f"{path}: {name} cannot be read: {type(why).__name__}: {_first(why)}") from None


def named_planes(path: str, file: Any, tag: Optional[str], planes: Mapping[str, tuple[int, int]], tpc: int
                 ) -> list[tuple[str, int, int]]:
    """The histograms to read: name, TPC, plane. Those that `planes` names, else hu_TAG, hv_TAG and hw_TAG."""
    classes = {name: kind for name, kind in file.classnames(recursive=True, cycle=False).items() if kind.startswith("TH2")}
    for name in planes:
        if name not in classes:
            raise ValueError(f"{path} has no TH2 named {name}; it has {_listed(classes)}")
    chosen = [(name, *place) for name, place in planes.items()] or _tagged(path, classes, tag, tpc)
    times = Counter(re.sub(r";\d+(?=/|$)", "", key) for key in file.keys(recursive=True, cycle=True))
    for name, _, _ in chosen:
        if times[name] > 1:
            raise ValueError(f"{path}: {name} is there {times[name]} times: several events were written into one file; write one file an "
                             f"event (root_file_mode RECREATE)")
    return chosen


def _tagged(path: str, classes: Mapping[str, str], tag: Optional[str], tpc: int) -> list[tuple[str, int, int]]:
    """hu_TAG, hv_TAG and hw_TAG."""
    found = {name: match for name in classes if (match := _MAGNIFY.fullmatch(name))}
    tags = {match[2] for match in found.values()}
    if tag is None and len(tags) == 1:
        tag = tags.pop()
    if tag is None:
        raise ValueError(f"{path} has no histograms named hu_TAG, hv_TAG, hw_TAG; name its planes: --plane NAME=TPC:PLANE. Its TH2 are: "
                         f"{_listed(classes)}" if not tags else f"{path} has several tags: {_listed(tags)}; choose one: --tag TAG")
    pattern = re.escape(tag).replace(r"\{tpc\}", r"(?P<tpc>\d+)")
    chosen = [(name, int(fits["tpc"]) if "(?P<tpc>" in pattern else tpc, "uvw".index(match[1]))
              for name, match in found.items() if (fits := re.fullmatch(pattern, match[2]))]
    if not chosen:
        raise ValueError(f"{path} has no histograms of the tag {tag}; its tags are: {_listed(tags)}")
    return sorted(chosen, key=lambda plane: plane[1:])


def _axis(path: str, name: str, edges: NDArray[np.float64], what: str) -> tuple[int, int]:
    """The number of the first bin of an axis, and how many numbers a bin holds."""
    width = np.diff(edges)
    if not np.allclose(width, width[0], rtol=1e-6) or width[0] < 0.999 or abs(width[0] - round(width[0])) > 1e-3:
        raise ValueError(f"{path}: {name}: a bin of its {what} is {width.min():g} to {width.max():g} wide; whole numbers, all the same, "
                         f"are needed")
    first, wide = int(np.ceil(edges[0] - 1e-3)), int(round(width[0]))   # -0.5 and 0 both begin with number 0
    if first < 0:
        raise ValueError(f"{path}: {name}: its {what} begin at {edges[0]:g}, below 0")
    return first, wide


def read_plane(path: str, file: Any, name: str, tpc: int, plane: int) -> Plane:
    """One histogram: channels along x, ticks along y. A bin of several ticks gives each tick its share."""
    hist = _kept(path, name, lambda: file[name])
    values = _kept(path, name, lambda: np.asarray(hist.values(flow=False), np.float32))
    if values.size == 0:
        raise ValueError(f"{path}: {name} has no bins")
    channel, wide = _axis(path, name, hist.axis(0).edges(), "channels")
    if wide != 1:
        raise ValueError(f"{path}: {name}: a bin of its channels holds {wide} channels; one is needed")
    tick, wide = _axis(path, name, hist.axis(1).edges(), "ticks")
    return Plane(name, tpc, plane, channel, tick, values if wide == 1 else np.repeat(values / np.float32(wide), wide, axis=1))


def event_of(path: str, file: Any) -> Event:
    """The event of a Magnify file: the first entry of its tree Trun."""
    classes = file.classnames(recursive=True, cycle=False)
    if classes.get("Trun") != "TTree":
        raise ValueError(f"{path} has no tree Trun, which names its event; name it: --event RUN:SUBRUN:EVENT")
    tree, numbers = file["Trun"], []
    for key, names in _TRUN.items():
        branch = next((name for name in names if name in tree.keys()), None)
        if branch is None and key == "event":
            raise ValueError(f"{path}: Trun has no branch {names[0]}; name the event: --event RUN:SUBRUN:EVENT")
        column = np.zeros(1, np.int64) if branch is None else _integers(path, branch, _branch(path, tree, "Trun", branch))
        numbers.append(int(column[0]))
    return numbers[0], numbers[1], numbers[2]


def _branch(path: str, tree: Any, name: str, branch: str) -> NDArray[Any]:
    """A branch of one number an entry, whole."""
    if branch not in tree.keys():
        raise ValueError(f"{path}: the tree {name} has no branch {branch}; it has {_listed(tree.keys())}")
    column = tree[branch]
    if tree.num_entries == 0:
        raise ValueError(f"{path}: the tree {name} has no entries")
    if column.num_entries != tree.num_entries:
        raise ValueError(f"{path}: {branch} of the tree {name} has {column.num_entries} entries, the tree has {tree.num_entries}")
    values = _kept(path, branch, lambda: column.array(library="np"))
    if values.dtype == object and len(values) and isinstance(values[0], np.ndarray):
        raise ValueError(f"{path}: {branch} of the tree {name} is jagged, {column.typename}: an entry holds a list; flatten the tree, so "
                         f"that an entry is a hit")
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {branch} of the tree {name} is {column.typename}; one number an entry is needed")
    return np.asarray(values, values.dtype.newbyteorder("="))


def _integers(path: str, branch: str, values: NDArray[Any]) -> NDArray[np.int64]:
    wrong = ~(np.abs(values) < 2.0**63) | (values != np.floor(values)) if values.dtype.kind == "f" else \
        values > np.uint64(2**63 - 1) if values.dtype == np.uint64 else None
    if wrong is not None and wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{path}: {branch}: entry {i} is {values[i]}; a whole number is needed")
    return values.astype(np.int64)


def _located(where: str) -> tuple[str, Optional[str]]:
    """FILE or FILE:TREE."""
    path, colon, tree = where.rpartition(":")
    port = re.match(r"\d+/", tree) and re.fullmatch(r"\w+://[^/]*", path)   # root://host:1094//FILE
    return (where, None) if not colon or os.path.exists(where) or tree.startswith("//") or port else (path, tree)


def read_hits(where: str, columns: Mapping[str, Union[str, int]]) -> dict[str, NDArray[Any]]:
    """The columns of a flat tree, FILE:TREE, by the names that wiremill has for them."""
    for key, others in ("key", "name the branch of hit_id"), ("event_id", "name those of run, subrun and event"):
        if key in columns:
            raise ValueError(f"--column {key}: the file makes this column itself; {others}")
    path, name = _located(where)
    with opened(path) as file:
        trees = [key for key, kind in file.classnames(recursive=True, cycle=False).items() if kind in _TREES]
        if name is None and len(trees) == 1:
            name = trees[0]
        if name is None or name not in trees:
            raise ValueError(f"{path} has " + ("no TTree or RNTuple" if not trees else f"several trees: {_listed(trees)}; choose one: {path}:TREE"
                                               if name is None else f"no tree named {name}; its trees are: {_listed(trees)}"))
        tree = file[name]
        if not hasattr(tree, "keys"):
            raise ValueError(f"{path}: {name} is an RNTuple of a later form than this uproot reads: pip install -U uproot")
        chosen = dict(_chosen(tree, columns))
        for key in ("event", "time") + (("plane", "wire") if "channel" not in chosen else ()):
            if key not in chosen:
                raise ValueError(f"{path}: the tree {name} has no branch {key}; it has {_listed(tree.keys())}. Name it: --column {key}=BRANCH"
                                 + (", or --column channel=BRANCH with a map of the channels" if key == "wire" else ""))
        found: dict[str, NDArray[Any]] = {}
        for key, branch in chosen.items():
            values = (np.full(tree.num_entries, branch) if isinstance(branch, int) else _branch(path, tree, name, branch))
            found[key] = _integers(path, str(branch), values) if key in _INTEGERS else values.astype(np.float64)
        n = len(found["event"])
        for key in _ABSENT:
            if key not in found and not (key in ("cryostat", "tpc") and "channel" in found):
                found[key] = np.zeros(n, np.int64)
        found.setdefault("hit_id", np.arange(n))
        return found


def _chosen(tree: Any, columns: Mapping[str, Union[str, int]]) -> Iterator[tuple[str, Union[str, int]]]:
    """Of each column its branch, or its one value."""
    yield from columns.items()
    wires = {"wire", "channel"} & columns.keys() or {"wire"} & set(tree.keys()) or {"channel"}   # one of both
    for key in _INTEGERS + ("time",):
        if key not in columns and key in tree.keys() and (key not in ("wire", "channel") or key in wires):
            yield key, key
