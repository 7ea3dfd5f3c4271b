"""python.py - tries the Python package wiremill, installed by pip.

usage: python.py CALLS MODEL.wmm MODEL.onnx GENERAL.wmm EVENTS.h5 WORK [ENGINE...]

GENERAL is scored by each general ENGINE that is built; with "" the tests of it are skipped.
CALLS is the C program of tests/lib/calls.c: the scores must be its, bit for bit.
"""
import copy
import html
import html.parser
import importlib.metadata
import importlib.util
import inspect
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
import types
import typing
import unittest
from unittest import mock

import numpy as np

import wiremill
from wiremill import _files, _progress

CALLS, MODEL, ORIGINAL, GENERAL, EVENTS, WORK, *ENGINES = sys.argv[1:]
N = 300


def c(*arguments, given=None):
    return np.frombuffer(subprocess.run([CALLS, *arguments], input=given, stdout=subprocess.PIPE, check=True).stdout, "f4")


def state(done, known, word, files_done=0):
    return _progress.State(done, known, word, files_done, 2)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        patches = c("patches", MODEL, str(N))
        cls.model = wiremill.Model(MODEL)
        cls.patches = patches.reshape(N, *cls.model.shape)
        cls.right = c("score", MODEL, given=patches.tobytes()).reshape(N, -1)
        cls.events = os.path.join(WORK, "events.h5")
        shutil.copy2(EVENTS, cls.events)
        cls.output, = wiremill.run("synthetic", cls.events, os.path.join(WORK, "events"))

    def same(self, got, want=None):
        want = self.right if want is None else want
        self.assertEqual(got.dtype, np.float32)
        self.assertEqual(got.shape, want.shape)
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_the_scores_are_those_of_c(self):
        self.same(wiremill.score(MODEL, self.patches))
        self.same(wiremill.score(ORIGINAL, self.patches))
        self.same(wiremill.score(self.model, self.patches))
        self.assertGreater(len(np.unique(self.right[:, 0])), 250)

    def test_every_form_of_patches(self):
        shape = self.model.shape
        self.same(self.model.score(self.patches[..., None]))
        self.same(self.model.score(self.patches[:, None]))
        self.same(self.model.score(self.patches.reshape(N, -1)))
        self.same(self.model.score(self.patches.astype("f8")))
        self.same(self.model.score(self.patches.astype(">f4")))
        self.same(self.model.score(np.asfortranarray(self.patches)))
        self.same(self.model.score(self.patches[::3]), self.right[::3])
        self.same(self.model.score(self.patches[5][None]), self.right[5:6])
        self.same(self.model.score([p.tolist() for p in self.patches[:2]]), self.right[:2])
        self.assertEqual(self.model.score(np.zeros((0, *shape))).shape, (0, self.model.n_output))
        self.assertEqual(self.model.score(np.ones((1, *shape), "i4")).shape, (1, self.model.n_output))

    def test_what_is_refused(self):
        wrong = self.patches[:, 1:]
        for given, text in ((wrong, "the model takes"), (self.patches[0], r"give patches\[None\]"),
                            (np.zeros(5), "the model takes"), (self.patches.astype("c8"), "dtype"),
                            (np.array(["a"]), "dtype")):
            with self.assertRaisesRegex(ValueError, text):
                self.model.score(given)
        with self.assertRaises(FileNotFoundError):
            wiremill.Model("/proc/nowhere/model.onnx")
        for arguments, text in (({"precision": "half"}, "'half'"), ({"engine": "warp"}, "'warp'"),
                                ({"threads": 257}, "257 threads"), ({"outputs": "x"}, "outputs")):
            with self.assertRaisesRegex(wiremill.WiremillError, text) as raised:
                wiremill.Model(MODEL, **arguments)
            self.assertEqual(raised.exception.fault, "usage")
        with self.assertRaisesRegex(ValueError, "threads is 0"):
            wiremill.Model(MODEL, threads=0)
        with self.assertRaises(wiremill.WiremillError) as raised:
            wiremill.Model(__file__)
        self.assertEqual(raised.exception.fault, "input")

    def test_nothing_is_copied(self):
        patches = np.zeros((4000, *self.model.shape), "f4")
        tracemalloc.start()
        try:
            self.model.score(patches)
            kept = tracemalloc.get_traced_memory()[1]
            self.model.score(patches.astype("f8"))
            self.assertGreater(tracemalloc.get_traced_memory()[1], patches.nbytes)   # copies are counted here
        finally:
            tracemalloc.stop()
        self.assertLess(kept, patches.nbytes / 10)

    def test_status(self):
        patches = self.patches.copy()
        patches[7].flat[3] = np.nan
        patches[8].flat[0] = -np.inf
        scores, status = self.model.score(patches, status=True)
        self.assertEqual(status.dtype, np.uint8)
        bad = np.isin(np.arange(N), (7, 8))
        self.assertTrue((status == np.where(bad, wiremill.BAD_PIXEL, wiremill.SCORED)).all())
        self.assertTrue(np.isnan(scores[bad]).all())
        self.same(scores[~bad], self.right[~bad])
        self.assertEqual(wiremill.status_text(wiremill.BAD_PIXEL), "bad pixel")

    def test_closing(self):
        with wiremill.Model(MODEL) as model:
            model.score(self.patches[:1])
        model.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            model.score(self.patches)
        self.assertIn("wiremill.Model", repr(model))

    def test_copies_open_the_file_again(self):
        for twin in copy.copy(self.model), copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model)):
            self.same(twin.score(self.patches))
            twin.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            pickle.dumps(twin)
        with self.assertRaisesRegex(TypeError, "cannot be copied"):
            copy.copy(self.model._handle)
        with self.assertRaisesRegex(ValueError, "1 to 256"):
            wiremill.Model(MODEL, threads=2**32 + 1)
        self.same(self.model.score(self.patches))

    def test_threads_while_another_closes(self):
        model, faults = wiremill.Model(MODEL), []

        def work():
            try:
                for _ in range(20):
                    if model.score(self.patches).tobytes() != self.right.tobytes():
                        faults.append("other bits")
            except ValueError as why:
                if "closed" not in str(why):
                    faults.append(str(why))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        threads[0].join(0.05)
        model.close()
        for t in threads:
            t.join()
        self.assertEqual(faults, [])

    def test_children_of_fork(self):
        child = os.fork()
        if child == 0:
            os._exit(self.model.score(self.patches).tobytes() != self.right.tobytes())
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_facts(self):
        self.assertEqual(len(self.model.labels), self.model.n_output)
        self.assertEqual(np.prod(self.model.shape), self.model.n_value)
        self.assertEqual(self.model.signature, "sparse/fma/fp32/v1")
        self.assertEqual(len(self.model.sha256), 64)
        self.assertEqual(wiremill.__version__, importlib.metadata.version("wiremill"))

    def test_everything_public_is_documented_and_typed(self):
        for thing in (wiremill.Model, wiremill.Model.__init__, wiremill.Model.score, wiremill.Model.close, wiremill.score,
                      wiremill.status_text, wiremill.WiremillError, wiremill.run, wiremill.read, wiremill.RunError,
                      wiremill.show, wiremill.Page, wiremill.Page.save, wiremill.Scores.plot, wiremill.Scores.keys,
                      wiremill.Scores, wiremill.Scores.scores, wiremill.Scores.scored, wiremill.Scores.to_numpy,
                      wiremill.Scores.to_pandas, wiremill.Scores.to_arrow):
            self.assertTrue(inspect.getdoc(thing), thing)
        for function in (wiremill.Model.__init__, wiremill.Model.score, wiremill.score, wiremill.status_text,
                         wiremill.run, wiremill.read, wiremill.show, wiremill.Scores.plot):
            hints = typing.get_type_hints(function)
            wanted = set(inspect.signature(function).parameters) - {"self"} | {"return"}
            self.assertEqual(set(hints), wanted, function)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(wiremill.__file__), "py.typed")))

    def test_the_network_that_comes_with_wiremill(self):
        with wiremill.Model("synthetic") as model:
            self.assertEqual((model.shape, model.labels), ((48, 48), ["track", "em", "none", "michel"]))
            self.assertEqual(model.sha256, wiremill.read(self.output).attributes["model_sha256"])
            with pickle.loads(pickle.dumps(model)) as twin:
                self.assertEqual(twin.sha256, model.sha256)
        before = os.getcwd()
        os.chdir(WORK)
        try:
            shutil.copy(MODEL, "synthetic")   # a file of the user's is meant
            with wiremill.Model("synthetic") as model:
                self.assertEqual(model.sha256, self.model.sha256)
        finally:
            os.chdir(before)
        with self.assertRaisesRegex(FileNotFoundError, "'Synthetic'"):
            wiremill.Model("Synthetic")

    def test_dir_shows_the_api_alone(self):
        self.assertEqual({name for name in dir(wiremill) if not name.startswith("_")}, set(wiremill.__all__))
        self.assertIn("__version__", dir(wiremill))

    def test_a_run_and_its_output(self):
        seen = []
        patches = os.path.join(WORK, "patches.npy")
        np.save(patches, np.where(np.arange(N)[:, None, None] == 4, np.nan, self.patches))
        with self.assertWarnsRegex(UserWarning, "held: 1 hit of .*patches.npy: 1 bad pixel"):
            out = wiremill.run(MODEL, patches, os.path.join(WORK, "out"), progress=lambda *hits: seen.append(hits))
        self.assertEqual(out, [os.path.join(WORK, "out", "patches.scores.h5")])
        self.assertEqual(seen[-1], (N, N))
        told = _files._state(os.environ["WIREMILL_PROGRAM"], os.path.join(WORK, "out"))
        self.assertEqual(told, (N, N, "", 1, 1))
        hits = wiremill.read(out[0])
        self.assertEqual(hits.labels, self.model.labels)
        self.assertEqual(len(hits), N)
        self.assertEqual([int(s) for s in np.unique(hits.columns["status"])], [0, wiremill.BAD_PIXEL])
        self.same(hits.scores[hits.scored], np.delete(self.right, 4, 0))
        self.assertTrue(np.isnan(hits.scores[4]).all())
        self.assertEqual({hits.engines[i] for i in hits.columns["engine"][hits.scored]}, {self.model.signature})
        self.assertEqual(hits.attributes["model_sha256"], self.model.sha256)
        self.assertEqual({len(column) for column in hits.columns.values()}, {N})
        self.assertTrue({"run", "hit_id", "in_fiducial", *hits.labels} <= set(hits.columns))
        self.assertEqual(repr(hits), f"Scores({N:,} hits, 1 held, labels {' '.join(hits.labels)}, patches)")
        shown = hits._repr_html_()
        means = "".join(f"<td>{column.mean(dtype=float):.3f}</td>" for column in np.delete(self.right, 4, 0).T)
        self.assertIn(html.escape(repr(hits)), shown)
        self.assertIn(f"<tr><th>all</th><td>{N}</td><td>1</td>{means}</tr>", shown)
        self.assertEqual(shown.count("<tr>"), 2 + len(np.unique(hits["plane"])))
        self.assertIn("<td>0</td><td>0</td><td></td>", hits[:0]._repr_html_())
        self.assertNotIn("array(", str(hits))
        subprocess.run([os.environ["WIREMILL_PROGRAM"], "export", "--to", "csv", out[0]], check=True, stderr=subprocess.DEVNULL)
        with open(out[0].replace(".h5", ".csv")) as csv:
            self.assertEqual(list(hits.columns), csv.readline().strip().split(","))
        self.try_columns(hits)
        rows = hits.to_numpy()
        self.assertEqual(rows.dtype.names, tuple(hits.columns))
        self.assertEqual(rows[hits.labels[0]].tobytes(), hits.scores[:, 0].tobytes())
        self.assertEqual(np.asarray(hits).tobytes(), rows.tobytes())
        self.try_tables(hits)
        # the same call again: nothing is left to do
        with self.assertWarnsRegex(UserWarning, "held: 1 hit of "):
            self.assertEqual(wiremill.run(MODEL, [patches], os.path.join(WORK, "out")), out)

    def test_a_run_that_is_interrupted_goes_on(self):
        def interrupt(done, known):
            raise KeyboardInterrupt

        patches, out = os.path.join(WORK, "interrupted.npy"), os.path.join(WORK, "interrupted")
        np.save(patches, self.patches)
        with self.assertRaises(KeyboardInterrupt):
            wiremill.run(MODEL, patches, out, progress=interrupt)
        hits = wiremill.read(wiremill.run(MODEL, patches, out)[0])
        self.same(hits.scores)

    def test_hits_are_called_by_the_rule_of_truth(self):
        program, events = os.environ["WIREMILL_PROGRAM"], os.path.join(WORK, "called.h5")
        subprocess.run([program, "synth", "--hits", "2000", "--output", events], check=True, stderr=subprocess.DEVNULL)
        output, = wiremill.run("synthetic", events, os.path.join(WORK, "called"), progress=False)
        hits = wiremill.read(output)
        for threshold in 0.5, 0.02:
            said = subprocess.run([program, "truth", events, output, "--threshold", str(threshold)], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            called = {label: int(re.search(rf"^{label} +\d+ +(\d+) ", said, re.M)[1]) for label in hits.labels}
            self.assertTrue(called["michel"])
            self.assertEqual({label: np.count_nonzero(hits.called(threshold) == label) for label in hits.labels}, called)
        hits.columns["status"][3] = wiremill.POISON
        self.assertEqual(hits.called()[3], "")

    def test_positions_are_of_the_input(self):
        import h5py

        hits = wiremill.read(self.output, positions=True)
        self.assertNotIn("wire", wiremill.read(self.output).columns)
        with h5py.File(self.events) as file:
            for name in "wire", "time", "truth":
                np.testing.assert_array_equal(hits[name], file[f"hit_table/{name}"][:])
        self.assertEqual(list(hits.keys())[6:11], ["plane", "wire", "time", "truth", hits.labels[0]])
        copy_ = os.path.join(WORK, "copy.h5")
        shutil.copy(self.events, copy_)
        again = wiremill.read(self.output, positions=copy_)
        self.assertEqual({name: column.tobytes() for name, column in again.columns.items()},
                         {name: column.tobytes() for name, column in hits.columns.items()})

        def swap(name, table="hit_table"):
            with h5py.File(copy_, "r+") as file:
                column = file[f"{table}/{name}"]
                column[:2] = column[:2][::-1] + (name == "event_id")

        for name, said in ("key", "hit_id"), ("event_id", "run"):
            swap(name)
            with self.assertRaisesRegex(ValueError, f"copy.h5 and .*events.scores.h5 have other hits, .*: {said} differs"):
                wiremill.read(self.output, positions=copy_)
        # the names of other layouts, in columns of two dimensions
        names = {"hit_table": ("hit_id", "local_plane", "local_wire", "local_time"),
                 "chargehits": ("ch_id", "plane", "wire", "time")}
        for table, renamed in names.items():
            other = os.path.join(WORK, f"{table}.h5")
            with h5py.File(self.events) as old, h5py.File(other, "w") as new:
                old = old["hit_table"]
                for name, its in zip(("key", "plane", "wire", "time"), renamed):
                    new[f"{table}/{its}"] = old[name][:][:, None]
                if table == "hit_table":
                    new["hit_table/event_id"] = old["event_id"][:]
                else:
                    for i, name in enumerate(("run", "subrun", "event")):
                        new[f"{table}/{name}"] = old["event_id"][:, i]
            again = wiremill.read(self.output, positions=other)
            self.assertEqual((again["wire"].tobytes(), again["time"].tobytes()), (hits["wire"].tobytes(), hits["time"].tobytes()))
            self.assertNotIn("truth", again)
        output = os.path.join(WORK, "moved.scores.h5")
        shutil.copy(self.output, output)
        for change, error, said in ((lambda: os.utime(self.events, (7, 7)), ValueError, "was written at 1970-01-01T00:00:07Z, "),
                                    (lambda: os.truncate(self.events, 5000), ValueError, "has 5,000 bytes, and had "),
                                    (lambda: os.remove(self.events), FileNotFoundError, "give positions=FILE")):
            change()
            with self.assertRaisesRegex(error, said):
                wiremill.read(output, positions=True)
        shutil.copy2(EVENTS, self.events)
        with self.assertRaisesRegex(ValueError, "is no HDF5 file"):
            wiremill.read(output, positions=__file__)
        with self.assertRaisesRegex(ValueError, "no table of hits"):
            wiremill.read(output, positions=output)

    def test_positions_of_hits_and_planes_in_files_of_their_own(self):
        import h5py

        folder = os.path.join(WORK, "joined")
        os.mkdir(folder)
        hits, frames, channels, spec = (os.path.join(folder, name) for name in ("hits.csv", "frames.h5", "map.csv", "spec.yaml"))
        adc = np.zeros((60, 2000), "f4")
        adc[:, 980:1020] = 40
        with h5py.File(frames, "w") as file:
            file["7/frame_gauss"], file["7/channels_gauss"], file["7/tickinfo_gauss"] = adc, np.arange(60), [0, 500., 0]
        with open(channels, "w") as file:
            file.writelines(["channel,cryostat,tpc,plane,wire\n", *(f"{i},0,0,2,{i}\n" for i in range(60))])
        with open(hits, "w") as file:
            file.write("# made\nhit_id;time;wire;plane;tpc;event;subrun;run;note\n5;1000.5;30;2;0;7;0;1;a\n\n4;1001;31; 2;0;7;0;1;b\n")
        with open(spec, "w") as file:
            file.write(wiremill.read(self.output).attributes["specification"].replace("lifetime: exp", "lifetime: none"))
        output, = wiremill.run("synthetic", hits, os.path.join(folder, "out"), spec=spec, options=[
            "--planes", frames, "--channels", channels])
        table = wiremill.read(output, positions=True)
        self.assertEqual([table[name].tolist() for name in ("hit_id", "wire", "time")], [[5, 4], [30, 31], [1000.5, 1001]])
        os.utime(channels, (7e9, 7e9))   # any of the three is the input
        with self.assertRaisesRegex(ValueError, "hits.csv has changed .*it, with .*frames.h5 and .*map.csv, was written at 2191-"):
            wiremill.read(output, positions=True)
        os.remove(frames)
        with self.assertRaisesRegex(ValueError, "frames.h5, which belongs to it, is not there"):
            wiremill.read(output, positions=True)
        self.assertEqual(wiremill.read(output, positions=hits)["wire"].tolist(), [30, 31])

    def test_several_outputs_are_one_table(self):
        one = wiremill.read(self.output, positions=True)
        other = os.path.join(WORK, "events", "other.scores.h5")
        shutil.copy(self.output, other)
        import h5py

        with h5py.File(other, "r+") as file:   # it has engines of its own, and a hit that is held
            del file["engine/signature"]
            file["engine/signature"] = [b"other", *[e.encode() for e in one.engines]]
            file["emtrkmichel/engine"][:] += 1
            file["emtrkmichel/engine"][3], file["emtrkmichel/status"][3] = 65535, 5
            file.attrs["precision"] = b"fast"
        n = len(one)
        both = wiremill.read(os.path.join(WORK, "events", "*.scores.h5"), positions=True)
        self.assertEqual((both.files, len(both)), ([self.output, other], 2 * n))
        self.assertEqual(list(both.keys()), [*one.keys(), "file"])
        for name in set(one.keys()) - {"engine", "status"}:
            np.testing.assert_array_equal(both[name], np.tile(one[name], 2))
            self.assertEqual(both[name].dtype, one[name].dtype)
        names = [both.engines[e] if e < 65535 else None for e in both["engine"]]
        self.assertEqual(names, [None if i == n + 3 else one.engines[0] for i in range(2 * n)])
        self.assertEqual(both["file"].tolist(), [0] * n + [1] * n)
        self.assertIn(", 2 files)", repr(both))
        self.assertEqual(both.attributes, {k: v for k, v in one.attributes.items() if k != "precision"})
        self.assertEqual(wiremill.read([other, self.output]).files, [other, self.output])
        if importlib.util.find_spec("pandas"):
            self.assertEqual([str(f) for f in both.to_pandas()["file"]], [self.output] * n + [other] * n)
        with h5py.File(other, "r+") as file:
            del file["emtrkmichel/in_fiducial"]
        with self.assertRaisesRegex(ValueError, "other.scores.h5 has other labels or columns than .*events.scores.h5"):
            wiremill.read([self.output, other])
        os.remove(other)
        for nothing in [], os.path.join(WORK, "no*.h5"):
            with self.assertRaisesRegex(FileNotFoundError, "no output matches"):
                wiremill.read(nothing)
        with self.assertRaisesRegex(ValueError, "positions=True"):
            wiremill.read([self.output], positions=self.events)

    def test_the_page_of_an_event(self):
        class Frame(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                self.found = tag, dict(attributes)

        file = os.path.join(WORK, "page.html")
        subprocess.run([os.environ["WIREMILL_PROGRAM"], "show", self.output, "-o", file], check=True, stdout=subprocess.DEVNULL)
        with open(file, encoding="utf-8") as text:
            wanted = text.read()
        for event in None, "1:1:1", (1, 1, 1):
            page = wiremill.show(self.output, event)
            self.assertEqual(page.html, wanted)
        frame = Frame()
        frame.feed(page._repr_html_())
        tag, attributes = frame.found
        self.assertEqual((tag, attributes["srcdoc"]), ("iframe", wanted))
        self.assertEqual(attributes["sandbox"].split(), ["allow-scripts", "allow-downloads"])
        page.save(file)
        with open(file, encoding="utf-8", newline="") as text:
            self.assertEqual(text.read(), wanted)
        self.assertLess(len(repr(page)), 60)
        self.assertNotEqual(wiremill.show(self.output, options=["--score", "em"]).html, wanted)
        with self.assertRaisesRegex(wiremill.RunError, "^wiremill show: exit code [25]: .* has no hits of event 1:1:99"):
            wiremill.show(self.output, "1:1:99")
        with self.assertRaisesRegex(ValueError, "run, subrun and event are needed"):
            wiremill.show(self.output, "first")

    def test_a_plot(self):
        hits = wiremill.read(self.output, positions=True)
        with self.assertRaisesRegex(ValueError, "positions=True"):
            wiremill.read(self.output).plot()
        for event in "1:1", "1:1:x", (1, 2), "1:1:-1":
            with self.assertRaisesRegex(ValueError, "run, subrun and event are needed"):
                hits.plot(event)
        for arguments in {"event": "1:1:99"}, {"plane": 9}, {"tpc": 99}:
            with self.assertRaisesRegex(ValueError, "no hits of event"):
                hits.plot(**arguments)
        first = ":".join(str(hits[name][0]) for name in ("run", "subrun", "event"))
        few = np.ones(len(hits), bool)   # the first plane is not that with most hits
        few[np.flatnonzero(hits["plane"] == hits["plane"].min())[10:]] = False
        hits = hits[few]
        planes, counts = np.unique(hits["plane"], return_counts=True)
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}), \
                self.assertRaisesRegex(ImportError, "wiremill.Scores.plot needs the package matplotlib: pip install matplotlib"):
            hits.plot()
        if not importlib.util.find_spec("matplotlib"):
            return
        import matplotlib

        matplotlib.use("agg")
        for plane, score in (None, None), (int(planes[np.argmin(counts)]), "em"):
            columns = {name: column.copy() for name, column in hits.columns.items()}
            rows = np.flatnonzero(columns["plane"] == (planes[np.argmax(counts)] if plane is None else plane))
            columns["status"][rows[5]] = wiremill.HELD
            one = wiremill.Scores(columns, hits.labels, hits.engines, hits.attributes)
            axes = one.plot(first, plane, score=score)
            self.assertIn(f"event {first}, cryostat 0, tpc ", axes.get_title())
            scored, held = axes.collections
            rest = np.delete(rows, 5)
            np.testing.assert_array_equal(scored.get_offsets(), np.stack([hits["wire"][rest], hits["time"][rest]], 1))
            np.testing.assert_array_equal(scored.get_array(), hits[score or hits.labels[0]][rest])
            self.assertEqual(held.get_offsets().tolist(), [[hits["wire"][rows[5]], hits["time"][rows[5]]]])
            self.assertIs(one.plot(ax=axes), axes)
            matplotlib.pyplot.close("all")

    def try_columns(self, hits):
        """A column by its name, and rows by a mask, a slice or numbers."""
        first = hits.labels[0]
        self.assertIs(hits[first], hits.columns[first])
        self.assertIs(hits == hits[:], False)   # arrays have no one answer
        self.assertEqual(list(dict(hits)), list(hits.columns))
        self.assertTrue(first in hits and "hits" not in hits)
        self.same(hits[hits.scored].scores, np.delete(self.right, 4, 0))
        self.same(hits[2:4].scores, self.right[2:4])
        self.same(hits[[7, 2]].scores, self.right[[7, 2]])
        self.assertEqual((len(hits[[]]), hits[2:4].labels, hits[2:4].attributes), (0, hits.labels, hits.attributes))
        with self.assertRaisesRegex(TypeError, r"; row 7 is \[7:8\]$"):
            hits[7]
        with self.assertRaisesRegex(KeyError, "no column 'hits'; there are: run, "):
            hits["hits"]
        for wrong in 0, 1.5, [1.5], None, [[1]]:
            with self.assertRaisesRegex(TypeError, "neither a column"):
                hits[wrong]
        with self.assertRaises(IndexError):
            hits[hits.scored[1:]]

    def try_pandas(self, hits):
        import pandas

        frame = hits.to_pandas()
        self.assertEqual(list(frame["status"].cat.categories),
                         [wiremill.status_text(i) for i in range(len(frame["status"].cat.categories))])
        self.assertTrue(pandas.isna(frame["engine"][4]) and frame["engine"].isna().sum() == 1)
        with self.assertRaisesRegex(ValueError, "DataFrame constructor"):   # not a table of another form
            pandas.DataFrame(hits)
        truth = wiremill.read(self.output, positions=True)
        names = list(truth.to_pandas()["truth"])
        self.assertEqual([("track", "em", "none", "michel").index(name) for name in names], truth["truth"].tolist())

    def try_arrow(self, hits):
        import pyarrow

        scored = hits[hits.scored]   # a NaN equals nothing
        self.assertTrue(pyarrow.table(scored).equals(scored.to_arrow()))
        table = pyarrow.table(hits)
        self.assertEqual(table.schema.metadata[b"precision"], b"fp32")
        self.assertEqual(table["engine"].null_count, 1)

    def try_tables(self, hits):
        """As pandas and Arrow where they are installed; else the error names what is missing."""
        for name, table in (("pandas", hits.to_pandas), ("pyarrow", hits.to_arrow)):
            if importlib.util.find_spec(name):
                for c in set(hits.columns) - {"status", "engine"}:
                    np.testing.assert_array_equal(np.asarray(table()[c]), hits.columns[c])
                    self.assertEqual(np.asarray(table()[c]).dtype, hits.columns[c].dtype)
                status, engine = (list(table()[c]) if name == "pandas" else table()[c].to_pylist() for c in ("status", "engine"))
                self.assertEqual(status, ["bad pixel" if i == 4 else "scored" for i in range(N)])
                self.assertEqual([e for e in engine if isinstance(e, str)], [self.model.signature] * (N - 1))
                self.assertFalse(isinstance(engine[4], str))
                {"pandas": self.try_pandas, "pyarrow": self.try_arrow}[name](hits)
            with mock.patch.dict(sys.modules, {name: None}), self.assertRaisesRegex(ImportError, f"pip install {name}"):
                table()
        with mock.patch.dict(sys.modules, h5py=None), self.assertRaisesRegex(ImportError, "wiremill.read needs .*h5py"):
            wiremill.read("x")

    def test_progress(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        line, log = Terminal(), io.StringIO()
        states = [state(0, 5000, "at least"), state(1000, 5000, "about", 1), state(1234, 4936, "", 2)]
        with mock.patch.dict(os.environ, COLUMNS="80"), mock.patch("time.monotonic", lambda: 7.0):
            for stream in (line, log):
                shown = _progress.Shown(None, stream)
                for one in states:
                    shown(one)
                shown.close()
        first = "wiremill run: 0 of at least 5,000 hits, 0 of 2 files"
        last = "wiremill run: 1,234 of 4,936 hits (25 %), 2 of 2 files"
        self.assertEqual(log.getvalue(), f"{first}\n{last}\n")
        drawn = line.getvalue().rstrip("\n").split("\r")[1:]
        self.assertEqual(drawn[0], f"[{'.' * 20}] {first}")
        self.assertEqual(drawn[2].rstrip(), f"[{'#' * 5}{'.' * 15}] {last}")
        self.assertTrue(all(len(text) < 80 for text in drawn))
        narrow = Terminal()
        with mock.patch.dict(os.environ, COLUMNS="60"):
            _progress.Shown(None, narrow)(states[0])
        self.assertEqual(narrow.getvalue(), f"\r{first}")
        # 1,000 hits in 10 s, and 4,000 to do
        with mock.patch("time.monotonic", iter([0.0, 10.0, 20.0]).__next__):
            shown = _progress.Shown(None, log)
            for one in [state(0, 5000, "about"), *states[1:]]:
                shown(one)
        self.assertIn("1,000 of about 5,000 hits (20 %), 100 hits/s, about 40 s left, 1 of 2 files\n", log.getvalue())
        self.assertIn("1,234 of 4,936 hits (25 %), 62 hits/s, 60 s left, 2 of 2 files\n", log.getvalue())
        with mock.patch("sys.stderr", log):
            self.assertIsNone(_progress.shown(None))
            self.assertIsNotNone(_progress.shown(True))
        with mock.patch("sys.stderr", line):
            self.assertIsNotNone(_progress.shown(None))
            self.assertIsNone(_progress.shown(False))

    def test_progress_in_a_notebook(self):
        drawn = []
        bar = types.SimpleNamespace(update=drawn.append)
        display = types.SimpleNamespace(HTML=str, display=lambda what, display_id: (drawn.append(what), bar)[1])
        ipython = types.ModuleType("IPython")
        ipython.get_ipython, ipython.display = lambda: types.SimpleNamespace(kernel=1), display
        with mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}), \
                mock.patch("sys.stderr", io.StringIO()) as silent:
            shown = _progress.shown(None)
            shown(state(10, 40, "about"))
            shown(state(40, 40, ""))
            shown.close()
        self.assertEqual(silent.getvalue(), "")
        self.assertEqual(len(drawn), 2)
        self.assertIn('value="40" max="40"', drawn[1])
        self.assertIn("40 of 40 hits (100 %), 0 of 2 files", drawn[1])

    def test_a_run_that_fails(self):
        with self.assertRaisesRegex(wiremill.RunError, "nowhere.h5") as raised:
            wiremill.run(MODEL, "/proc/nowhere.h5", os.path.join(WORK, "none"))
        self.assertIn(raised.exception.exit_code, (2, 5))
        cut = os.path.join(WORK, "cut.h5")
        with open(EVENTS, "rb") as whole, open(cut, "wb") as part:
            part.write(whole.read(20000))
        patches = os.path.join(WORK, "good.npy")
        np.save(patches, self.patches[:5])
        with self.assertRaises(wiremill.RunError) as raised:
            wiremill.run(MODEL, cut, os.path.join(WORK, "cut"))
        self.assertEqual(raised.exception.exit_code, 5)
        why = f"held: {cut}: truncated: it has 20000 bytes of"
        self.assertRegex(str(raised.exception), f'^wiremill run: exit code 5: {why}.*\\nMend them, then .*"--retry-held"].$')
        self.assertNotRegex(str(raised.exception), "wiremill-result|type:|--output")
        self.assertIn("\nwiremill-result exit=5 ", raised.exception.output)
        other = wiremill.RunError(75, "2026-11-29T09:08:41Z   broker: warning: x\nwiremill run: stopped\nto go on, then type:\n"
                                      "  wiremill run --output o\nwiremill-result exit=75 files=1\n")
        self.assertEqual(str(other), "wiremill run: exit code 75: stopped")
        self.assertEqual(str(wiremill.RunError(1, "")), "wiremill run: exit code 1: it printed nothing")
        with self.assertWarnsRegex(UserWarning, f"^{why}.*$"):
            self.assertEqual(len(wiremill.run(MODEL, [cut, patches], os.path.join(WORK, "one"))), 1)
        program = os.environ["WIREMILL_PROGRAM"]
        try:
            os.environ["WIREMILL_PROGRAM"] = "/proc/nowhere/wiremill"
            with self.assertRaisesRegex(FileNotFoundError, "WIREMILL_PROGRAM"):
                wiremill.run(MODEL, "x", "y")
        finally:
            os.environ["WIREMILL_PROGRAM"] = program
        with self.assertRaisesRegex(ValueError, "not an output"):
            wiremill.read(EVENTS)

    @unittest.skipUnless(GENERAL, "no model of the general engine is given")
    def test_a_general_model_finds_the_packages_of_its_engines(self):
        for engine in ENGINES:
            with self.subTest(engine), wiremill.Model(GENERAL, engine=engine) as model:
                self.assertRegex(model.signature, f"^{engine}")
                self.assertLess(np.abs(model.score(self.patches) - self.right).max(), 1e-5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
