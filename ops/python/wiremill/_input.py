"""_input.py - where the hits of an output are: columns of the input that it was made from."""
from __future__ import annotations

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
    now, then = os.stat(path), attributes
    if "input_bytes" in then and now.st_size != int(then["input_bytes"]):
        return f"it has {now.st_size:,} bytes, and had {int(then['input_bytes']):,}"
    written = datetime.datetime.fromtimestamp(int(now.st_mtime), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if written != then.get("input_mtime", written):
        return f"it was written at {written}, and before at {then['input_mtime']}"
    return ""


def _column(table: Any, name: str) -> NDArray[Any]:
    found = next((other for other in _NAMES[name] if other in table), None)
    column: NDArray[Any] = table[found][:] if found else np.zeros(0)
    return column[:, 0] if column.ndim == 2 else column


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
    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} is no HDF5 file: wiremill.read takes positions of these alone")
    with h5py.File(path, "r") as file:
        name = next((name for name in _TABLES if name in file), None)
        if name is None:
            raise ValueError(f"{path} has no table of hits: its rows have no positions")
        table = file[name]
        ids = dict(zip(_IDS, table["event_id"][:].T)) if "event_id" in table else {one: table[one][:] for one in _IDS}
        ids.update({name: _column(table, name) for name in _NAMES if name not in _NEW})
        new = {name: _column(table, name) for name in _NEW}
    for name, values in ids.items():
        values = values[:, 0] if values.ndim == 2 else values
        if name in columns and len(values) and not np.array_equal(values, columns[name]):
            raise ValueError(f"{path} and {output} have other hits, or in another order: {name} differs")
    rows = len(columns["status"])
    if len(new["wire"]) != rows or len(new["time"]) != rows:
        raise ValueError(f"{path} has {len(new['wire']):,} hits with a wire, {output} {rows:,}")
    return {name: values for name, values in new.items() if name not in columns and len(values) == rows}
