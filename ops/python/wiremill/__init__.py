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
from ._error import WiremillError, raised
from ._files import RunError, Scores, read, run

__all__ = ["Client", "Model", "RunError", "Scores", "Scoring", "WiremillError", "read", "run", "score", "status_text",
           "SCORED", "BAD_PIXEL", "POISON", "HELD", "NONFINITE"]
__version__ = _library.version()

SCORED = 0      #: the patch was scored
BAD_PIXEL = 3   #: the patch holds a NaN or an infinity: its scores are NaN
POISON = 4      #: by a broker: the patch kills the engine
HELD = 5        #: the call failed, or the broker gave the patch up
NONFINITE = 6   #: the model gave a NaN: all scores of the patch are NaN

Path = Union[str, "os.PathLike[str]"]


def status_text(status: int) -> str:
    """What a status means: "scored", "bad pixel", ..."""
    return str(_library.call.wiremill_status_text(int(status)), "ascii")


def _open_again(path: str, options: dict[str, Any]) -> Model:
    return Model(path, **options)


class Model:
    """An open model. Any number of threads may call `score` at once; the interpreter's lock is released meanwhile.

    path: the model's file. An .onnx or .pb is imported first; a .wmm, which `wiremill import` makes, opens at once.
    precision: "fp32"; "split" and "fast" take faster arithmetic where it is within 1e-5 and 5e-3 of fp32 on the model's
        known answers (your patches are not looked at for that).
    engine: "auto", "sparse", "openvino", "onnxruntime", "cuda", "cudnn" or "reference".
    threads: 1: each call computes in the thread that calls, and handles work in forked children, too (a Model that is
        pickled or copied, as for a spawned process, opens its file again). More: threads of the
        handle, calls take turns.
    outputs: names of an .onnx or .pb's outputs with commas between; all of them by default.

    Raises FileNotFoundError, or WiremillError.
    """

    def __init__(self, path: Path, *, precision: str = "fp32", engine: str = "auto", threads: int = 1,
                 outputs: Optional[str] = None) -> None:
        self._handle: Optional[_library.Handle] = None
        self.path: str = os.fspath(path)
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
        self.labels: list[str] = [call.wiremill_label(opened, i).decode() for i in range(self.n_output)]
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
        """Scores patches.

        patches: (n, *shape) or (n, n_value); dimensions of size 1 do not count. Pixels as the network was trained (the
            scale of `wiremill cut`). float32 in C order is taken as it is, anything else is converted first.
        status: also return what became of each patch.
        progress: called with the number of patches that are scored, and of all, after every some thousand; Ctrl-C is served
            then, too.

        Returns scores (n, n_output) float32, columns as in `labels`; with status=True also status (n,) uint8: SCORED,
        BAD_PIXEL or NONFINITE. The scores of a patch that was not scored are NaN.
        Raises ValueError where the shape is not the model's, WiremillError where the engine fails.
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
        """Closes the model; calls of other threads end first. Closing twice is allowed."""
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
    """Scores patches (n, wires, drift bins) by a model, and returns (n, n_output) float32.

    model: a path, which is opened for this call (see Model for its options), or an open Model, whose own options hold.
    A patch that holds a NaN or an infinity gets NaN scores. Raises as Model and Model.score.
    """
    if isinstance(model, Model):
        return model.score(patches)
    with Model(model, precision=precision, engine=engine, threads=threads) as opened:
        return opened.score(patches)
