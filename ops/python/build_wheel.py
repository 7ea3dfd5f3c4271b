"""build_wheel.py - makes the wheel of ops/python from a bundle: `make wheel`. Needs the standard library only.

usage: build_wheel.py BUNDLE VERSION WHEEL.whl

In the wheel: the package, in wiremill/lib/ libwiremill with what it links (but for the C library), the engines that call
OpenVINO and ONNX Runtime (whose libraries come with the packages openvino and onnxruntime), the network that comes with
wiremill, and the licence of each library. The same bundle gives the same bytes.

What libwiremill links gets names of its own, wm_crypto.so.3 for libcrypto.so.3: a process has one library of a name, and
the one that Python's ssl needs may be newer than ours, or older.
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
Provides-Extra: pandas
Requires-Dist: h5py; extra == "pandas"
Requires-Dist: pandas; extra == "pandas"
Provides-Extra: arrow
Requires-Dist: h5py; extra == "arrow"
Requires-Dist: pyarrow; extra == "arrow"
Provides-Extra: plot
Requires-Dist: h5py; extra == "plot"
Requires-Dist: matplotlib; extra == "plot"
Provides-Extra: root
Requires-Dist: h5py; extra == "root"
Requires-Dist: uproot >=4.3; extra == "root"
Provides-Extra: openvino
Requires-Dist: openvino =={openvino}; extra == "openvino"
Provides-Extra: onnxruntime
Requires-Dist: onnxruntime =={onnxruntime}; extra == "onnxruntime"
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


def own(name):
    """The name in the wheel of a library, of the same length."""
    return re.sub("^lib", "wm_", name)


def renamed(data, names):
    """A shared object whose own name, and those of what it links, are the wheel's."""
    for name in names:
        data = data.replace(b"\0" + name.encode() + b"\0", b"\0" + own(name).encode() + b"\0")
    return data


def contents(bundle, version, platform):
    """The files of the wheel: (name, bytes)."""
    info, lib = f"wiremill-{version}.dist-info", os.path.join(bundle, "sdk", "lib")
    for name in sorted(name for name in os.listdir(os.path.join(HERE, "wiremill")) if name.endswith((".py", ".typed"))):
        yield f"wiremill/{name}", read(HERE, "wiremill", name)
    linked = sorted(os.listdir(os.path.join(lib, "wiremill")))
    yield "wiremill/lib/libwiremill.so.1", renamed(read(lib, "libwiremill.so.1"), linked)
    for name in linked:
        yield f"wiremill/lib/wiremill/{own(name)}", renamed(read(lib, "wiremill", name), linked)
    for name in ("wm_openvino.so", "wm_onnxruntime.so"):
        if os.path.exists(os.path.join(lib, name)):
            yield f"wiremill/lib/{name}", renamed(read(lib, name), linked)
    if os.path.exists(os.path.join(lib, "wm_python.so")):   # `python -m wiremill plugin` copies it
        yield "wiremill/lib/wm_python.so", read(lib, "wm_python.so")
    yield "wiremill/lib/synthetic.onnx", read(bundle, "share", "wiremill", "synthetic.onnx")
    licences = dict(line.split(" ", 1) for line in read(bundle, "licenses", "files").decode().splitlines())
    for package in sorted({"wiremill", "libonnx-dev"} | {licences[f"lib/{name}"] for name in linked}):
        yield f"{info}/licenses/{package}.txt", read(bundle, "licenses", f"{package}.txt")
    text = re.search(r'"""\S+ - (.*?)"""', read(HERE, "wiremill", "__init__.py").decode(), re.S)[1].strip()
    with open(os.path.join(HERE, "..", "..", "kernels", "engines.mk")) as f:
        engines = {name.lower(): number for name, number in re.findall(r"(?m)^(OPENVINO|ONNXRUNTIME)_VERSION := (\S+)", f.read())}
    yield f"{info}/METADATA", METADATA.format(version=version, text=text, **engines).encode()
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
