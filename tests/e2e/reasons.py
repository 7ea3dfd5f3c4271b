"""reasons.py - ready patches in HDF5 files that wiremill cannot read as they are, and what it is to do about each.

make FOLDER SIZE           six patches of SIZE x SIZE in each file; prints a line a file: name, what the message has
cure FOLDER TEXT           does for each file what its message in TEXT tells to type; prints what it cannot do here
same FOLDER                each FOLDER/*.scores.h5 has the scores of good.scores.h5
mistakes FOLDER SIZE EVENTS.h5 JOIN.h5  what users give by mistake, in folders, and in each `wanted`: what is printed
"""
import gzip
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


def edited(source, target, **columns):
    """A copy of events, with columns (group__name) made by functions of what they were."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        for name, change in columns.items():
            data = f[name.replace("__", "/")]
            data[:] = change(data[:])
        return {name: f[name][:] for name in ("hit_table/time", "event_table/trigger_offset", "event_table/n_tick")}


def network(path, inputs, size):
    """A dense layer over all inputs, two scores."""
    from onnx import TensorProto, helper, numpy_helper, save
    n = sum(int(np.prod(shape)) for shape in inputs)
    weight = numpy_helper.from_array(np.full((n, 2), 0.01, "f4"), "w")
    nodes = [helper.make_node("Flatten", [f"x{i}"], [f"f{i}"]) for i in range(len(inputs))]
    nodes += [helper.make_node("Concat", [f"f{i}" for i in range(len(inputs))], ["c"], axis=1),
              helper.make_node("MatMul", ["c", "w"], ["y"]), helper.make_node("Sigmoid", ["y"], ["s"])]
    port = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])
    graph = helper.make_graph(nodes, "g", [port(f"x{i}", shape) for i, shape in enumerate(inputs)], [port("s", (2,))], [weight])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def mistakes(folder, size, events, join):
    model = os.path.dirname(events) + ("/model-small-1.wmm" if size == 16 else "/model-1.wmm")
    here = os.path.dirname(os.path.abspath(__file__))

    def case(name, code, options, *lines):
        with open(f"{folder}/{name}/wanted", "w", encoding="utf-8") as f:
            print(code, options, file=f)
            print(*lines, sep="\n", file=f)

    def at(name, file):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        return f"{folder}/{name}/{file}"

    spec = at("events", "own.yaml")
    with open(spec, "w", encoding="utf-8") as f:
        print(f"patch: [{size}, {size}]", file=f)
    of_model = f"--model '{model}'"
    events_as = lambda name, **how: edited(events, at("events", name), **how)
    check = "If all is right, write hit_check: none into --spec"

    # Numbers in the messages are NumPy's, from the definition.
    was = events_as("good.h5")
    events_as("early.h5", hit_table__time=lambda t: -t - 10 * 6 * size)
    events_as("us.h5", hit_table__time=lambda t: t * 0.5)
    events_as("seconds.h5", event_table__tau_us=lambda t: t * 0 + 0.003)
    events_as("short.h5", event_table__tau_us=lambda t: t * 0 + 1000)
    events_as("volts.h5", roi_value__adc=lambda a: a * 1e30)
    n, n_tick, last = len(was["hit_table/time"]), was["event_table/n_tick"][0], was["hit_table/time"][-1]
    us = (n_tick - 1 - was["event_table/trigger_offset"][0]) * 0.5
    case("events", 3, f"{of_model} --spec '{spec}' --input '{{}}/*.h5'",
         f"warning: {{}}/early.h5: {n} hits are held, time before the readout: for example tick {-last - 60 * size:.6g}, of a "
         f"readout of {n_tick} ticks (hit_table/time read in ticks)",
         f"~held: {{}}/us.h5: its hits miss the signal: [0-9]+ of {n} have nothing but zeros in their patch .hit_table/time read in "
         f"ticks.. In us most find more: write the times in ticks. {check}",
         f"warning: {{}}/seconds.h5: the lifetime correction overflows: tau_us 0.003 for a readout of {us:g} us behind the trigger? "
         "tau_us and tick_us are in microseconds. Hits near pixels that overflow are held as bad pixels",
         f"warning: {{}}/short.h5: tau_us 1000 is shorter than the readout behind the trigger, {us:g} us: its end is multiplied by "
         f"{np.exp(us / 1000):.3g}. tau_us and tick_us are in microseconds",
         "warning: {}/volts.h5: 100 % of its pixels with charge lie beyond adc: [-10, 30] of the specification and are set to that. "
         "Check that samples are in ADC; amplitude in --spec scales them")

    x = np.random.default_rng(1).normal(size=(500, size, size)).astype("f4")
    np.save(at("patches", "last.npy"), np.ascontiguousarray(np.moveaxis(x, 0, -1)))
    np.save(at("patches", "other.npy"), np.zeros((5, 7, 11), "f4"))
    with h5py.File(at("patches", "two.h5"), "w") as f:
        f["a"], f["b"], f["set/c"] = x[:5], x[:4], np.arange(3)
    with h5py.File(at("patches", "many.h5"), "w") as f: # a list of what is there ends once, where it is too long
        for i in range(40):
            f[f"group{i:02}/{'long' * (i % 7 + 2)}"], f[f"group{i:02}/b"] = np.arange(3), np.arange(3)
    takes = f"the model takes (N, {size}, {size}, 1)"
    case("patches", 5, f"{of_model} --input {{}}/last.npy {{}}/other.npy {{}}/two.h5 {{}}/two.h5:/e {{}}/two.h5:/set/e {{}}/many.h5:/e",
         f"held: {{}}/last.npy: its shape is ({size}, {size}, 500), {takes}: numpy.moveaxis (a, -1, 0)?",
         f"held: {{}}/other.npy: its shape is (5, 7, 11), {takes}",
         "held: {}/two.h5: neither events nor one dataset of patches; where there are several, name one: FILE.h5:/DATASET; it has "
         f"a (5, {size}, {size}), b (4, {size}, {size}), set/c (3)",
         f"held: {{}}/two.h5:/e: no dataset e; the file has a (5, {size}, {size}), b (4, {size}, {size}), set/c (3); "
         "`wiremill help formats` describes inputs",
         "held: {}/two.h5:/set/e: no dataset set/e; set has set/c (3); `wiremill help formats` describes inputs",
         "~warning: input held: .*/many.h5: no dataset e; the file has (group[a-z0-9/]+ \\(3\\), )+\\.\\.\\.; `wiremill help formats` describes inputs")
    for name, inputs, says in (
            ("channels", [(3, size, size)], f"its planes are cut to patches of (48, 48), the model takes (3, {size}, {size}): channels "
             f"need points: spacepoints or windows with channels: 3 in --spec; or give ready patches, (N, 3, {size}, {size})"),
            ("inputs", [(1, size, size), (4,)], f"the model has 2 inputs of {size * size + 4} values together, which no plane gives: "
             f"it takes ready patches alone, (N, {size * size + 4})")):
        network(at(name, "m.onnx"), inputs, size)
        edited(events, at(name, "a.h5"))
        case(name, 5, "--model {}/m.onnx --input {}/a.h5", "held: {}/a.h5: " + says)

    for name in ("run", "other", "tag"):
        os.makedirs(at(name, ""), exist_ok=True)
        subprocess.run([sys.executable, f"{here}/join.py", "texts", events if name == "other" else join, at(name, "")], check=True,
                       stdout=subprocess.DEVNULL)
        with open(at(name, "own.yaml"), "w", encoding="utf-8") as f:
            print(f"patch: [{size}, {size}]\ntau_us: 10000\ntrigger_offset: 500", file=f)
    with h5py.File(join) as f:
        n = len(f["hit_table/time"])
    joined = f"{of_model} --spec {{}}/own.yaml --input {{}}/hits.csv --channels {{}}/channels.csv --planes"
    case("run", 5, f"{joined} {{}}/../other/frames.h5",
         f"~held: {{}}/hits.csv: its hits miss the signal: [0-9]+ of [0-9]+ .*csv/time read in ticks, ticks of 0.5 us.. Are the planes "
         f"of another run, or do the times begin at another tick .--hit-offset.[?] {check}")
    case("tag", 5, f"{joined} '{{}}/frames.h5:/Gauss*'",
         "~held: {}/hits.csv: {}/frames.h5: event [0-9:]+: {}/frames.h5: group [0-9]+ has no dataset frame_Gauss[*]; it has the frame "
         "gauss .case matters.")

    at("shell", "")
    case("shell", 2, f"{of_model} --input '$HOME/*.h5'",
         "wiremill run: --input '$HOME/*.h5': the shell replaces no variable in single quotes; type \"$HOME\"/*.h5; see wiremill run "
         "--help")
    with open(events, "rb") as f, gzip.open(at("packed", "a.h5.gz"), "wb", 1) as packed:
        packed.write(f.read())
    case("packed", 5, f"{of_model} --spec '{spec}' --input '{{}}/*.h5.gz'",
         "held: {}/a.h5.gz: compressed by gzip; type: gunzip -k FILE, and give what it makes, without .gz")


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
    elif sys.argv[1] == "mistakes":
        mistakes(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    elif sys.argv[1] == "cure":
        cure(sys.argv[2], open(sys.argv[3], encoding="utf-8").read())
    else:
        same(sys.argv[2])
