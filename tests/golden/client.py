"""client.py - tries wiremill.Client of the Python package, by a broker.

usage: client.py waiting|scoring BROKER MODEL.wmm
waiting: no worker scores anything. scoring: workers do.
"""
import copy
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import typing
import unittest

import numpy as np

import wiremill

WHAT, BROKER, MODEL = sys.argv[1:4]
N = 3000
SLOW = 60   # seconds that nothing here takes


def make():
    model = wiremill.Model(MODEL)
    random = np.random.default_rng(1)
    patches = np.where(random.random((N, *model.shape)) < 0.1, random.random((N, *model.shape)), 0).astype("f4")
    patches[7].flat[3] = np.nan
    return model, patches


class Waiting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.patches = make()

    def test_results_are_waited_for_so_long(self):
        with wiremill.Client(BROKER) as client:
            scoring = client.submit(self.patches[:10])
            self.assertFalse(scoring.done())
            with self.assertRaisesRegex(TimeoutError, "of 10 patches are scored"):
                scoring.result(0.05)
            self.assertLess(scoring.progress(), 10)
            self.assertIn("of 10 patches", repr(scoring))
            with self.assertRaisesRegex(TimeoutError, "2 submissions"):
                list(client.as_completed([scoring, client.submit(self.patches[:1])], timeout=0.05))

    def interrupted(self, call):
        """Whether SIGINT ends a call at once."""
        started = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaises(KeyboardInterrupt):
            call()
        self.assertLess(time.monotonic() - started, SLOW)

    def test_ctrl_c_is_served(self):
        def interrupt(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with wiremill.Client(BROKER, memory=self.patches[:200].nbytes) as client:
                self.interrupted(client.submit(self.patches[:100]).result)      # while it waits for scores
                scoring = client.submit(self.patches[:100])
                self.interrupted(lambda: client.submit(self.patches[:100]))     # ... for room
                self.interrupted(lambda: list(client.as_completed([scoring])))
                self.interrupted(lambda: client.score(self.patches))
            self.interrupted(lambda: wiremill.Client("ipc:///proc/nowhere", patience=2 * SLOW))
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_what_is_refused(self):
        with wiremill.Client(BROKER) as client:
            for given, text in ((self.patches[:, 1:], "the model takes"), (self.patches[0], r"give patches\[None\]"),
                                (np.array(["a"]), "dtype")):
                with self.assertRaisesRegex(ValueError, text):
                    client.submit(given)
        with self.assertRaisesRegex(ValueError, "closed"):
            client.submit(self.patches)
        with self.assertRaisesRegex(TypeError, "HOST:PORT"):
            wiremill.Client(BROKER.encode())
        for arguments, text in (({"patience": 0}, "patience"), ({"memory": 0}, "memory"), ({"memory": 2**64}, "memory")):
            with self.assertRaisesRegex(ValueError, text):
                wiremill.Client(BROKER, **arguments)
        for broker, options, fault in (("carrier pigeon", {}, "usage"), ("ipc:///proc/nowhere", {"patience": 0.3}, "host"),
                                       (BROKER, {"join_file": "/proc/nowhere/key"}, "usage")):
            with self.assertRaises(wiremill.WiremillError) as raised:
                wiremill.Client(broker, **options)
            self.assertEqual(raised.exception.fault, fault)

    def test_a_killed_helper(self):
        client = wiremill.Client(BROKER)
        scoring = client.submit(self.patches[:10])
        pids = subprocess.run(["pgrep", "-f", f"client --of {os.getpid()} "], stdout=subprocess.PIPE, check=True).stdout
        for pid in pids.split():
            os.kill(int(pid), signal.SIGKILL)
        for _ in range(2):
            with self.assertRaisesRegex(wiremill.WiremillError, "helper process") as raised:
                scoring.result(SLOW)
        self.assertEqual(raised.exception.fault, "host")
        self.assertFalse(client.submit(self.patches[:10]).done())


class Scored(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.patches = make()
        cls.right, cls.status = cls.model.score(cls.patches, status=True)
        cls.client = wiremill.Client(BROKER)

    def same(self, got, want=None):
        want = self.right if want is None else want
        self.assertEqual((got.dtype, got.shape), (np.float32, want.shape))
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_the_scores_are_those_of_a_model(self):
        seen = []
        scores, status = self.client.score(self.patches, status=True, progress=lambda *done: seen.append(done))
        self.same(scores)
        self.assertEqual(status.tobytes(), self.status.tobytes())
        self.assertEqual(status[7], wiremill.BAD_PIXEL)
        self.assertEqual(seen, [(2048, N), (N, N)])
        self.same(self.client.score(self.patches[..., None].astype("f8")))
        self.same(self.client.score(self.patches[::3]), self.right[::3])
        self.assertEqual(self.client.score(self.patches[:0]).shape, (0, self.model.n_output))

    def test_submissions(self):
        parts = [slice(i * 100, i * 100 + 37 + i) for i in range(20)]
        waiting = {self.client.submit(self.patches[part]): part for part in parts}
        seen = list(self.client.as_completed(waiting, timeout=SLOW))
        self.assertEqual(set(seen), set(waiting))
        for scoring, part in waiting.items():
            self.assertTrue(scoring.done())
            self.assertEqual(scoring.progress(), scoring.n)
            self.same(scoring.result(), self.right[part])
            self.same(scoring.result(0, status=True)[0], self.right[part])
        for _ in range(20):
            self.client.submit(self.patches[:50])   # whose scores nobody wants
        self.same(self.client.submit(self.patches).result(SLOW))

    def test_threads(self):
        faults = []

        def work(first):
            for i in range(5):
                part = slice(first * 50 + i, first * 70 + 200)
                if self.client.score(self.patches[part]).tobytes() != self.right[part].tobytes():
                    faults.append(part)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        shared = self.client.submit(self.patches)
        results = []
        threads += [threading.Thread(target=lambda: results.append(shared.result(SLOW).tobytes())) for _ in range(3)]
        for thread in threads[8:]:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        self.assertEqual(set(results), {self.right.tobytes()})
        self.assertEqual(len(results), 3)

    def test_facts(self):
        for name in ("shape", "n_value", "n_output", "labels", "sha256"):
            self.assertEqual(getattr(self.client, name), getattr(self.model, name))
        self.assertIn("wiremill.Client", repr(self.client))

    def test_copies_connect_again(self):
        for twin in copy.copy(self.client), pickle.loads(pickle.dumps(self.client)):
            self.same(twin.score(self.patches[:10]), self.right[:10])
        with self.assertRaisesRegex(TypeError, "cannot be copied"):
            copy.copy(self.client._handle)

    def test_a_child_of_fork(self):
        child = os.fork()
        if child == 0:
            try:
                self.client.score(self.patches)
            except wiremill.WiremillError as why:
                with wiremill.Client(BROKER) as own:
                    os._exit("before fork" not in str(why) or own.score(self.patches).tobytes() != self.right.tobytes())
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(self.client.score(self.patches[:5]), self.right[:5])

    def test_ctrl_c_between_the_pieces_of_a_model(self):
        def interrupt(number, frame):
            raise KeyboardInterrupt

        seen, many = [], np.zeros((20 * 2048, *self.model.shape), "f4")
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            with self.assertRaises(KeyboardInterrupt):
                self.model.score(many, progress=lambda *done: seen.append(done))
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertLess(len(seen), 20)

    def test_everything_public_is_documented_and_typed(self):
        for kind in (wiremill.Client, wiremill.Scoring):
            self.assertTrue(inspect.getdoc(kind))
            for name, function in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    self.assertTrue(inspect.getdoc(function), function)
                    wanted = set(inspect.signature(function).parameters) - {"self"} | {"return"}
                    self.assertEqual(set(typing.get_type_hints(function)), wanted, function)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", "Waiting" if WHAT == "waiting" else "Scored"])
