"""_error.py - what the library reports, as an exception."""
from __future__ import annotations

from . import _library


class WiremillError(RuntimeError):
    """What happened, where, why, and what to do.

    Attributes
    ----------
    fault : {"again", "input", "host", "usage"}
        Who must act. "again": try later (no memory now). "input": the model's file is bad. "host": this machine, or the broker
        (an engine is missing, no broker answers). "usage": the caller.
    """

    def __init__(self, fault: int, text: str) -> None:
        super().__init__(text)
        self.fault: str = {1: "again", 3: "input", 4: "host", 5: "usage"}.get(fault, "host")


def raised(error: _library.Error) -> WiremillError:
    """The exception of an error that the library filled in."""
    return WiremillError(error.fault, error.text.decode(errors="replace"))
