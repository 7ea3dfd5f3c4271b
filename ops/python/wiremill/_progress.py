"""_progress.py - how far `wiremill run` is: a bar in a notebook, a line on a terminal, lines in a log."""
from __future__ import annotations

import html
import sys
import time
from typing import Any, Callable, Optional, TextIO

Progress = Callable[[int, int], None]   # hits scored or held, hits known so far

_LOG_S = 10     # a log gets a line at most so often


def _notebook() -> Any:
    """IPython.display where this is a notebook's kernel, else None. IPython is loaded there already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    import IPython.display

    return IPython.display


def _text(done: int, known: int, rate: float) -> str:
    share = 100 * done // known if known else 0
    speed = f", {rate:,.0f} hits/s" if rate > 0 else ""
    return f"wiremill run: {done:,} of {known:,} hits ({share} %){speed}"


class Shown:
    """Shows progress; call it with (done, known), and `close` at the end.

    display: IPython.display for a bar, None for text to `stream`.
    """

    def __init__(self, display: Any, stream: TextIO) -> None:
        self._bar: Any = None
        self._display, self._stream = display, stream
        self._terminal: bool = display is None and stream.isatty()
        self._first: Optional[tuple[float, int]] = None
        self._printed_s: float = float("-inf")
        self._last, self._width = "", 0

    def __call__(self, done: int, known: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        start, before = self._first
        text = _text(done, known, (done - before) / (now - start) if now - start >= 1 else 0)
        if self._display:
            self._draw(text, done, known)
        elif self._terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)
        elif now - self._printed_s >= _LOG_S:
            print(text, file=self._stream, flush=True)
            self._printed_s, text = now, ""
        self._last = text

    def _draw(self, text: str, done: int, known: int) -> None:
        bar = self._display.HTML(f'<progress value="{done}" max="{max(known, 1)}" style="width: 60%"></progress> '
                                 f"{html.escape(text)}")
        if self._bar is None:
            self._bar = self._display.display(bar, display_id=True)
        else:
            self._bar.update(bar)

    def close(self) -> None:
        """Ends the line; a log gets the last state, if it is not there yet."""
        if self._terminal and self._width:
            print(file=self._stream, flush=True)
        elif not self._display and not self._terminal and self._last:
            print(self._last, file=self._stream, flush=True)


def shown(wanted: Optional[bool]) -> Optional[Shown]:
    """What shows progress: with None only where a person looks on, in a notebook or on a terminal."""
    display = None if wanted is False else _notebook()
    if wanted is False or (wanted is None and not display and not sys.stderr.isatty()):
        return None
    return Shown(display, sys.stderr)
