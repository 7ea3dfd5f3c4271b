"""build_wheel.py - makes the wheel of ops/python from a bundle: `make wheel`. Needs the standard library only.

usage: build_wheel.py BUNDLE VERSION WHEEL.whl

In the wheel: the package, in wiremill/lib/ libwiremill with what it links (but for the C library), the engine that calls
OpenVINO (whose libraries come with the package openvino), and the licence of each. The same bundle gives the same bytes.
"""
import base64
import hashlib
import os
import re
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
METADATA = """Metadata-Version: 2.1
Name: wiremill
Version: {version}
Summary: Scores patches of wire-readout detectors by a CNN
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: read
Requires-Dist: h5py; extra == "read"
Provides-Extra: openvino
Requires-Dist: openvino =={openvino}; extra == "openvino"
Description-Content-Type: text/plain

{text}
"""
WHEEL = """Wheel-Version: 1.0
Generator: wiremill
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def contents(bundle, version, platform):
    """The files of the wheel: (name, bytes)."""
    info, lib = f"wiremill-{version}.dist-info", os.path.join(bundle, "sdk", "lib")
    for name in ("__init__.py", "_files.py", "_library.py", "py.typed"):
        yield f"wiremill/{name}", read(HERE, "wiremill", name)
    yield "wiremill/lib/libwiremill.so.1", read(lib, "libwiremill.so.1")
    linked = sorted(os.listdir(os.path.join(lib, "wiremill")))
    for name in linked:
        yield f"wiremill/lib/wiremill/{name}", read(lib, "wiremill", name)
    if os.path.exists(os.path.join(lib, "wm_openvino.so")):
        yield "wiremill/lib/wm_openvino.so", read(lib, "wm_openvino.so")
    licences = dict(line.split(" ", 1) for line in read(bundle, "licenses", "files").decode().splitlines())
    for package in sorted({"wiremill", "libonnx-dev"} | {licences[f"lib/{name}"] for name in linked}):
        yield f"{info}/licenses/{package}.txt", read(bundle, "licenses", f"{package}.txt")
    text = re.search(r'"""\S+ - (.*?)"""', read(HERE, "wiremill", "__init__.py").decode(), re.S)[1].strip()
    with open(os.path.join(HERE, "..", "..", "Makefile")) as f:
        openvino = re.search(r"(?m)^OPENVINO_VERSION := (\S+)", f.read())[1]
    yield f"{info}/METADATA", METADATA.format(version=version, openvino=openvino, text=text).encode()
    yield f"{info}/WHEEL", WHEEL.format(platform=platform).encode()


def main(bundle, version, path):
    platform = re.search(r"-py3-none-(\w+)\.whl$", path)[1]
    record = f"wiremill-{version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            wheel.writestr(entry, data)

        for name, data in contents(bundle, version, platform):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data)
        add(record, ("".join(lines) + f"{record},,\n").encode())
    os.replace(path + ".part", path)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
