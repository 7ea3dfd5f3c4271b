"""reasons.py - ready patches in HDF5 files that wiremill cannot read as they are, and what it is to do about each.

make FOLDER SIZE           six patches of SIZE x SIZE in each file; prints a line a file: name, what the message has
cure FOLDER TEXT           does for each file what its message in TEXT tells to type; prints what it cannot do here
same FOLDER                each FOLDER/*.scores.h5 has the scores of good.scores.h5
"""
import os
import re
import shutil
import signal
import subprocess
import sys

import h5py
import numpy as np

NEW = tuple(int(part) for part in h5py.version.hdf5_version.split(".")[:2]) >= (2, 0)
KILLED = """
import h5py, numpy, os, signal, sys
f = h5py.File(sys.argv[1], "w", libver=("v110", "v110"))
x = numpy.load(sys.argv[2])
f.create_dataset("x", data=x, chunks=(2, *x.shape[1:]), maxshape=(None, *x.shape[1:]))
if int(sys.argv[3]):
    f.swmr_mode = True
f.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def native_float(h5, name, x):
    """bfloat16 as HDF5 2.0 has it: a float of 2 bytes that is not IEEE's half; read as any float."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    space = h5py.h5s.create_simple(x.shape)
    h5py.h5d.create(h5.id, name, kind, space).write(space, space, x)


def make(folder, size):
    x = np.random.default_rng(3).integers(0, 64, (6, size, size)).astype("f4")
    at = lambda name: os.path.join(folder, name)
    wanted = {}

    def file(name, says, write, **how):
        with h5py.File(at(name), "w", **how) as h5:
            write(h5)
        if says:
            wanted[name] = says

    whole = lambda h5: h5.create_dataset("x", data=x)
    packed = lambda h5: h5.create_dataset("x", data=x, chunks=(2, size, size), compression="gzip")
    file("good.h5", None, whole)
    file("block.h5", None, whole, userblock_size=1024)
    file("bfloat.h5", None, lambda h5: native_float(h5, b"x", x))
    if NEW:
        file("latest.h5", r'newer format .* than this HDF5 .*libver=\("earliest", "v110"\)', packed, libver="latest")
        file("low.h5", r'newer format .* than this HDF5 .*libver=\("earliest", "v110"\)', packed, libver=("v200", "v200"))
    file("lzf.h5", r"number 32000 \(lzf\)", lambda h5: h5.create_dataset("x", data=x, compression="lzf"))
    file("bool.h5", "an enum .*store it as uint8", lambda h5: h5.create_dataset("x", data=x > 30))
    file("complex.h5", "a compound .*each part", lambda h5: h5.create_dataset("x", data=x.astype("c8")))
    file("wide.h5", "floats of more than 8 bytes; store it as float64",
         lambda h5: h5.create_dataset("x", data=x.astype(np.longdouble)))
    np.save(at("x.npy"), x)
    for name, swmr in (("killed.h5", "0"), ("swmr.h5", "1")):
        done = subprocess.run([sys.executable, "-c", KILLED, at(name), at("x.npy"), swmr], check=False)
        assert done.returncode == -signal.SIGKILL
        wanted[name] = "open still, or was killed"
    os.remove(at("x.npy"))
    with open(at("good.h5"), "rb") as good, open(at("short.h5"), "wb") as short:
        bytes_all = good.read()
        short.write(bytes_all[:2000])
    wanted["short.h5"] = f"truncated: it has 2000 bytes of {len(bytes_all)}"
    with h5py.File(at("apart.raw"), "w") as h5:
        h5["x"] = x
    virtual = h5py.VirtualLayout(shape=x.shape, dtype="f4")
    virtual[:] = h5py.VirtualSource("apart.raw", "x", shape=x.shape)
    file("virtual.h5", r"outside the file \(virtual\)", lambda h5: h5.create_virtual_dataset("x", virtual))
    x.tofile(at("apart.bin"))
    file("external.h5", r"outside the file \(external", lambda h5: h5.create_dataset(
        "x", shape=x.shape, dtype="f4", external=[(at("apart.bin"), 0, x.nbytes)]))
    with h5py.File(at("part%d.h5"), "w", driver="family", memb_size=4096) as h5:
        h5["x"] = x
    for name in os.listdir(folder):
        if re.fullmatch(r"part[1-9]\d*\.h5", name):
            os.rename(at(name), at(name + ".more"))
    wanted["part0.h5"] = "driver family"
    with h5py.File(at("split"), "w", driver="split") as h5:
        h5["x"] = x
    os.rename(at("split-r.h5"), at("split-r.raw"))
    wanted["split-m.h5"] = "driver split"
    for name, says in wanted.items():
        print(f"{name}\t{says}")


def cure(folder, text):
    """What each message says to type is typed, with the names of files filled in."""
    at = lambda name: os.path.join(folder, name)
    for name in sorted(os.listdir(folder)):
        found = re.search(rf"/{re.escape(name)}: (.*)", text) if name.endswith(".h5") else None
        if not found:
            continue
        said, new, tool = found[1], at("NEW"), "hdf5-tools"
        if (typed := re.search(r"type: (python3 .*) OLD NEW", said)):
            command = typed[1].replace("python3", sys.executable, 1) + f" '{at(name)}' '{new}'"
        elif (typed := re.search(r"type: (h5clear -s) FILE", said)):
            command = f"{typed[1]} '{at(name)}'"
        elif (typed := re.search(r"(h5repart -family_to_sec2) 'NAME%d.h5' WHOLE.h5", said)):
            for more in os.listdir(folder):
                if more.endswith(".more"):
                    os.rename(at(more), at(more[:-5]))
            command = f"{typed[1]} '{at('part%d.h5')}' '{new}'"
        elif (typed := re.search(r"(h5repack) NAME WHOLE.h5", said)):
            os.rename(at("split-r.raw"), at("split-r.h5"))
            command = f"{typed[1]} '{at('split')}' '{new}'"
        else: # what is to be written again is, as the message tells
            shutil.copy(at("good.h5"), at(name))
            continue
        if command.startswith("h5") and not shutil.which(command.split()[0]):
            print(name, "needs", tool)
            shutil.copy(at("good.h5"), at(name))
        else:
            subprocess.run(command, shell=True, check=True)
            if os.path.exists(new):
                os.replace(new, at(name))
    for name in os.listdir(folder):
        if re.fullmatch(r"part[1-9]\d*\.h5|split-r.h5", name):
            os.remove(at(name))


def same(folder):
    with h5py.File(os.path.join(folder, "good.scores.h5")) as h5:
        names = [name for name in h5["emtrkmichel"] if h5["emtrkmichel"][name].dtype.kind == "f"]
        want = [h5["emtrkmichel"][name][:] for name in names]
    files = [name for name in os.listdir(folder) if name.endswith(".scores.h5")]
    for name in files:
        with h5py.File(os.path.join(folder, name)) as h5:
            for column, values in zip(names, want):
                if not np.array_equal(h5["emtrkmichel"][column][:], values, equal_nan=True):
                    sys.exit(f"{name}: {column} differs")
    print(len(files), "outputs")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "cure":
        cure(sys.argv[2], open(sys.argv[3], encoding="utf-8").read())
    else:
        same(sys.argv[2])
