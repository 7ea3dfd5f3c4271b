"""_client.py - patches that the workers of a broker score: `wiremill broker --clients`."""
from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from types import TracebackType
from typing import Any, Iterable, Iterator, Literal, Optional, Union, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _files, _library, _patches
from ._error import raised

Path = Union[str, "os.PathLike[str]"]

_AGAIN = 1
_SLICE_MS = 100   # a call of the library at most, so that Ctrl-C is served
_UNDER_WAY = b"under way"


class Scoring:
    """Patches that a broker's workers score. `Client.submit` makes it; any thread may use it.

    Attributes
    ----------
    n : int
        How many patches.
    """

    def __init__(self, handle: _library.Handle, ticket: int, n: int, n_output: int) -> None:
        self._handle, self._ticket, self._n_output = handle, ticket, n_output
        self._lock = threading.Lock()
        self._scores: Optional[NDArray[np.float32]] = None
        self._status: Optional[NDArray[np.uint8]] = None
        self._failed: Optional[Exception] = None
        self.n: int = n

    def done(self) -> bool:
        """Return whether `result` returns, or raises, at once."""
        return self._is_over() or self._call(0)

    def progress(self) -> int:
        """Return how many of the patches are answered."""
        count = ctypes.c_size_t(self.n)
        if not self._is_over():
            _library.call.wiremill_poll(self._handle.pointer, self._ticket, count, None)
        return count.value

    @overload
    def result(self, timeout: Optional[float] = None, *, status: Literal[False] = False) -> NDArray[np.float32]: ...

    @overload
    def result(self, timeout: Optional[float] = None, *, status: Literal[True]
               ) -> tuple[NDArray[np.float32], NDArray[np.uint8]]: ...

    def result(self, timeout: Optional[float] = None, *, status: bool = False) -> Any:
        """Wait for the scores, and return them.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most. None: without a limit.
        status : bool
            Also return the status of each patch.

        Returns
        -------
        scores : ndarray of float32
            (n, n_output). Scores of a patch that was not scored are NaN.
        status : ndarray of uint8
            (n,), only with ``status=True``: `SCORED`, `BAD_PIXEL`, `POISON` (it crashes the engine), `HELD` (the broker gave it
            up) or `NONFINITE`.

        Raises
        ------
        TimeoutError
            The scores did not come in time. `result` may be called again.
        WiremillError
            The broker is gone.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._is_over():
            left = _SLICE_MS if until is None else (until - time.monotonic()) * 1000
            if not self._call(int(min(_SLICE_MS, max(left, 0)))) and left <= 0:
                raise TimeoutError(f"{self.progress()} of {self.n} patches are scored after {timeout} s")
        if self._failed is not None:
            raise self._failed
        return (self._scores, self._status) if status else self._scores

    def _is_over(self) -> bool:
        return self._scores is not None or self._failed is not None

    def _call(self, timeout_ms: int) -> bool:
        """Waits so long; True: it is over. One thread at a time, since a ticket is collected once."""
        if not self._lock.acquire(timeout=timeout_ms / 1000):
            return False
        try:
            if self._is_over():
                return True
            scores, became = np.empty((self.n, self._n_output), np.float32), np.empty(self.n, np.uint8)
            error = _library.Error()
            fault = _library.call.wiremill_wait(self._handle.pointer, self._ticket, timeout_ms, scores.ctypes.data,
                                                became.ctypes.data, error)
            if fault == _AGAIN:
                return False
            if fault:
                self._failed = raised(error)
            else:
                self._status, self._scores = became, scores
            return True
        finally:
            self._lock.release()

    def __del__(self, forget: Any = _library.call.wiremill_forget) -> None:
        if not self._is_over():
            forget(self._handle.pointer, self._ticket)

    def __repr__(self) -> str:
        return f"<wiremill.Scoring {self.progress()} of {self.n} patches>"


def _connect(broker: bytes, options: _library.ConnectOptions) -> _library.Handle:
    """Connects in a thread, so that Ctrl-C is served while no broker answers; what is connected after it is closed."""
    error = _library.Error()
    opened: list[_library.Handle] = []

    def work() -> None:
        pointer = _library.call.wiremill_connect(broker, options, error)
        if pointer:
            opened.append(_library.Handle(pointer, _library.call.wiremill_client_close))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_SLICE_MS / 1000)
    if not opened:
        raise raised(error)
    return opened[0]


def _connect_again(broker: str, options: dict[str, Any]) -> Client:
    return Client(broker, **options)


def _helper() -> Optional[bytes]:
    """The program that has the connection, beside `wiremill`; None: the library looks for it."""
    if os.environ.get("WM_CLIENT_PROGRAM"):
        return None
    try:
        path = os.path.join(os.path.dirname(os.path.abspath(_files.find_program())), "wiremill-producer")
    except FileNotFoundError:
        return None
    return os.fsencode(path) if os.access(path, os.X_OK) else None


def _here() -> str:
    """What `wiremill run --clients` serves in this folder."""
    path = os.path.abspath("clients.wiremill/endpoint.json")
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "`wiremill run --clients --model MODEL` serves nothing in this folder: start it, or "
                                "name a broker, Client(\"tcp://HOST:PORT\")", path)
    return "file://" + path


class Client:
    """A connection to a broker whose workers score patches: `wiremill broker --clients`, or `wiremill run --clients`.

    Any number of threads may use one client. A child of fork connects again. The program wiremill-producer must lie beside
    `wiremill` in PATH, or be named by WM_CLIENT_PROGRAM.

    Parameters
    ----------
    broker : str, optional
        "tcp://HOST:PORT", "ipc:///PATH", or "file:///DIR/endpoint.json" of its campaign. None: WM_BROKER, else that of
        `wiremill run --clients` in the current folder.
    join_file : path, optional
        The producer's key, `join-producer` of the campaign. WM_JOIN_FILE names it otherwise.
    patience : float
        Seconds without a broker before calls fail. A broker that was killed and is started again within that time gets once
        more what was not answered.
    memory : int
        Bytes of patches under way at most; `submit` waits for room.

    Attributes
    ----------
    shape, n_value, n_output, labels, sha256
        As of `Model`.

    Raises
    ------
    WiremillError
        No broker answers, or it refuses the key.
    FileNotFoundError
        No broker is named, and none serves the current folder.

    Examples
    --------
    >>> with wiremill.Client("tcp://head:5555") as client:          # doctest: +SKIP
    ...     scores = client.score(patches)                          # waits
    ...     parts = [client.submit(p) for p in many]                # does not wait
    ...     for part in client.as_completed(parts):
    ...         use(part.result())
    """

    def __init__(self, broker: Optional[str] = None, *, join_file: Optional[Path] = None, patience: float = 60.0, memory: int = 128 << 20
                 ) -> None:
        self._handle: Optional[_library.Handle] = None
        if not 0.1 <= patience <= 1e6:
            raise ValueError(f"patience is {patience}; there are 0.1 to 1,000,000 s")
        if not 1 <= memory < 2**63:
            raise ValueError(f"memory is {memory} bytes")
        if broker is None:
            broker = os.environ.get("WM_BROKER") or _here()
        if not isinstance(broker, str):
            raise TypeError(f"broker is {broker!r}; a text is needed: \"tcp://HOST:PORT\"")
        self.broker: str = broker
        self._options: dict[str, Any] = {"join_file": None if join_file is None else os.path.abspath(join_file),
                                         "patience": patience, "memory": memory}
        options = _library.ConnectOptions(ctypes.sizeof(_library.ConnectOptions),
                                          None if join_file is None else os.fsencode(join_file), int(patience * 1000), 0,
                                          memory, _helper())
        call, dim = _library.call, (ctypes.c_uint32 * 6)()
        self._handle = _connect(os.fsencode(broker), options)
        opened = self._handle.pointer
        n_dim = call.wiremill_client_shape(opened, dim)
        #: (wires, drift bins) of a patch; several channels in the model's own order. Dimensions of size 1 are left out.
        self.shape: tuple[int, ...] = tuple(dim[:n_dim])
        #: float32 values of a patch.
        self.n_value: int = call.wiremill_client_n_value(opened)
        #: Scores of a patch.
        self.n_output: int = call.wiremill_client_n_output(opened)
        #: Their names, as `wiremill run` names its columns.
        self.labels: list[str] = _library.labels(call.wiremill_client_label, opened, self.n_output)
        #: SHA-256 of the model's file.
        self.sha256: str = call.wiremill_client_sha256(opened).decode()

    def submit(self, patches: ArrayLike) -> Scoring:
        """Have patches scored, without waiting for the scores.

        Returns as soon as there is room for the patches (`memory`); they are copied.

        Parameters
        ----------
        patches : array_like
            See `Model.score`.

        Returns
        -------
        Scoring
            Its `result` waits.

        Raises
        ------
        ValueError
            The shape does not fit the model.
        WiremillError
            The broker is gone.
        """
        return self._submit(_patches.as_rows(patches, self.shape, self.n_value))

    def _submit(self, rows: NDArray[np.float32]) -> Scoring:
        handle, ticket, error = self._handle, ctypes.c_uint64(), _library.Error()
        if handle is None:
            raise ValueError(f"{self.broker}: the client is closed")
        while True:
            fault = _library.call.wiremill_submit(handle.pointer, rows.ctypes.data, len(rows), self.n_value, _SLICE_MS,
                                                  ticket, error)
            if not fault:
                return Scoring(handle, ticket.value, len(rows), self.n_output)
            if fault != _AGAIN or _UNDER_WAY not in error.text:
                raise raised(error)

    @overload
    def score(self, patches: ArrayLike, *, status: Literal[False] = False, progress: Optional[_patches.Progress] = None
              ) -> NDArray[np.float32]: ...

    @overload
    def score(self, patches: ArrayLike, *, status: Literal[True], progress: Optional[_patches.Progress] = None
              ) -> tuple[NDArray[np.float32], NDArray[np.uint8]]: ...

    def score(self, patches: ArrayLike, *, status: bool = False, progress: Optional[_patches.Progress] = None) -> Any:
        """Score patches, and wait for the scores. Ctrl-C ends the wait.

        Parameters
        ----------
        patches : array_like
            See `Model.score`.
        status : bool
            Also return the status of each patch, as `Scoring.result`.
        progress : callable, optional
            Called after every few thousand patches with the number that are scored, and the number of all.

        Returns
        -------
        scores : ndarray of float32
            (n, n_output), columns as in `labels`.
        status : ndarray of uint8
            (n,), only with ``status=True``.

        Raises
        ------
        ValueError, WiremillError
            As `submit` and `Scoring.result`.
        """
        rows = _patches.as_rows(patches, self.shape, self.n_value)
        n = len(rows)
        scores, became = np.empty((n, self.n_output), np.float32), np.empty(n, np.uint8)
        waiting: list[tuple[slice, Scoring]] = []

        def collect(piece: slice, scoring: Scoring) -> None:
            scores[piece], became[piece] = scoring.result(status=True)
            _patches.tell(progress, piece.stop, n)

        for piece in _patches.pieces(n):
            waiting.append((piece, self._submit(rows[piece])))
            while waiting and waiting[0][1].done():
                collect(*waiting.pop(0))
        while waiting:
            collect(*waiting.pop(0))
        return (scores, became) if status else scores

    def as_completed(self, scorings: Iterable[Scoring], timeout: Optional[float] = None) -> Iterator[Scoring]:
        """Yield each scoring when it is done, in that order.

        Parameters
        ----------
        scorings : iterable of Scoring
            What `submit` returned.
        timeout : float, optional
            Seconds for all of them, from the first that is asked for.

        Raises
        ------
        TimeoutError
            Some are not done in time.
        """
        waiting = list(scorings)
        until = None if timeout is None else time.monotonic() + timeout
        while waiting:
            over = [scoring for scoring in waiting if scoring.done()]
            waiting = [scoring for scoring in waiting if scoring not in over]
            yield from over
            if waiting and not over:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"{len(waiting)} submissions are not scored after {timeout} s")
                waiting[0]._call(10)

    def close(self) -> None:
        """Close the connection after the calls that use it. Patches under way are forgotten. Closing twice is allowed."""
        self._handle = None

    def __reduce__(self) -> Any:
        return _connect_again, (self.broker, self._options)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<wiremill.Client {self.broker!r}: {' x '.join(map(str, self.shape))} -> {', '.join(self.labels[:8])}>"
