"""_library.py - libwiremill by ctypes: where it lies, the types of its functions (ops/lib/wiremill.h).

The wheel has it in lib/. WIREMILL_LIBRARY names another one.
"""
from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
from typing import Any


class Error(ctypes.Structure):
    """wiremill_error_t."""

    _fields_ = [("fault", ctypes.c_int32), ("text", ctypes.c_char * 508)]


class Options(ctypes.Structure):
    """wiremill_options_t."""

    _fields_ = [("size", ctypes.c_size_t), ("engine", ctypes.c_char_p), ("precision", ctypes.c_char_p),
                ("outputs", ctypes.c_char_p), ("threads", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class ConnectOptions(ctypes.Structure):
    """wiremill_connect_options_t."""

    _fields_ = [("size", ctypes.c_size_t), ("join_file", ctypes.c_char_p), ("patience_ms", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("memory", ctypes.c_size_t), ("helper", ctypes.c_char_p)]


_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
_OURS = "synthetic"   # the network that comes with wiremill, as `wiremill run` names it
_HOST = 4   # WIREMILL_HOST
# What our engines link, in the packages that have it.
_LINKED = {"openvino": "libs/libopenvino_c.so.*", "onnxruntime": "capi/libonnxruntime.so.*"}
_looked_for: set[str] = set()


def _path() -> str:
    return os.environ.get("WIREMILL_LIBRARY") or os.path.join(_HERE, "libwiremill.so.1")


def _load() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as why:
        raise ImportError(f"libwiremill cannot be loaded: {why}; install the wheel of this machine's kind (x86-64 Linux, "
                          "glibc 2.34 or newer), or set WIREMILL_LIBRARY to a libwiremill.so.1") from None
    size, text, handle = ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    types: dict[str, tuple[Any, list[Any]]] = {
        "wiremill_version": (text, []),
        "wiremill_status_text": (text, [ctypes.c_uint8]),
        "wiremill_open": (handle, [text, ctypes.POINTER(Options), ctypes.POINTER(Error)]),
        "wiremill_close": (None, [ctypes.POINTER(handle)]),
        "wiremill_n_value": (size, [handle]),
        "wiremill_n_output": (size, [handle]),
        "wiremill_shape": (ctypes.c_uint32, [handle, ctypes.POINTER(ctypes.c_uint32)]),
        "wiremill_label": (text, [handle, size]),
        "wiremill_signature": (text, [handle]),
        "wiremill_sha256": (text, [handle]),
        "wiremill_score": (ctypes.c_int, [handle, handle, size, size, handle, handle, ctypes.POINTER(Error)]),
        "wiremill_connect": (handle, [text, ctypes.POINTER(ConnectOptions), ctypes.POINTER(Error)]),
        "wiremill_client_close": (None, [ctypes.POINTER(handle)]),
        "wiremill_client_n_value": (size, [handle]),
        "wiremill_client_n_output": (size, [handle]),
        "wiremill_client_shape": (ctypes.c_uint32, [handle, ctypes.POINTER(ctypes.c_uint32)]),
        "wiremill_client_label": (text, [handle, size]),
        "wiremill_client_sha256": (text, [handle]),
        "wiremill_submit": (ctypes.c_int, [handle, handle, size, size, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
                                           ctypes.POINTER(Error)]),
        "wiremill_poll": (ctypes.c_int, [handle, ctypes.c_uint64, ctypes.POINTER(size), ctypes.POINTER(Error)]),
        "wiremill_wait": (ctypes.c_int, [handle, ctypes.c_uint64, ctypes.c_int, handle, handle, ctypes.POINTER(Error)]),
        "wiremill_forget": (None, [handle, ctypes.c_uint64]),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


call = _load()


class Handle:
    """An open model or client of the library; closed when nothing refers to it any more. There is no lock, because of fork."""

    def __init__(self, pointer: int, close: Any) -> None:
        self.pointer, self._close = pointer, close

    def __reduce__(self) -> Any:
        raise TypeError("an open handle of libwiremill cannot be copied")

    def __del__(self) -> None:
        self._close(ctypes.byref(ctypes.c_void_p(self.pointer)))


def model_path(given: str) -> str:
    """The path of a model; "synthetic", where there is no such file, is the network that comes with the library."""
    if given != _OURS or os.path.exists(given):
        return given
    lib = os.path.dirname(os.path.abspath(_path()))
    ours = [os.path.join(lib, f"{_OURS}.onnx"), os.path.join(os.path.dirname(lib), "share", "wiremill", f"{_OURS}.onnx")]
    return next(filter(os.path.exists, ours), given)


def labels(label: Any, handle: Any, n: int) -> list[str]:
    """The names of n scores by wiremill_label, or wiremill_client_label; none of an image."""
    return [label(handle, i).decode() for i in range(n)] if label(handle, 0) else []


def beside(name: str) -> str:
    """The path of a file that lies beside the library."""
    return os.path.join(os.path.dirname(os.path.abspath(_path())), name)


def version() -> str:
    """The library's version."""
    return str(call.wiremill_version(), "ascii")


def _load_package(name: str) -> bool:
    """Loads the library of a package, if it is installed: our engine then finds it by its name. True once."""
    spec = None if name in _looked_for else importlib.util.find_spec(name)
    _looked_for.add(name)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in glob.glob(os.path.join(folder, _LINKED[name])):
            try:
                ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
                return True
            except OSError:
                pass
    return False


def open(path: bytes, options: Options, error: Error) -> Any:
    """wiremill_open; where an engine is missing, once more with the packages. An import goes on without onnxruntime."""
    if not path.endswith(b".wmm"):
        _load_package("onnxruntime")
    handle = call.wiremill_open(path, options, error)
    if not handle and error.fault == _HOST and any([_load_package(name) for name in _LINKED]):
        handle = call.wiremill_open(path, options, error)
    return handle
