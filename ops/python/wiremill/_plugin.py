"""_plugin.py - makes a plug-in of a Python file: the shared object wm_python.so, and behind it a zip archive that Python runs.

Needs the standard library only: the Makefile runs it as `_plugin.py SHIM.so SOURCE.py OUT.so`. The same files give the same bytes.
"""
from __future__ import annotations

import ast
import io
import json
import os
import sys
import zipfile

_SOURCE = "wiremill_engine_source"   # as in _engine.py
_HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_engine.py")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def make(shim: str, source: str, output: str, force: bool = False) -> None:
    """Writes the plug-in of a Python file. ValueError: the file is no Python."""
    if os.path.exists(output) and not force:
        raise FileExistsError(17, "It is there already; force replaces it", output)
    code = _read(source)
    try:
        ast.parse(code, source)
    except SyntaxError as why:
        raise ValueError(f"{source}:{why.lineno}: {why.msg}") from None
    behind = io.BytesIO()
    with zipfile.ZipFile(behind, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in (("__main__.py", _read(_HOST)), (f"{_SOURCE}.py", code)):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    part = f"{output}.{os.getpid()}.part"
    try:
        with open(part, "xb") as file:
            file.write(_read(shim) + behind.getvalue())
        os.chmod(part, 0o755)
        os.replace(part, output)
    finally:
        if os.path.exists(part):
            os.remove(part)


def state_shape(model: str, shapes: list[tuple[int, ...]]) -> None:
    """Writes the shapes of its inputs into a file of torch.jit.save, which is a zip archive.

    ValueError: the file is no such archive, or has the shapes already.
    """
    try:
        with zipfile.ZipFile(model, "a", zipfile.ZIP_STORED) as archive:
            top = {name.split("/")[0] for name in archive.namelist()}
            if len(top) != 1 or f"{next(iter(top))}/constants.pkl" not in archive.namelist():
                raise ValueError(f"{model} is no TorchScript file of torch.jit.save")
            place = f"{top.pop()}/extra/wiremill.json"
            if place in archive.namelist():
                raise ValueError(f"{model} states its shape already: {archive.read(place).decode()}")
            archive.writestr(zipfile.ZipInfo(place, (2026, 1, 1, 0, 0, 0)), json.dumps({"inputs": shapes}))
    except zipfile.BadZipFile:
        raise ValueError(f"{model} is no TorchScript file of torch.jit.save") from None


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2], sys.argv[3], force=True)
