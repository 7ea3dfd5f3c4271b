"""_input.py - where the hits of an output are: columns of the input that it was made from."""
from __future__ import annotations

import csv
import datetime
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TABLES = ("hit_table", "chargehits")
_IDS = ("run", "subrun", "event")
# Columns of ours, and what the layouts call them.
_NAMES = {"hit_id": ("key", "hit_id", "ch_id"), "cryostat": ("cryostat",), "tpc": ("tpc", "tpc_id"),
          "plane": ("local_plane", "plane"), "wire": ("local_wire", "wire"), "time": ("local_time", "time"), "truth": ("truth",)}
_NEW = ("wire", "time", "truth")


def _changed(path: str, attributes: dict[str, Any]) -> str:
    """How a file differs from the input as it was scored; "" if it does not."""
    then = attributes
    named = [str(then[name]) for name in ("planes", "channels") if name in then]
    if any("://" in other for other in named):
        return ""
    # Hits, planes and the map of channels are one input: its size is their sum, its time that of the latest.
    others = [other.split(":/")[0] for other in named]   # FILE:/TAG
    missing = [other for other in others if not os.path.exists(other)]
    if missing:
        return f"{missing[0]}, which belongs to it, is not there"
    now = [os.stat(one) for one in (path, *others)]
    size, latest = sum(one.st_size for one in now), max(int(one.st_mtime) for one in now)
    it = f"it, with {' and '.join(others)}," if others else "it"
    if "input_bytes" in then and size != int(then["input_bytes"]):
        return f"{it} has {size:,} bytes, and had {int(then['input_bytes']):,}"
    written = datetime.datetime.fromtimestamp(latest, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if written != then.get("input_mtime", written):
        return f"{it} was written at {written}, and before at {then['input_mtime']}"
    return ""


def _csv_table(path: str) -> dict[str, NDArray[Any]]:
    """The columns of a CSV of hits; {} if the file is not one."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = (line for line in file if line.strip() and not line.startswith("#"))
        head = next(lines, "")
        separator = next((one for one in ",;\t" if one in head), ",")
        names = [name.strip() for name in next(csv.reader([head], delimiter=separator))]
        if not {"hit_id", "wire", "time", *_IDS} <= set(names):
            return {}
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    texts = {name: np.array([row[names.index(name)].strip() for row in rows])
             for name in (*_IDS, "hit_id", "cryostat", "tpc", "plane", "wire", "time") if name in names}
    return {name: column.astype(np.float64 if name in ("wire", "time") else np.int64) for name, column in texts.items()}


def _column(table: Any, name: str) -> NDArray[Any]:
    found = next((other for other in _NAMES[name] if other in table), None)
    column: NDArray[Any] = table[found][:] if found else np.zeros(0)
    return column[:, 0] if column.ndim == 2 else column


def _rows(table: Any) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """What identifies each hit of a table, and what wiremill.read adds of it."""
    ids = dict(zip(_IDS, table["event_id"][:].T)) if "event_id" in table else {one: table[one][:] for one in _IDS}
    ids.update({name: _column(table, name) for name in _NAMES if name not in _NEW})
    return ids, {name: _column(table, name) for name in _NEW}


def positions(h5py: Any, output: str, columns: dict[str, NDArray[Any]], attributes: dict[str, Any], given: str
              ) -> dict[str, NDArray[Any]]:
    """Wire, time and, where it is there, truth of each row; ValueError unless the input has the same hits in the same order."""
    if not given and "wire" in columns and "time" in columns:   # windows have their own
        return {}
    path = given or str(attributes.get("input", ""))
    if "://" in path or not os.path.isfile(path):
        raise FileNotFoundError(2, f"positions of {output} are in its input, which is not there; give positions=FILE", path)
    wrong = "" if given else _changed(path, attributes)
    if wrong:
        raise ValueError(f"{path} has changed since {output} was made of it: {wrong}")
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            name = next((name for name in _TABLES if name in file), None)
            if name is None:
                raise ValueError(f"{path} has no table of hits: its rows have no positions")
            ids, new = _rows(file[name])
    else:
        table = _csv_table(path)
        if not table:
            raise ValueError(f"{path} is no HDF5 file and no CSV of hits: wiremill.read takes positions of these alone")
        ids, new = _rows(table)
    for name, values in ids.items():
        values = values[:, 0] if values.ndim == 2 else values
        if name in columns and len(values) and not np.array_equal(values, columns[name]):
            raise ValueError(f"{path} and {output} have other hits, or in another order: {name} differs")
    rows = len(columns["status"])
    if len(new["wire"]) != rows or len(new["time"]) != rows:
        raise ValueError(f"{path} has {len(new['wire']):,} hits with a wire, {output} {rows:,}")
    return {name: values for name, values in new.items() if name not in columns and len(values) == rows}
