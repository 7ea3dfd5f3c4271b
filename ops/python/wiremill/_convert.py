"""_convert.py - ROOT files become input files of wiremill (HDF5): Magnify's histograms, and flat trees of hits."""
from __future__ import annotations

import csv
import os
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from . import _files, _root

Path = Union[str, "os.PathLike[str]"]
_MAP = ("channel", "cryostat", "tpc", "plane", "wire")
_GAP = 8                            # so few zeros between samples do not end a region
_RAW_ADC, _RAW_ROWS = 50.0, 16      # producer/layouts/wm_pedestal.c
_CHUNK = 1 << 16                    # rows
_KEPT = ("run", "subrun", "event", "hit_id", "cryostat", "tpc", "plane", "wire", "channel", "time")


class Converted(NamedTuple):
    """What a file that `convert` wrote holds."""

    events: int     #: events, of planes or of hits
    planes: int     #: planes, all events together
    hits: int       #: hits


class _Tables:
    """An HDF5 file whose columns grow."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def add(self, table: str, /, **columns: Any) -> None:
        for name, values in columns.items():
            values = np.asarray(values)
            place = f"{table}/{name}"
            if place not in self.file:
                rows = max(1, _CHUNK // max(1, int(np.prod(values.shape[1:]))))
                self.file.create_dataset(place, (0, *values.shape[1:]), values.dtype, chunks=(rows, *values.shape[1:]),
                                         maxshape=(None, *values.shape[1:]))
            column = self.file[place]
            column.resize(column.shape[0] + len(values), axis=0)
            column[column.shape[0] - len(values):] = values


def _read_map(path: Path) -> dict[str, NDArray[np.int64]]:
    """A channel map: a CSV with a line of names."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader((line for line in file if not line.startswith("#")), skipinitialspace=True)
        lacks = [name for name in _MAP if name not in (reader.fieldnames or ())]
        if lacks:
            raise ValueError(f"{path}: the map has no column {lacks[0]}; it needs {', '.join(_MAP)}")
        try:
            rows = [[int(row[name]) for name in _MAP] for row in reader]
        except (TypeError, ValueError):
            raise ValueError(f"{path}:{reader.line_num}: a cell is not a whole number") from None
    if not rows:
        raise ValueError(f"{path}: the map has no channels")
    return dict(zip(_MAP, np.array(rows, np.int64).T))


def _made_map(path: str, planes: Sequence[_root.Plane], first: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    """The map of planes by themselves: row k of a plane is its wire k."""
    parts = [np.stack([start + np.arange(len(plane.adc)), np.zeros(len(plane.adc), int), np.full(len(plane.adc), plane.tpc),
                       np.full(len(plane.adc), plane.plane), np.arange(len(plane.adc))]) for plane, start in zip(planes, first)]
    found = dict(zip(_MAP, np.concatenate(parts, axis=1)))
    channel, count = np.unique(found["channel"], return_counts=True)
    if (count > 1).any():
        raise ValueError(f"{path}: several planes have the channel {channel[count > 1][0]}; if their x axis counts the wires of a plane, "
                         f"use --axis wire")
    return found


def _pedestal_taken(path: str, plane: _root.Plane, pedestal: Union[str, float]) -> NDArray[np.float32]:
    if pedestal == "median":
        return plane.adc - np.median(plane.adc, axis=1, keepdims=True).astype(np.float32)
    if pedestal == "check":
        medians = np.median(plane.adc[:_RAW_ROWS], axis=1)
        if (np.abs(medians) > _RAW_ADC).sum() > len(medians) // 2:
            raise ValueError(f"{path}: the channels of {plane.name} lie around {np.median(medians):g}, not 0: --pedestal median takes each "
                             f"channel's median off, --pedestal none reads them so")
        return plane.adc
    return plane.adc if pedestal == "none" else plane.adc - np.float32(pedestal)


def _regions(adc: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The rows, first columns and lengths of what is not 0, and its samples."""
    n_tick = adc.shape[1]
    wide = np.zeros((adc.shape[0], n_tick + 2), np.int8)
    wide[:, 1:-1] = adc != 0
    step = np.diff(wide, axis=1)
    row, begin = np.nonzero(step == 1)
    end = np.nonzero(step == -1)[1]
    joined = (row[1:] == row[:-1]) & (begin[1:] - end[:-1] < _GAP) if len(row) else np.zeros(0, bool)
    starts, ends = np.r_[True, ~joined][:len(row)], np.r_[~joined, True][:len(row)]
    row, begin, end = row[starts], begin[starts], end[ends]
    length = end - begin
    mask = np.zeros(adc.shape[0] * (n_tick + 1) + 1, np.int8)   # a column more, so that no region meets the next row's
    np.add.at(mask, row * (n_tick + 1) + begin, 1)
    np.add.at(mask, row * (n_tick + 1) + end, -1)
    inside = np.cumsum(mask[:-1], dtype=np.int8).reshape(adc.shape[0], n_tick + 1)[:, :-1].astype(bool)
    return row, begin, length, adc[inside]


def _check_map(path: str, plane: _root.Plane, written: NDArray[np.int64], channels: dict[str, NDArray[np.int64]], tpc: bool) -> None:
    """Refuses a plane whose channels with charge are not in the map, or there are of another plane (or TPC) alone."""
    lacks = written[~np.isin(written, channels["channel"])]
    if len(lacks):
        raise ValueError(f"{path}: {plane.name} has charge on {len(lacks)} channels that are not in the map, {lacks[0]} first")
    for name, wanted in (("plane", plane.plane), ("tpc", plane.tpc))[:2 if tpc else 1]:
        others = written[~np.isin(written, channels["channel"][channels[name] == wanted])]
        if len(others):
            has = channels[name][channels["channel"] == others[0]][0]
            raise ValueError(f"{path}: {plane.name} is read as {name} {wanted}, but the map has its channel {others[0]} in {name} {has}; "
                             f"--plane NAME=TPC:PLANE gives it others")


def _write_planes(tables: _Tables, path: str, options: Mapping[str, Any], channels: Optional[dict[str, NDArray[np.int64]]],
                  facts: Mapping[str, Optional[float]]) -> tuple[_root.Event, int, dict[str, NDArray[np.int64]]]:
    """Adds the event of one file. Returns the event, how many planes it has, and the map of its channels."""
    with _root.opened(path) as file:
        event = options["event"] or _root.event_of(path, file)
        names = _root.named_planes(path, file, options["tag"], options["planes"], options["tpc"])
        planes = [_root.read_plane(path, file, *name) for name in names]
    first = [plane.channel for plane in planes]
    if options["axis"] == "wire":
        first = [int(n) for n in np.cumsum([0] + [len(plane.adc) for plane in planes[:-1]])]
    used = channels or _made_map(path, planes, first)
    n_tick, n_sample = max(plane.tick + plane.adc.shape[1] for plane in planes), 0
    for plane, start in zip(planes, first):
        row, begin, length, adc = _regions(_pedestal_taken(path, plane, options["pedestal"]))
        _check_map(path, plane, np.unique(start + row), used, bool(options["planes"]))
        n_sample += len(adc)
        tables.add("roi_table", event_id=np.tile(np.array(event, np.int64), (len(row), 1)), channel=start + row, tick=plane.tick + begin,
                   n=length)
        tables.add("roi_value", adc=adc)
    if not n_sample:
        raise ValueError(f"{path}: {', '.join(name for name, _, _ in names)} hold nothing but zeros")
    places = np.unique(np.stack([used[name] for name in _MAP[1:4]], axis=1), axis=0)
    n_wire = [int(used["wire"][(np.stack([used[name] for name in _MAP[1:4]], axis=1) == place).all(axis=1)].max()) + 1 for place in places]
    tables.add("event_table", event_id=[event], n_tick=[n_tick], **{key: [value] for key, value in facts.items() if value is not None})
    tables.add("plane_table", event_id=np.tile(np.array(event, np.int64), (len(places), 1)), **dict(zip(_MAP[1:4], places.T)), n_wire=n_wire)
    return event, len(places), used


def _wires_of(hits: dict[str, NDArray[Any]], channels: Optional[dict[str, NDArray[np.int64]]]) -> None:
    """Replaces the column channel by cryostat, tpc, plane and wire."""
    if channels is None:
        raise ValueError("hits by channel need a map of the channels: --channels MAP.csv, or --planes")
    order = np.argsort(channels["channel"], kind="stable")
    known, wanted = channels["channel"][order], hits.pop("channel")
    at = np.searchsorted(known, wanted)
    lacks = known[np.minimum(at, len(known) - 1)] != wanted
    several = np.searchsorted(known, wanted, side="right") - at > 1
    for wrong, text in (lacks, "is not in the map"), (several, "fills several wires: name the branches of tpc, plane and wire"):
        if wrong.any():
            raise ValueError(f"the channel {wanted[wrong][0]} of {int(wrong.sum())} hits {text}")
    for name in _MAP[1:]:
        hits[name] = channels[name][order[at]]


def _write_hits(tables: _Tables, where: str, hits: dict[str, NDArray[Any]], events: Sequence[_root.Event]) -> int:
    """Adds hits: with planes as the exchange layout has them, by themselves as numl's table. Returns how many events they have."""
    ids = np.stack([hits[name] for name in ("run", "subrun", "event")], axis=1)
    found = {tuple(int(n) for n in row) for row in np.unique(ids, axis=0)}
    if events and not found & set(events):
        raise ValueError(f"{where}: no hit is of an event of the planes: hits have {':'.join(map(str, sorted(found)[0]))} and planes "
                         f"{':'.join(map(str, events[0]))}; --column run=NUMBER gives all hits one run, --event the planes' event")
    others = {name: values for name, values in hits.items() if name not in _KEPT}
    if events:
        tables.add("hit_table", event_id=ids, key=hits["hit_id"], time=hits["time"], **{name: hits[name] for name in _MAP[1:]}, **others)
        return len(found)
    columns = {name: hits[name] for name in ("hit_id", "tpc", "plane", "wire", "time")} | others
    tables.add("event_table", event_id=np.array(sorted(found), np.int64))
    tables.add("hit_table", event_id=ids, **{name: values[:, None] for name, values in columns.items()})
    return len(found)


def convert(output: Path, *, planes: Union[None, Path, Sequence[Path]] = None, hits: Optional[Path] = None,
            tag: Optional[str] = None, names: Optional[Mapping[str, tuple[int, int]]] = None, tpc: int = 0, axis: str = "channel",
            columns: Optional[Mapping[str, Union[str, int]]] = None, event: Optional[tuple[int, int, int]] = None,
            channels: Optional[Path] = None, pedestal: Union[str, float] = "check", tick_us: Optional[float] = None,
            trigger_offset: Optional[float] = None, tau_us: Optional[float] = None, force: bool = False) -> Converted:
    """Make an input file from ROOT files. Needs the packages h5py and uproot.

    With planes the file has wiremill's exchange layout; with planes alone it is for ``points: windows``. With hits alone it has
    numl's `hit_table`, for ``wiremill run --planes``.

    Parameters
    ----------
    output : path
        The HDF5 file to write. It gets its name when it is whole.
    planes : path, or sequence of paths
        Magnify files, one event each: for each plane a TH2 with channels along x and ticks along y.
    hits : path
        ``FILE:TREE``, or ``FILE`` if it has one tree: a TTree or RNTuple whose entries are hits.
    tag : str, optional
        Which histograms: hu_TAG, hv_TAG and hw_TAG. ``"raw{tpc}"`` takes raw0, raw1 and so on, with that number as their TPC.
    names : dict of str to (int, int), optional
        Histograms of other names: ``{"h_collection": (0, 2)}`` is plane 2 of TPC 0.
    tpc : int
        The TPC of hu_TAG, hv_TAG and hw_TAG.
    axis : {"channel", "wire"}
        What x counts: channels of the detector, or the wires of each plane.
    columns : dict, optional
        The branch, or the one value, of a column: ``{"time": "peak", "tpc": 1}``. Columns are run, subrun, event, cryostat, tpc,
        plane, wire or channel, time (ticks) and hit_id. Others are copied. Where nothing is named, the branch has the column's name.
    event : (int, int, int), optional
        Run, subrun and event of the planes. None: of the tree Trun.
    channels : path, optional
        A CSV of channel, cryostat, tpc, plane, wire. None: row k of a histogram is wire k.
    pedestal : str or float
        "median" takes each channel's median off, a number itself, "none" nothing. "check" refuses planes that lie around another
        value than 0.
    tick_us, trigger_offset, tau_us : float, optional
        Facts of the events: length of a tick, tick of the trigger, electron lifetime. The specification has them otherwise.
    force : bool
        Replace a file that is there.

    Returns
    -------
    Converted
        How many events, planes and hits were written.

    Raises
    ------
    FileNotFoundError, FileExistsError
        An input is not there; the output is, and `force` is not given.
    ValueError
        An input does not fit; the text names the file, and what would.

    Examples
    --------
    >>> wiremill.convert("events.h5", planes="magnify.root", tag="gauss", hits="reco.root:hits")     # doctest: +SKIP
    Converted(events=1, planes=3, hits=10832)
    """
    h5py, to = _files.package("h5py", "convert"), os.fspath(output)
    if planes is None and hits is None:
        raise ValueError("there is nothing to convert: name planes (--planes), hits (--hits), or both")
    if axis not in ("channel", "wire"):
        raise ValueError(f"axis is {axis!r}; it is \"channel\" or \"wire\"")
    if isinstance(pedestal, str) and pedestal not in ("check", "none", "median"):
        raise ValueError(f"pedestal is {pedestal!r}; it is \"check\", \"none\", \"median\" or a number")
    files = [] if planes is None else [planes] if isinstance(planes, (str, os.PathLike)) else list(planes)
    if files and axis == "wire" and channels is not None:
        raise ValueError("with --axis wire the file's channels are made up, so --channels cannot name them: leave one of both out")
    if event is not None and len(files) > 1:
        raise ValueError(f"there are {len(files)} files of planes, and one event: each needs a tree Trun")
    if os.path.exists(to) and not force:
        raise FileExistsError(17, "It is there already; force replaces it", to)
    known = None if channels is None else _read_map(channels)
    table = None if hits is None else _root.read_hits(os.fspath(hits), columns or {})
    options = {"event": event, "tag": tag, "planes": names or {}, "tpc": tpc, "axis": axis, "pedestal": pedestal}
    facts = {"tick_us": tick_us, "trigger_offset": trigger_offset, "tau_us": tau_us}
    part = f"{to}.{os.getpid()}.part"
    try:
        with h5py.File(part, "w-") as file:
            done = _write(_Tables(file), [os.fspath(name) for name in files], options, known, facts,
                          None if hits is None else os.fspath(hits), table)
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        os.replace(part, to)
    finally:
        if os.path.exists(part):
            os.remove(part)
    return done


def _write(tables: _Tables, files: list[str], options: Mapping[str, Any], channels: Optional[dict[str, NDArray[np.int64]]],
           facts: Mapping[str, Optional[float]], where: Optional[str], hits: Optional[dict[str, NDArray[Any]]]) -> Converted:
    events: list[_root.Event] = []
    n_plane, used = 0, channels
    for path in files:
        event, count, found = _write_planes(tables, path, options, channels, facts)
        if event in events:
            raise ValueError(f"{path} has the event {':'.join(map(str, event))}, as {files[events.index(event)]} has; a file holds "
                             f"a whole event: write all anodes into one file (root_file_mode UPDATE), with tags such as raw0")
        if events and used is not None and any(not np.array_equal(used[name], found[name]) for name in _MAP):
            raise ValueError(f"{path} has other channels than {files[0]}; give a map of all: --channels MAP.csv")
        events.append(event)
        n_plane, used = n_plane + count, found
    if files and used is not None:
        tables.file.attrs["layout"] = "wiremill-exchange-1"
        tables.add("wire_table", **used)
    n_event = len(events)
    if hits is not None and where is not None:
        if "channel" in hits:
            if files and options["axis"] == "wire":
                raise ValueError("hits by channel need planes whose x counts channels; with --axis wire name the branches of tpc, plane "
                                 "and wire")
            _wires_of(hits, used)
        of_hits = _write_hits(tables, where, hits, events)
        n_event = n_event or of_hits
    return Converted(n_event, n_plane, 0 if hits is None else len(hits["time"]))
