"""_engine.py - an engine in Python: the decorator, and the process that scores by it.

A plug-in of `python -m wiremill plugin` has this file as its __main__.py, beside the engine's: it needs NumPy, and of wiremill
nothing but itself.
"""
from __future__ import annotations

import os
import signal
import struct
import sys
import types
from typing import Any, Callable, Mapping, Optional, Sequence, Union

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:
    if __name__ != "__main__":
        raise
    text = f"NumPy is not in {sys.executable}: pip install numpy, or WIREMILL_PYTHON=PYTHON that has it".encode()[:255]
    os.write(3, struct.pack("=2IQ", 1, 0, len(text)) + text)   # as _serve does
    sys.exit(1)

Shapes = Mapping[str, Sequence[int]]
_FD, _DESCRIBE, _SCORE = 3, 1, 2            # ops/python/shim/wm_python.c
_TENSORS, _DIMS, _ERROR = 16, 6, 255        # gpuworker/wiremill_engine.h
_CONCURRENT, _SAME_BITS = 1, 2
SOURCE = "wiremill_engine_source"           # the module of the engine


class _Engine:
    """What the decorator was given."""

    def __init__(self, function: Callable[..., Any], inputs: Any, outputs: Any, load: Any, name: str, version: str, same_bits: bool,
                 batch: bool) -> None:
        self.function, self.inputs, self.outputs, self.load = function, inputs, outputs, load
        self.name, self.version, self.same_bits, self.batch = name, version, same_bits, batch
        self.given: tuple[Any, ...] = ()
        self.shapes: tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]] = ({}, {})

    def open(self, model: str) -> None:
        if self.load is not None:
            self.given = (self.load(model),)
        elif model:
            raise ValueError("this engine takes no --model")
        inputs, outputs = ({name: tuple(map(int, shape)) for name, shape in
                            (given(*self.given) if callable(given) else given).items()} for given in (self.inputs, self.outputs))
        for shapes in inputs, outputs:
            if not 1 <= len(shapes) <= _TENSORS or any(len(shape) > _DIMS for shape in shapes.values()):
                raise ValueError(f"an engine has 1 to {_TENSORS} inputs and outputs, of {_DIMS} dimensions at most")
        self.shapes = inputs, outputs

    def describe(self) -> bytes:
        def tensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
            return b"".join(struct.pack("=64s7I", name.encode()[:63], len(shape), *shape, *[0] * (_DIMS - len(shape)))
                            for name, shape in shapes.items()).ljust(_TENSORS * 92, b"\0")

        return struct.pack("=32s32s3I", self.name.encode()[:31], self.version.encode()[:31],
                           _CONCURRENT | (_SAME_BITS if self.same_bits else 0), *map(len, self.shapes)) + \
            tensors(self.shapes[0]) + tensors(self.shapes[1])

    def score(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, values of the inputs) to (n, values of the outputs)."""
        inputs, at = [], 0
        for shape in self.shapes[0].values():
            n = int(np.prod(shape, dtype=int))
            inputs.append(rows[:, at:at + n].reshape(len(rows), *shape))
            at += n
        if self.batch:
            return self._flat(self.function(*self.given, *inputs), len(rows))
        return np.concatenate([self._flat(self.function(*self.given, *(given[i] for given in inputs)), 1) for i in range(len(rows))])

    def _flat(self, answer: Any, n: int) -> NDArray[np.float32]:
        """An answer to n rows, checked against the shapes of the outputs."""
        shapes = self.shapes[1]
        if isinstance(answer, dict):
            answer = tuple(answer[name] for name in shapes)
        parts = list(answer) if isinstance(answer, tuple) or (isinstance(answer, list) and len(shapes) > 1) else [answer]
        if len(parts) != len(shapes):
            raise ValueError(f"{len(parts)} outputs; the engine has {len(shapes)}")
        flat = []
        for part, (name, shape) in zip(parts, shapes.items()):
            values = np.asarray(part, np.float32)
            if values.shape != ((n, *shape) if self.batch else shape):
                raise ValueError(f"the output {name} is {values.shape}; it must be {((n, *shape) if self.batch else shape)}")
            flat.append(values.reshape(n, -1))
        return np.concatenate(flat, axis=1)


def engine(*, inputs: Union[Shapes, Callable[[Any], Shapes]], outputs: Union[Shapes, Callable[[Any], Shapes]],
           load: Optional[Callable[[str], Any]] = None, name: str = "", version: str = "1", same_bits: bool = False, batch: bool = False
           ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an engine of a function; ``python -m wiremill plugin FILE.py`` makes a plug-in of its file.

    The function takes the inputs of one row as float32 arrays, in their order, and returns the outputs: an array, or a tuple or
    dictionary of several. It must depend on this row alone.

    Parameters
    ----------
    inputs, outputs : dict of str to tuple of int
        Names and shapes, without the rows; ``()`` is one value. Or a function of what `load` returned.
    load : callable, optional
        Called once in each process with the path of ``--model`` ("" if none is given). What it returns is the first argument of the
        function.
    name, version : str
        For people: what outputs and messages name.
    same_bits : bool
        A promise: the same row has the same bits on every machine.
    batch : bool
        The function takes all rows of a call, arrays (n, ...), and returns (n, ...). The answer to a row must have the same bits
        in every grouping, which is checked.

    Examples
    --------
    >>> @wiremill.engine(inputs={"waveform": (200,)}, outputs={"peak": (), "sum": ()})
    ... def hit(waveform):
    ...     return waveform.max(), waveform.sum()
    """
    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, "_wiremill_engine", _Engine(function, inputs, outputs, load, name or function.__name__, version, same_bits, batch))
        return function

    return made


def _found() -> _Engine:
    """The engine of the module beside this one. It may import wiremill, which need not be installed."""
    try:
        import wiremill  # noqa: F401
    except ImportError:
        stub = types.ModuleType("wiremill")
        setattr(stub, "engine", engine)
        sys.modules["wiremill"] = stub
    module = __import__(SOURCE)
    engines = {id(value._wiremill_engine): value._wiremill_engine for value in vars(module).values() if hasattr(value, "_wiremill_engine")}
    if len(engines) != 1:
        raise ValueError(f"the file has {len(engines)} engines; it must have one function with @wiremill.engine")
    found: Any = next(iter(engines.values()))
    made = _Engine.__new__(_Engine)    # of this file's class, whatever wiremill is installed
    made.__dict__.update(found.__dict__)
    return made


def _reason(why: BaseException) -> bytes:
    last = why.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f", line {last.tb_lineno} of {os.path.basename(last.tb_frame.f_code.co_filename)}" if last else ""
    return f"{type(why).__name__}: {why}{where}".replace("\n", " ").encode()[:_ERROR]


def _serve() -> None:
    """Answers requests until the socket ends."""
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    opened: Optional[_Engine] = None
    with open(_FD, "rb", buffering=1 << 16, closefd=False) as requests, open(_FD, "wb", buffering=0, closefd=False) as answers:
        while len(head := requests.read(8)) == 8:
            kind, n = struct.unpack("=2I", head)
            try:
                if opened is None:
                    opened = _found()
                    opened.open(sys.argv[1])
                n_value = sum(int(np.prod(shape, dtype=int)) for shape in opened.shapes[0].values())
                data = bytearray(n * n_value * 4 if kind == _SCORE else 0)   # which the engine may write
                if requests.readinto(data) != len(data):
                    return
                answer = opened.describe() if kind == _DESCRIBE else opened.score(np.frombuffer(data, np.float32).reshape(n, n_value)).tobytes()
                bad = 0
            except SystemExit as why:   # sys.exit ("why it cannot work here")
                bad, answer = 1, str(why).encode()[:_ERROR]
            except Exception as why:   # whatever the engine's code raises
                bad, answer = 1, _reason(why)
            whole = memoryview(struct.pack("=2IQ", bad, 0, len(answer)) + answer)
            while whole:
                whole = whole[answers.write(whole):]


if __name__ == "__main__":
    _serve()
