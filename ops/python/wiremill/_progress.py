"""_progress.py - how far `wiremill run` is: a bar in a notebook and on a terminal, lines in a log."""
from __future__ import annotations

import html
import shutil
import sys
import time
from typing import Any, Callable, NamedTuple, Optional, TextIO

Progress = Callable[[int, int], None]   # hits scored or held, hits known so far

_LOG_S = 10     # a log gets a line at most so often
_BAR = 20       # characters of a bar on a terminal


def _notebook() -> Any:
    """IPython.display where this is a notebook's kernel, else None. IPython is loaded there already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    import IPython.display

    return IPython.display


class State(NamedTuple):
    """How far a campaign is, as `wiremill status --json` has it."""

    done: int           # hits scored or held
    known: int          # all hits
    word: str           # "about" or "at least", as long as some inputs are not read to their end
    files_done: int     # written or held
    files: int


def _left(seconds: float) -> str:
    """How long, to a minute or a second."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _text(state: State, rate: float) -> str:
    share = f" ({100 * state.done // max(state.known, 1)} %)" if state.word != "at least" else ""
    left = state.known - state.done if state.word != "at least" else 0
    word = f"{state.word} " if state.word else ""
    speed = f", {rate:,.0f} hits/s" if rate > 0 else ""
    until = f", {word}{_left(left / rate)} left" if rate > 0 and left > 0 else ""
    files = f", {state.files_done:,} of {state.files:,} files" if state.files > 1 else ""
    return f"wiremill run: {state.done:,} of {word}{state.known:,} hits{share}{speed}{until}{files}"


class Shown:
    """Shows progress; call it with a `State`, and `close` at the end.

    display: IPython.display for a bar, None for text to `stream`.
    """

    def __init__(self, display: Any, stream: TextIO) -> None:
        self._bar: Any = None
        self._display, self._stream = display, stream
        self._terminal: bool = display is None and stream.isatty()
        self._first: Optional[tuple[float, int]] = None
        self._printed_s: float = float("-inf")
        self._last, self._width = "", 0

    def __call__(self, state: State) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = (now, state.done)
        start, before = self._first
        text = _text(state, (state.done - before) / (now - start) if now - start >= 1 else 0)
        if self._display:
            self._draw(text, state)
        elif self._terminal:
            text = self._fitted(text, state)
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)
        elif now - self._printed_s >= _LOG_S:
            print(text, file=self._stream, flush=True)
            self._printed_s, text = now, ""
        self._last = text

    def _fitted(self, text: str, state: State) -> str:
        """The text with a bar before it, as far as the terminal is wide enough: a line that wraps cannot be drawn again."""
        wide = shutil.get_terminal_size().columns - 1
        full = _BAR * min(state.done, state.known) // max(state.known, 1)
        bar = f"[{'#' * full}{'.' * (_BAR - full)}] "
        return (bar + text if len(bar + text) <= wide else text)[:wide]

    def _draw(self, text: str, state: State) -> None:
        bar = self._display.HTML(f'<progress value="{state.done}" max="{max(state.known, 1)}" style="width: 60%"></progress><br>'
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
