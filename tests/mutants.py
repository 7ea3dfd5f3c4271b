"""mutants.py - changes one place of the sources at a time and shows which changes no test notices (`make mutants`).

usage: mutants.py draw [N] [SEED] [PREFIX]   draws N mutants (60) by SEED (the commit) of the files whose paths begin with PREFIX
       mutants.py list [PREFIX]              prints all mutants as diffs
       mutants.py check                      every entry of tests/mutants-equivalent.txt is a mutant of the sources, else exit 1

A mutant differs from the sources in one operator, number, condition or statement. N is shared out among the files by how many
each has; SEED orders those of a file. A mutant is tried in a copy of the build (tests/plants.sh copy), by the unit tests of its
room that link its file and, if it is one of the broker's core, by seeds of the simulator, until one fails: first those that are
quick, have the name of the file, and have noticed others of it. Each must pass without a mutant before. One that takes much
longer than then is stopped: the mutant hangs, and counts as killed.
Other mutants are drawn instead of those that do not compile, that gcc translates to the machine code of the original, and
that tests/mutants-equivalent.txt lists. JOBS: so many at a time (default: one for each CPU). HANG_S: how much longer than
20 times as long as without a mutant a test may take (default: 10).
Exit 1: the killed are fewer than GOAL (95 %), by more than chance explains.
"""
import collections
import difflib
import fcntl
import fnmatch
import glob
import hashlib
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

GOAL = 0.95
EQUIVALENT = "tests/mutants-equivalent.txt"
HANG_S = float(os.environ.get("HANG_S") or 10)
BUILD = os.environ.get("WM_BUILD", "build/release")
# What is mutated: by room, whose unit tests are test_ROOM_*. Not wm_bench.c, wm_peak.c and the rest of ops/campaign: whole
# programs test them.
FILES = {
    "broker": ["broker/core/wm_core*.c", "broker/disk/*.c", "broker/campaign/*.c"],
    "producer": ["producer/[!ngs]*/wm_" + name + ".c" for name in
                 ("channels", "cut", "dense", "pack", "pedestal", "runs", "segments", "stitch", "wires", "writer*")],
    "gpuworker": ["gpuworker/wm_*.c", "gpuworker/engine/wm_*.c", "gpuworker/modes/wm_[!b]*.c"],
    "kernels": ["kernels/import/wm_madds.c", "kernels/judge/wm_[!p]*.c", "kernels/family/wm_[!l]*.c", "kernels/onnx/*.c"],
    "gateway": ["producer/[ns]*/wm_" + name + ".c" for name in
                ("gather", "heap", "infer", "region", "signature*", "slice")],
    "ops": ["ops/lib/wm_lib.c"] + ["ops/campaign/wm_" + name + ".c" for name in ("columns", "gpus", "import_cache", "urls")],
}
SIMULATED = "broker/core/wm_core*.c"
SEEDS = "20"
RUNNING = set()  # process groups of tests
UNLINKED = 127  # exit code of a program that lacks a function


class Mutant(collections.namedtuple("Mutant", "file start end text what")):
    """Bytes start to end of a file replaced by text, which has as many lines; what: the change in words."""

    def source(self, original):
        return original[:self.start] + self.text + original[self.end:]

    def lines(self, original):
        """The changed lines before and after, without the blanks at their ends."""
        first = original.rfind(b"\n", 0, self.start) + 1
        last = original.find(b"\n", self.end)
        before = original[first:last]
        after = original[first:self.start] + self.text + original[self.end:last]
        return tuple(tuple(line.strip().decode() for line in part.split(b"\n")) for part in (before, after))

    def where(self, original):
        return "%s:%d" % (self.file, original.count(b"\n", 0, self.start) + 1)


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- mutants of a file ---------------------------------------------------------------------------
BINARY = {"<": "<= >=", ">": ">= <=", "<=": "< >", ">=": "> <", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
          "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"}
ASSIGNED = {"+=": "-= =", "-=": "+= =", "*=": "/=", "/=": "*=", "|=": "= &=", "&=": "= |=", "<<=": ">>=", ">>=": "<<="}
# Calls in which nothing is changed, and which are not left out: what they do, tests do not look at (words, memory given back).
UNTOUCHED = ("assert", "static_assert", "_Static_assert", "free", "printf", "fprintf", "wm_core_log", "wm_core_warn", "wm_lane_log")


def changes(node):
    """Yields (start, end, text, what) of one node of the tree."""
    kind, field = node.type, node.child_by_field_name

    def put(at, text, what=None):
        return at.start_byte, at.end_byte, text, what or "%s -> %s" % (at.text.decode(), text or "nothing")

    if kind in ("binary_expression", "assignment_expression"):
        operator, left, right = field("operator"), field("left"), field("right")
        for other in (BINARY if kind[0] == "b" else ASSIGNED).get(operator.type, "").split():
            yield put(operator, other)
        if operator.type in ("&&", "||"):
            yield left.start_byte, right.start_byte, "", "without its left side"
            yield left.end_byte, right.end_byte, "", "without its right side"
        if operator.type in ("+=", "-=") and right.type != "number_literal":
            yield put(right, "1", "counts 1 each time")
    elif kind == "update_expression":
        operator = field("operator")
        yield put(operator, {"++": "--", "--": "++"}[operator.type])
    elif kind == "unary_expression" and field("operator").type in "!-~":
        yield put(field("operator"), "")
    elif kind == "number_literal":
        text = node.text.decode()
        yield put(node, "1" if text == "0" else "0")
        if is_memory(node):
            return  # more of it than is needed changes nothing
        if text not in ("0", "1"):
            yield put(node, "(%s + 1)" % text)
        elif text == "1":
            yield put(node, "2")
    elif kind in ("true", "false"):
        yield put(node, "false" if kind == "true" else "true")
    elif kind in ("if_statement", "while_statement", "conditional_expression", "for_statement"):
        condition = field("condition")
        if condition:
            for value in ("0",) if kind[0] in "wf" else ("1", "0"):
                text = "(%s)" % value if condition.type == "parenthesized_expression" else value
                yield put(condition, text, "condition -> %s" % value)
    elif kind in ("expression_statement", "break_statement", "continue_statement") and node.named_child_count + (kind[0] != "e"):
        yield put(node, ";", "statement left out")
    elif kind == "return_statement" and not node.named_child_count:
        yield put(node, ";", "statement left out")


def is_memory(node):
    """Whether a number is part of how much memory is taken."""
    while node and not node.type.endswith("statement"):
        if node.type == "array_declarator" or called(node) in ("malloc", "calloc", "realloc", "zmalloc"):
            return True
        node = node.parent
    return False


def called(node):
    if node and node.type == "expression_statement" and node.named_child_count:
        node = node.named_child(0)
    name = node.child_by_field_name("function") if node and node.type == "call_expression" else None
    return name.text.decode() if name else None


def mutants_of(path):
    """Returns the mutants of a file, in its order: of those with one text the first."""
    import tree_sitter
    import tree_sitter_c
    source = read(path)
    root = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language())).parse(source).root_node
    found, waiting, texts = [], [root], {source}
    while waiting:
        node = waiting.pop()
        if called(node) in UNTOUCHED or node.type in ("sizeof_expression", "preproc_include", "ERROR"):
            continue
        for start, end, text, what in changes(node):
            text = text.encode() + b"\n" * source.count(b"\n", start, end)
            mutant = Mutant(path, start, end, text, what)
            if mutant.source(source) not in texts:
                texts.add(mutant.source(source))
                found.append(mutant)
        waiting += reversed(node.children)
    return found


def files(prefix=""):
    """Returns {file: room} of what is mutated."""
    return {path: room for room, patterns in FILES.items() for pattern in patterns
            for path in sorted(glob.glob(pattern)) if path.startswith(prefix)}


# ---- mutants that are equivalent -----------------------------------------------------------------
def equivalents():
    """Returns {(file, lines before, lines after): reason}, of blocks `FILE: reason`, `- line` ..., `+ line` ..."""
    known, block = {}, []
    for line in (open(EQUIVALENT, encoding="utf-8").read() + "\n").split("\n"):
        if line.startswith("#"):
            continue
        if line.strip():
            block.append(line)
        elif block:
            file, _, reason = block[0].partition(": ")
            sides = (tuple(text[1:].strip() for text in block[1:] if text[0] == sign) for sign in "-+")
            known[(file, *sides)] = reason
            block = []
    return known


def check():
    known, stale = equivalents(), 0
    mutants = {file: {(file, *mutant.lines(read(file))) for mutant in mutants_of(file)}
               for file in {key[0] for key in known} if os.path.exists(file)}
    for key, reason in known.items():
        if key not in mutants.get(key[0], ()) or not reason.strip():
            print("%s: no reason, or no mutant of the sources any more; look at it again:\n  %s\n- %s\n+ %s" %
                  (EQUIVALENT, key[0], "\n- ".join(key[1]), "\n+ ".join(key[2])))
            stale += 1
    return stale == 0


# ---- trying one ----------------------------------------------------------------------------------
def limited(program):
    """In the child: a group of its own; a mutant may ask for all memory, or fill the disk. Tests of regions make a file of
    terabytes, all of them a hole."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    if not program.endswith("_region"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def room_for_files():
    """Returns where tests put their files: in memory, if it has room for them, as tests of damage spend most of their time in
    fdatasync on a disk; a mutant may write 2 GiB (limited)."""
    memory = "/dev/shm"
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK | os.X_OK):
        return None
    at = os.statvfs(memory)
    return memory if at.f_bavail * at.f_frsize >= 8 << 30 else None


def run(command, seconds, libraries=""):
    """Returns (exit code, or None where it was stopped; seconds). Its temporary files are removed, its children ended. In unit
    tests glibc fills freed memory, so that reading it is noticed; the simulator and thousands of starts would take ten times as
    long."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wm-", dir=room_for_files(), ignore_cleanup_errors=True) as folder:
        environment = dict(os.environ, TMPDIR=folder, LD_LIBRARY_PATH=libraries, LD_BIND_NOW="1",
                           MALLOC_PERTURB_="0" if "--seeds" in command or command[0].endswith("_damage") else "165")
        child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, preexec_fn=lambda: limited(command[0]))
        RUNNING.add(child.pid)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        end(child.pid)
        RUNNING.discard(child.pid)
        child.wait()
    return code, time.monotonic() - began


def end(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_shared(test):
    """Not what wraps functions (of the linker's --wrap: calls inside a shared library would stay)."""
    return test != "sim" and b"__wrap_" not in read(glob.glob("tests/unit/*/%s.c" % test)[0])


class Copy:
    """A copy of the build, used by one thread for one mutant after another. Tests are linked with shared libraries of the rooms,
    so that a mutant links one library again and no test. Not so the simulator and tests that wrap functions: they are linked
    again. The general engines contain functions of kernels, and keep those without the mutant."""

    def __init__(self, folder, of=None):
        self.folder = folder
        if of:
            shutil.copytree(of.folder, folder, symlinks=True, dirs_exist_ok=True)
        else:
            subprocess.run(["tests/plants.sh", "copy", folder], check=True)

    def make(self, *targets):
        return subprocess.run(["tests/plants.sh", "make", self.folder, *targets],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def put(self, file, source):
        with open(self.folder + "/" + file, "wb") as out:
            out.write(source)

    def code(self, file):
        """Compiles a file as it is in this copy; returns the digest of its machine code and data, or None."""
        built = "%s/obj/%s.o" % (BUILD, file[:-2])
        if os.path.exists(self.folder + "/" + built):
            os.remove(self.folder + "/" + built)
        if not self.make(built):
            return None
        bare = self.folder + "/bare.o"
        subprocess.run(["objcopy", "--strip-debug", "--remove-section=.comment", self.folder + "/" + built, bare], check=True)
        return hashlib.sha256(read(bare)).hexdigest()

    def build(self, tests):
        """Builds these tests; returns whether that succeeds."""
        by_kind = ([], [])
        for test in tests:
            by_kind[is_shared(test)].append(BUILD + "/tests/" + test)
        return all(self.make("SHARED=1" if kind else "SHARED=", "-j2", *paths) for kind, paths in enumerate(by_kind) if paths)

    def commands(self, test):
        """What is run for a test: unit tests as they are; the simulator, of campaigns and of brokers for clients."""
        program = "%s/%s/tests/%s" % (self.folder, BUILD, test)
        return [[program]] if test != "sim" else [[program, "--seeds", "1", SEEDS], [program, "--clients", "--seeds", "1", SEEDS]]

    def fails(self, test, seconds):
        """Runs a test; returns (None, "failed", "hangs" or "not linked"; seconds). One that fails is run again: it has failed if
        it does so twice."""
        took, libraries = 0, os.path.abspath("%s/%s/lib" % (self.folder, BUILD))
        for command in self.commands(test):
            code, more = run(command, seconds, libraries)
            took += more
            if code == UNLINKED:
                return "not linked", took
            if code is not None and code != 0:
                code, more = run(command, seconds, libraries)
                took += more
            if code != 0:
                return "hangs" if code is None else "failed", took
        return None, took


class Trial:
    """The draw: candidates and quota of each file, tests with the time that each takes, what became of each mutant."""

    def __init__(self, prefix, count, seed):
        self.lock = threading.Lock()
        self.stopped = False
        self.room = files(prefix)
        self.source = {file: read(file) for file in self.room}
        self.known = equivalents()
        self.queue = {file: mutants_of(file) for file in self.room}
        self.left = quotas({file: len(queue) for file, queue in self.queue.items()}, count)
        for file, queue in self.queue.items():
            random.Random("%s:%s" % (seed, file)).shuffle(queue)
        self.tests = {file: self.tests_of(file) for file in self.room if self.left[file]}
        self.seconds = {}       # test: seconds without a mutant
        self.original = {}      # file: digest of its machine code
        self.done = []          # (mutant, test that killed it or None, verdict, seconds)
        self.kills = collections.Counter()   # by file and test
        self.dropped = collections.Counter()

    def tests_of(self, file):
        name, room = os.path.basename(file), self.room[file]
        tests = [os.path.basename(path) for path in sorted(glob.glob("%s/tests/test_%s_*" % (BUILD, room)))
                 if not path.endswith((".d", "_gpu_real")) and
                 (" a %s\n" % name) in subprocess.run(["nm", "-a", path], capture_output=True, text=True).stdout]
        return tests + ["sim"] * fnmatch.fnmatch(file, SIMULATED)

    def order(self, file):
        """The tests of a file: first those that are quick, with its name, and that have noticed mutants of it."""
        words = set(os.path.basename(file)[:-2].split("_"))
        return sorted(self.tests[file], key=lambda test: self.seconds[test] / (
            1 + self.kills[file, test] + 9 * bool(words & set(test.split("_")[2:]))))

    def measure(self, copy):
        """Runs tests without a mutant, until all have been run by the threads together."""
        while True:
            with self.lock:
                test = next((t for tests in self.tests.values() for t in tests if t not in self.seconds), None)
                if not test or self.stopped:
                    return
                self.seconds[test] = 0
            verdict, took = copy.fails(test, 600)
            if verdict and not self.stopped:
                raise RuntimeError("%s: %s without a mutant; mend that first" % (test, verdict))
            self.seconds[test] = took

    def next(self):
        """Returns a mutant that is still to be drawn, or None."""
        with self.lock:
            for file in self.left:
                if not self.stopped and self.left[file] and self.queue[file]:
                    self.left[file] -= 1
                    return self.queue[file].pop()
        return None

    def drop(self, mutant, why):
        """The mutant does not count; another of its file takes its place."""
        with self.lock:
            self.dropped[why] += 1
            self.left[mutant.file] += 1

    def attempt(self, copy, mutant):
        file, original = mutant.file, self.source[mutant.file]
        if (file, *mutant.lines(original)) in self.known:
            return self.drop(mutant, "listed as equivalent")
        if file not in self.original:
            copy.put(file, original)
            self.original[file] = copy.code(file)
            assert self.original[file], file + " does not compile"
        try:
            copy.put(file, mutant.source(original))
            code = copy.code(file)
            if not code:
                return self.drop(mutant, "not C")
            if code == self.original[file]:
                return self.drop(mutant, "of the same machine code")
            library = "%s/lib/lib%s.so" % (BUILD, self.room[file])
            if any(map(is_shared, self.tests[file])) and not copy.make("SHARED=1", library):
                return self.drop(mutant, "not linked")
            by, verdict, spent = None, "SURVIVED", 0
            for test in self.order(file):
                if not is_shared(test) and not copy.build([test]):
                    return self.drop(mutant, "not linked")
                failed, took = copy.fails(test, HANG_S + 20 * self.seconds[test])
                spent += took
                if self.stopped:
                    return None
                if failed == "not linked":
                    return self.drop(mutant, failed)
                if failed:
                    self.kills[file, test] += 1
                    by, verdict = test, "hangs" if failed == "hangs" else "killed"
                    break
        finally:
            copy.put(file, original)
        with self.lock:
            self.done.append((mutant, by, verdict, spent))
            print("%-8s %s (%s)%s, %.1f s" %
                  (verdict, mutant.where(original), mutant.what, " by " + by if by else "", spent), flush=True)

    def work(self, copy, ready, errors):
        try:
            self.measure(copy)
            ready.wait()
            while not errors and (mutant := self.next()):
                self.attempt(copy, mutant)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)
            ready.abort()


def quotas(sizes, count):
    """Shares count out by size, by largest remainder; ties by name. No file gets more than it has."""
    total = sum(sizes.values()) or 1
    exact = {file: min(size, count * size / total) for file, size in sizes.items()}
    shares = {file: int(share) for file, share in exact.items()}
    left = max(0, min(count, total) - sum(shares.values()))
    for file in sorted(exact, key=lambda file: (shares[file] - exact[file], file))[:left]:
        shares[file] += 1
    return shares


def wilson(good, tried):
    """Returns the 95 % interval of Wilson's score for good of tried."""
    if not tried:
        return 0.0, 1.0
    z, p = 1.96, good / tried
    middle, half = p + z * z / (2 * tried), z * math.sqrt(p * (1 - p) / tried + z * z / (4 * tried * tried))
    return tuple((middle + sign * half) / (1 + z * z / tried) for sign in (-1, 1))


def diff(mutant):
    original = read(mutant.file)
    sides = [text.decode().splitlines(True) for text in (original, mutant.source(original))]
    return "".join(difflib.unified_diff(*sides, "a/" + mutant.file, "b/" + mutant.file))


def report(trial):
    """Prints survivors, rooms and the score; returns whether the goal is not refuted."""
    high = 1.0
    for mutant, _, verdict, _ in sorted(trial.done):
        if verdict == "SURVIVED":
            print("\nsurvivor: %s\n%s" % (mutant.what, diff(mutant)), end="")
    print("\n%-12s %6s %7s %6s  %s" % ("room", "tried", "killed", "hang", "95 % of intervals as these hold the true share"))
    for room in [*FILES, "all"]:
        verdicts = [verdict for mutant, _, verdict, _ in trial.done if room in ("all", trial.room[mutant.file])]
        if verdicts:
            tried, lived = len(verdicts), verdicts.count("SURVIVED")
            low, high = wilson(tried - lived, tried)
            print("%-12s %6d %7d %6d  %.0f %% (%.0f to %.0f)" % (room, tried, tried - lived, verdicts.count("hangs"),
                                                            100 * (tried - lived) / tried, 100 * low, 100 * high))
    print("drawn again instead of: %s" % (", ".join("%d %s" % (n, why) for why, n in sorted(trial.dropped.items())) or "none"))
    return high >= GOAL


def alone(folder):
    """Makes the folder and returns its lock; ends this process if another holds it."""
    os.makedirs(folder, exist_ok=True)
    lock = open(folder + "lock", "w", encoding="utf-8")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("mutants: another make mutants works in %s: wait for its end" % folder)
    return lock


def draw(count, seed, prefix):
    trial = Trial(prefix, count, seed)
    if not trial.room:
        sys.exit("mutants: T=%s begins the path of no file that is mutated; these are:\n  %s" %
                 (prefix, "\n  ".join(pattern for patterns in FILES.values() for pattern in patterns)))
    untested = [file for file, tests in trial.tests.items() if not tests]
    if untested:
        sys.exit("mutants: no unit test of its room links %s: each of its mutants would survive" % ", ".join(untested))
    jobs = int(os.environ.get("JOBS") or os.cpu_count())
    print("%d mutants of %d files, SEED=%s" % (sum(trial.left.values()), len(trial.room), seed), flush=True)
    folder = BUILD + "/mutants/"
    lock = alone(folder)
    errors, threads, ready = [], [], threading.Barrier(jobs)
    try:
        first = Copy(folder + "0")
        if not first.build({test for tests in trial.tests.values() for test in tests}):
            sys.exit("mutants: the tests do not build without a mutant: type make unit")
        copies = [first] + [Copy(folder + str(number), first) for number in range(1, jobs)]
        threads += [threading.Thread(target=trial.work, args=(copy, ready, errors)) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        trial.stopped = True
        errors.insert(0, "stopped (of the sources only copies were changed)")
        while any(thread.is_alive() for thread in threads):
            for group in list(RUNNING):
                end(group)
            time.sleep(0.1)
    finally:
        for number in range(jobs):
            shutil.rmtree(folder + str(number), ignore_errors=True)
        lock.close()
    good = report(trial)
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):
            sys.exit("mutants: %s" % error)
    return good


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/..")
    verb, *rest = sys.argv[1:] or [""]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if verb == "draw":
        count, seed, prefix = (rest + ["", "", ""])[:3]
        seed = seed or subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
        sys.exit(0 if check() and draw(int(count or 60), seed or "1", prefix) else 1)
    if verb == "list":
        for file in files("".join(rest[:1])):
            for mutant in mutants_of(file):
                print("# %s\n%s" % (mutant.what, diff(mutant)), end="")
    elif verb == "check":
        sys.exit(0 if check() else 1)
    else:
        sys.exit(__doc__.split("\n\n")[1])


if __name__ == "__main__":
    main()
