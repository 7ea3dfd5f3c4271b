"""links.py - one model with data in a file, in the layouts of caches that keep links.

usage: links.py FOLDER      makes FOLDER/*/..., and FOLDER/x.npy; prints "NAME MODEL" of each layout
"""
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

folder = sys.argv[1]
r = np.random.default_rng(4)
w, x = r.normal(0, 1, (5, 1, 3, 3)).astype("f4"), r.normal(0, 1, (6, 1, 8, 8)).astype("f4")
np.save(f"{folder}/x.npy", x)


def model(location):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalMaxPool", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 1, 8, 8])],
                              [helper.make_tensor_value_info("y", 1, ["N", 5, 1, 1])], [numpy_helper.from_array(w, "w")])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 8
    if location:
        t = m.graph.initializer[0]
        t.ClearField("raw_data")
        t.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "64")):
            t.external_data.add(key=key, value=value)
    return m.SerializeToString()


def put(path, data):
    path = f"{folder}/{path}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def link(path, to):
    path = f"{folder}/{path}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(to, path)


def layout(name, path):
    print(name, path)


data = bytes(64) + w.tobytes() + b"behind"
put("plain/m.onnx", model("m.bin"))
put("plain/m.bin", data)
put("hub/blobs/aaa", model("m.bin"))                   # Hugging Face: both are links
put("hub/blobs/bbb", data)
link("hub/snapshots/rev/m.onnx", "../../blobs/aaa")
link("hub/snapshots/rev/m.bin", "../../blobs/bbb")
link("hub/refs/main", "../snapshots/rev")              # a link to the folder
key = ".git/annex/objects/4x/9k/SHA256-s1"             # git-annex: absolute or relative, into a hidden folder
put(f"annex/{key}/SHA256-s1", model("m.bin"))
put(f"annex/{key}2/SHA256-s2", data)
link("annex/m.onnx", f"{key}/SHA256-s1")
link("annex/m.bin", f"{folder}/annex/{key}2/SHA256-s2")
put("dvc/m.onnx", model("m.bin"))                      # the data alone, over two links
put("cache/files/md5/ab/cdef", data)
link("cache/of/project", "../files")
link("dvc/m.bin", "../cache/of/project/md5/ab/cdef")
put("cache/files/md5/01/2345", model("m.bin"))         # both, in different folders
link("dvcs/m.onnx", "../cache/files/md5/01/2345")
link("dvcs/m.bin", "../cache/files/md5/ab/cdef")
link("shelf/latest.onnx", "../plain/m.onnx")           # the model alone: the data are beside it
link("desk/mine.onnx", "../dvcs/m.onnx")               # a link to a link: the data are beside the second
put("below/m.onnx", model("weights/m.bin"))            # a link to the folder of the data
link("below/weights", "../plain")
put("deep/m.onnx", model("a/b/m.bin"))                 # a link in a folder below
link("deep/a/b/m.bin", "../../../plain/m.bin")
put("home/m.onnx", model("m.bin"))                     # in a home, whose other files stay closed
link("home/m.bin", "../hub/blobs/bbb")
put("alone/blob", model(None))                         # no data elsewhere
link("alone/m.onnx", "blob")
link("alone/again.onnx", "m.onnx")
for name, path in (("plain", "plain/m.onnx"), ("hub", "hub/snapshots/rev/m.onnx"), ("main", "hub/refs/main/m.onnx"),
                   ("annex", "annex/m.onnx"), ("dvc", "dvc/m.onnx"), ("dvcs", "dvcs/m.onnx"), ("shelf", "shelf/latest.onnx"), ("desk", "desk/mine.onnx"),
                   ("below", "below/m.onnx"), ("deep", "deep/m.onnx"), ("home", "home/m.onnx"), ("alone", "alone/again.onnx")):
    layout(name, path)
for name, location in (("up", "../plain/m.bin"), ("root", f"{folder}/plain/m.bin"), ("round", "sub/../../plain/m.bin"), ("pipe", "pipe"),
                       ("device", "device"), ("folder", "sub"), ("gone", "m.bin"), ("short", "short.bin")):
    put(f"bad/{name}.onnx", model(location))
put("bad/sub/other", b"")
put("bad/short.bin", data[:100])
os.mkfifo(f"{folder}/bad/fifo")
link("bad/pipe", "fifo")
link("bad/device", "/dev/zero")
link("bad/m.bin", "../nowhere")
# Triton's layout: the folders of a model and of a version, and the files, are links.
put("repository/real/m/config.pbtxt", b"")
link("repository/real/m/1", f"{folder}/hub/of-version")
link("hub/of-version/model.onnx", "../blobs/aaa")
link("hub/of-version/m.bin", "../blobs/bbb")
link("repository/models/m", "../real/m")
