"""__init__.py - wiremill in Python: scores patches of wire-readout detectors by a CNN, in this process or by a broker.

    import wiremill
    scores = wiremill.score("model.onnx", patches)          # (n, n_output), float32

    with wiremill.Model("model.wmm") as model:              # for more than one call
        scores, status = model.score(patches, status=True)
        print(model.labels, model.signature)

    with wiremill.Client("tcp://head:5555") as client:      # by the workers of `wiremill broker --clients`
        scores = client.score(patches)

    for output in wiremill.run("model.onnx", "events-*.h5", "out"):     # whole files, by the program wiremill
        hits = wiremill.read(output)                        # columns, labels, scores; needs h5py
        wiremill.show(output, event="1:1:7")                # its picture, in a notebook

    wiremill.convert("events.h5", planes="magnify.root", hits="reco.root:hits")     # ROOT files; needs h5py and uproot

A model is an ONNX file, a TensorFlow frozen graph (.pb), or a .wmm of `wiremill import`. Scores have the bits that
`wiremill run` writes. Models of other families than EmTrkMichelId run on OpenVINO and are checked by ONNX Runtime when they are
imported: `pip install openvino onnxruntime` of the versions that wiremill's extras name.
"""
from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Any, Literal, Optional, Union, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _library, _patches
from ._client import Client, Scoring
from ._convert import Converted, convert
from ._engine import engine
from ._error import WiremillError, raised
from ._files import RunError, Scores, read, run, show
from ._pictures import Page

__all__ = ["Client", "Converted", "Model", "Page", "RunError", "Scores", "Scoring", "WiremillError", "convert", "engine", "read",
           "run", "score", "show", "status_text", "SCORED", "BAD_PIXEL", "POISON", "HELD", "NONFINITE"]
__version__ = _library.version()

SCORED = 0      #: the patch was scored
BAD_PIXEL = 3   #: the patch holds a NaN or an infinity: its scores are NaN
POISON = 4      #: by a broker: the patch kills the engine
HELD = 5        #: the call failed, or the broker gave the patch up
NONFINITE = 6   #: the model gave a NaN: all scores of the patch are NaN

Path = Union[str, "os.PathLike[str]"]


def __dir__() -> list[str]:
    return sorted([*__all__, "__all__", "__doc__", "__version__"])


def status_text(status: int) -> str:
    """Return the meaning of a status, such as "bad pixel".

    Parameters
    ----------
    status : int
        As `Model.score` returns it, or the column `status` of an output has it.

    Examples
    --------
    >>> wiremill.status_text(wiremill.BAD_PIXEL)
    'bad pixel'
    """
    return str(_library.call.wiremill_status_text(int(status)), "ascii")


def _open_again(path: str, options: dict[str, Any]) -> Model:
    return Model(path, **options)


class Model:
    """A model that is open for many calls.

    Any number of threads may call `score` at once; the interpreter's lock is released during the call. A model that is pickled
    or copied opens its file again.

    Parameters
    ----------
    path : path
        The model's file. An .onnx or .pb is imported first; a .wmm, which `wiremill import` makes, opens at once. "synthetic" is
        the network that comes with wiremill, trained on events of `wiremill synth`.
    precision : {"fp32", "split", "fast"}
        "split" and "fast" take faster arithmetic if it is within 1e-5 and 5e-3 of fp32 on the model's known answers. Your own
        patches are not measured.
    engine : str
        "auto", "sparse", "openvino", "onnxruntime", "cuda", "cudnn" or "reference".
    threads : int
        1: each call computes in the thread that calls, also in forked children. More: the model has threads of its own, and
        calls take turns.
    outputs : str, optional
        Names of outputs of an .onnx or .pb, separated by commas. All of them by default.

    Attributes
    ----------
    shape : tuple of int
        A patch, (wires, drift bins); several channels in the model's own order. Dimensions of size 1 are left out.
    n_value : int
        float32 values of a patch.
    n_output : int
        Scores of a patch.
    labels : list of str
        Their names, as `wiremill run` names its columns. Empty if there are more than 1,024 scores, which are an image.
    signature : str
        Engine and arithmetic. Scores of one signature are equal bit for bit.
    sha256 : str
        SHA-256 of the model's file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    WiremillError
        The file is damaged, or no engine runs the model here.

    Examples
    --------
    >>> with wiremill.Model("model.onnx") as model:
    ...     print(model.shape, model.n_output)
    (48, 48) 4
    >>> wiremill.Model("synthetic").labels
    ['track', 'em', 'none', 'michel']
    """

    def __init__(self, path: Path, *, precision: str = "fp32", engine: str = "auto", threads: int = 1,
                 outputs: Optional[str] = None) -> None:
        self._handle: Optional[_library.Handle] = None
        self.path: str = _library.model_path(os.fspath(path))
        if not os.path.exists(self.path):
            raise FileNotFoundError(2, "No such file", self.path)
        if not 1 <= threads < 2**32:   # the library refuses more than 256
            raise ValueError(f"threads is {threads}; there are 1 to 256")
        self._options: dict[str, Any] = {"precision": precision, "engine": engine, "threads": threads, "outputs": outputs}
        options = _library.Options(ctypes.sizeof(_library.Options), engine.encode(), precision.encode(),
                                   None if outputs is None else outputs.encode(), threads, 0)
        error = _library.Error()
        opened = _library.open(os.fsencode(self.path), options, error)
        if not opened:
            raise raised(error)
        self._handle = _library.Handle(opened, _library.call.wiremill_close)
        call, dim = _library.call, (ctypes.c_uint32 * 6)()
        n_dim = call.wiremill_shape(opened, dim)
        #: (wires, drift bins) of a patch; several channels in the model's own order. Dimensions of size 1 are left out.
        self.shape: tuple[int, ...] = tuple(dim[:n_dim])
        #: float32 values of a patch.
        self.n_value: int = call.wiremill_n_value(opened)
        #: Scores of a patch.
        self.n_output: int = call.wiremill_n_output(opened)
        #: Their names, as `wiremill run` names its columns.
        self.labels: list[str] = _library.labels(call.wiremill_label, opened, self.n_output)
        #: Engine and arithmetic: scores of one signature are equal bit for bit.
        self.signature: str = call.wiremill_signature(opened).decode()
        #: SHA-256 of the model's file.
        self.sha256: str = call.wiremill_sha256(opened).decode()

    @overload
    def score(self, patches: ArrayLike, *, status: Literal[False] = False, progress: Optional[_patches.Progress] = None
              ) -> NDArray[np.float32]: ...

    @overload
    def score(self, patches: ArrayLike, *, status: Literal[True], progress: Optional[_patches.Progress] = None
              ) -> tuple[NDArray[np.float32], NDArray[np.uint8]]: ...

    def score(self, patches: ArrayLike, *, status: bool = False, progress: Optional[_patches.Progress] = None) -> Any:
        """Score patches.

        Parameters
        ----------
        patches : array_like
            (n, ...) with the model's `shape`, or (n, n_value); dimensions of size 1 do not count. Pixels are on the scale of the
            training, as `wiremill cut` writes them. float32 in C order is used as it is, anything else is converted first.
        status : bool
            Also return the status of each patch.
        progress : callable, optional
            Called after every few thousand patches with the number that are scored, and the number of all.

        Returns
        -------
        scores : ndarray of float32
            (n, n_output), columns as in `labels`. Scores of a patch that was not scored are NaN.
        status : ndarray of uint8
            (n,), only with ``status=True``: `SCORED`, `BAD_PIXEL` or `NONFINITE`.

        Raises
        ------
        ValueError
            The shape does not fit the model.
        WiremillError
            The engine failed.

        Examples
        --------
        >>> patches = np.zeros((2, 48, 48), dtype=np.float32)
        >>> patches[1, 0, 0] = np.nan
        >>> with wiremill.Model("model.onnx") as model:
        ...     scores, status = model.score(patches, status=True)
        >>> [wiremill.status_text(s) for s in status]
        ['scored', 'bad pixel']
        """
        rows = _patches.as_rows(patches, self.shape, self.n_value)
        n = rows.shape[0]
        scores = np.empty((n, self.n_output), np.float32)
        became = np.empty(n, np.uint8)
        error = _library.Error()
        handle = self._handle   # keeps it open during the call
        if handle is None:
            raise ValueError(f"{self.path}: the model is closed")
        for piece in _patches.pieces(n):
            fault = _library.call.wiremill_score(handle.pointer, rows[piece].ctypes.data, piece.stop - piece.start,
                                                 self.n_value, scores[piece].ctypes.data, became[piece].ctypes.data, error)
            if fault:
                raise raised(error)
            _patches.tell(progress, piece.stop, n)
        return (scores, became) if status else scores

    def close(self) -> None:
        """Close the model, after the calls of other threads have ended. Closing twice is allowed."""
        self._handle = None

    def __reduce__(self) -> Any:
        if self._handle is None:
            raise ValueError(f"{self.path}: the model is closed")
        return _open_again, (os.path.abspath(self.path), self._options)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<wiremill.Model {self.path!r}: {' x '.join(map(str, self.shape))} -> {', '.join(self.labels[:8])}>"


def score(model: Union[Path, Model], patches: ArrayLike, *, precision: str = "fp32", engine: str = "auto", threads: int = 1
          ) -> NDArray[np.float32]:
    """Score patches by a model, in this process.

    Parameters
    ----------
    model : path or Model
        A path is opened for this call, with the options below; an open model keeps its own.
    patches : array_like
        (n, wires, drift bins), see `Model.score`.
    precision, engine, threads
        See `Model`.

    Returns
    -------
    ndarray of float32
        (n, n_output). A patch that holds a NaN or an infinity has NaN scores.

    Raises
    ------
    FileNotFoundError, ValueError, WiremillError
        As `Model` and `Model.score`.

    Examples
    --------
    >>> scores = wiremill.score("model.onnx", np.zeros((3, 48, 48), dtype=np.float32))
    >>> scores.shape
    (3, 4)
    """
    if isinstance(model, Model):
        return model.score(patches)
    with Model(model, precision=precision, engine=engine, threads=threads) as opened:
        return opened.score(patches)
