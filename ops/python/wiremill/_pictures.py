"""_pictures.py - which hits of an event a picture has, and the page of an event that `wiremill show` writes."""
from __future__ import annotations

import html
import os
from typing import Any, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

Event = Union[str, Sequence[int]]   # "run:subrun:event", or the three numbers

_IDS = ("run", "subrun", "event")


def event_text(event: Event) -> str:
    """An event as options have it; ValueError if it has not three numbers."""
    parts = event.split(":") if isinstance(event, str) else [str(part) for part in event]
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"event {event!r}: run, subrun and event are needed, as \"1:1:7\" or (1, 1, 7)")
    return ":".join(parts)


def chosen(columns: dict[str, NDArray[Any]], event: Optional[Event], plane: Optional[int], tpc: Optional[int]
           ) -> tuple[NDArray[np.intp], str]:
    """Rows of one plane, that with most hits of those which fit; and its name."""
    if not {"wire", "time"} <= set(columns):
        raise ValueError("hits have no positions: read the output with positions=True")
    rows = np.arange(len(columns["status"]))
    if event is not None:
        wanted = event_text(event)
        for name, value in zip(_IDS, wanted.split(":")):
            rows = rows[columns[name][rows] == int(value)]
    for name, number in ("plane", plane), ("tpc", tpc):
        if number is not None and name in columns:
            rows = rows[columns[name][rows] == number]
    if not len(rows):
        raise ValueError(f"no hits of event {event or 'any'}, plane {'any' if plane is None else plane}, "
                         f"tpc {'any' if tpc is None else tpc}")
    for name in ("file", *_IDS):   # the first event
        if name in columns:
            rows = rows[columns[name][rows] == columns[name][rows[0]]]
    title = "event " + ":".join(str(columns[name][rows[0]]) for name in _IDS)
    places = [name for name in ("cryostat", "tpc", "plane") if name in columns]
    if places:
        found, of, count = np.unique(np.stack([columns[name][rows] for name in places], 1), axis=0, return_inverse=True,
                                     return_counts=True)
        most = int(np.argmax(count))
        rows = rows[of.reshape(-1) == most]
        title += "".join(f", {name} {number}" for name, number in zip(places, found[most]))
    return rows, title


class Page:
    """A page of HTML; a notebook shows it in a frame of its own. `show` makes it.

    Attributes
    ----------
    html : str
        The page, whole: it needs no other file.
    """

    def __init__(self, text: str, height: int = 720) -> None:
        self.html, self.height = text, height

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the page to a file, for a browser."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"<wiremill.Page of {len(self.html):,} characters>"

    def _repr_html_(self) -> str:
        """A frame: scripts and styles of the page and of the notebook do not meet."""
        return (f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
                f'style="width: 100%; height: {self.height}px; border: 0"></iframe>')
