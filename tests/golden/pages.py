"""pages.py - types the manual's examples: runs the shell and Python blocks of pages, and compares what they print.

usage: pages.py FOLDER PAGE...     FOLDER is made for the pages' work; needs wiremill's programs in PATH

A page's blocks run one after another in one shell, in a folder of the page's own that has data/events-1.h5 and
data/events-2.h5. In Markdown:
  ```console   lines `$ COMMAND` (going on after a last backslash, or on lines `> `) and what each prints, both streams. `...`
               stands for any text, on a line alone for any number of lines. A command without output must exit with 0.
  ```python    is run as a program, after the page's other ones: names stay.  ```pycon is checked as doctest does it.
  % file: NAME       before a block: the block is that file's text, and is written.
  % run: COMMAND     runs unseen; it must exit with 0.
  % not run: REASON  before a block: it is only shown. A block ```text whose lines begin with `$ ` needs that line, too.
Prints one line of TAP for each page. A page that starts servers need not end them.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

PATIENCE_S = int(os.environ.get("PATIENCE_S", "300"))


class Shell:
    """A bash of a page; commands share its variables, its folder and its jobs."""

    def __init__(self, folder):
        self.folder = folder
        environment = dict(os.environ, HOME=str(folder), COLUMNS="80", LC_ALL="C.UTF-8", TERM="dumb", NO_COLOR="1")
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=environment, start_new_session=True)

    def run(self, command):
        """Returns what the command printed and its exit code."""
        out = self.folder.with_suffix(".out")
        script = self.folder.with_suffix(".sh")
        script.write_text(command + "\n")
        # The code goes down the pipe: what stays in the background holds only the file of its output.
        self.process.stdin.write(f". '{script}' >'{out}' 2>&1 </dev/null; echo $?\n".encode())
        self.process.stdin.flush()
        signal.alarm(PATIENCE_S)
        try:
            code = int(self.process.stdout.readline())
        finally:
            signal.alarm(0)
        return out.read_text(errors="replace"), code

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def pattern_of(line):
    return ".*".join(re.escape(part) for part in line.rstrip().split("..."))


def fits(expected, printed):
    """Whether the printed lines are the expected ones; returns the first expected line that is not found, or None."""
    def walk(e, p):
        while e < len(expected):
            if expected[e].strip() == "...":
                if e + 1 == len(expected):
                    return None
                rest = [walk(e + 1, q) for q in range(p, len(printed) + 1)]
                return None if None in rest else max(rest)
            if p == len(printed) or not re.fullmatch(pattern_of(expected[e]), printed[p].rstrip()):
                return e
            e, p = e + 1, p + 1
        return e if p < len(printed) else None
    return walk(0, 0)


def commands_of(block):
    """(command, expected lines) of a console block."""
    commands, lines = [], block.splitlines()
    i = 0
    while i < len(lines):
        if not lines[i].startswith("$ "):
            raise ValueError(f"a console block begins with `$ `, not: {lines[i]}")
        command = lines[i][2:]
        while lines[i].endswith("\\") or (i + 1 < len(lines) and lines[i + 1].startswith("> ")):
            i += 1
            command += "\n" + (lines[i][2:] if lines[i].startswith("> ") else lines[i])
        expected = []
        i += 1
        while i < len(lines) and not lines[i].startswith("$ "):
            expected.append(lines[i])
            i += 1
        while expected and not expected[-1].strip():
            expected.pop()
        commands.append((command, expected))
    return commands


BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=fence) *$|^% (?P<word>file|run|not run): (?P<text>[^\n]*)$",
                   re.M | re.S)


class Page:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.shell = Shell(folder)
        self.python = []
        self.doctests = {}
        self.faults = []
        self.ran = 0

    def line_of(self, match):
        return self.path.read_text()[:match.start()].count("\n") + 1

    def check_mark(self, match):
        """A `% ` line is a paragraph of its own with the block behind it: else text is outside of its block, and shown as prose."""
        text = self.path.read_text()
        before, behind = text[:match.start()].rstrip("\n").rpartition("\n")[2], text[match.end() + 1:]
        if not text[:match.start()].endswith("\n\n") and before and not before.startswith("% "):
            self.fault(self.line_of(match), f"no blank line before `{match[0]}`, but: {before}")
        if match["word"] != "run" and not behind.startswith(("```", "% ")):
            self.fault(self.line_of(match), f"no block behind `{match[0]}`")

    def fault(self, line, text):
        self.faults.append(f"{self.path}:{line}: {text}")

    def console(self, line, body):
        for command, expected in commands_of(body):
            printed, code = self.shell.run(command)
            self.ran += 1
            if not expected:
                if code:
                    self.fault(line, f"`{command}` exits with {code} and prints:\n{printed}")
            elif (at := fits(expected, printed.splitlines())) is not None:
                wanted = expected[at] if at < len(expected) else "(nothing more)"
                self.fault(line, f"`{command}` does not print `{wanted}`, but:\n{printed}")

    def script(self, line, body):
        """Runs the page's Python so far and compares nothing; a mistake is an exit code."""
        self.python.append(body)
        (self.folder / ".page.py").write_text("\n".join(self.python))
        printed, code = self.shell.run("python3 .page.py")
        self.ran += 1
        if code:
            self.fault(line, f"the Python exits with {code}:\n{printed}")

    def interactive(self, line, body):
        (self.folder / ".page.txt").write_text(body)
        printed, code = self.shell.run("python3 -m doctest -o ELLIPSIS -o NORMALIZE_WHITESPACE .page.txt")
        self.ran += 1
        if code:
            self.fault(line, f"the Python session differs:\n{printed}")

    def run(self):
        pending = None
        for match in BLOCK.finditer(self.path.read_text()):
            line, word, body = self.line_of(match), match["word"], match["body"]
            kind = (match["kind"] or "").strip()
            if word:
                self.check_mark(match)
            if word == "run":
                printed, code = self.shell.run(match["text"])
                if code:
                    self.fault(line, f"`{match['text']}` exits with {code} and prints:\n{printed}")
            elif word:
                pending = word, match["text"]
                continue
            elif pending and pending[0] == "file":
                target = self.folder / pending[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(body)
            elif pending:
                pass
            elif kind == "console":
                self.console(line, body)
            elif kind == "python":
                self.script(line, body)
            elif kind == "pycon":
                self.interactive(line, body)
            elif kind in ("sh", "bash", "shell") or body.startswith("$ "):
                self.fault(line, "a block of commands is ```console, or has `% not run: REASON` before it")
            pending = None
        self.shell.end()


def main():
    base = pathlib.Path(sys.argv[1]).resolve()
    base.mkdir(parents=True, exist_ok=True)
    data = base / "data"
    data.mkdir(exist_ok=True)
    for n in 1, 2:
        if not (data / f"events-{n}.h5").exists():
            subprocess.run(["wiremill", "synth", "--events", "1", "--seed", str(n), "--run", str(n), "--hits", "2000", "--tpcs", "1",
                            "--output", data / f"events-{n}.h5"], check=True, capture_output=True)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError(f"a command takes more than {PATIENCE_S} s")))
    failures = 0
    for n, name in enumerate(sys.argv[2:], 1):
        path = pathlib.Path(name)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="p", dir=base))
        (folder / "data").mkdir()
        for file in data.iterdir():
            os.link(file, folder / "data" / file.name)
        page = Page(path, folder)
        try:
            page.run()
        except (ValueError, TimeoutError) as error:
            page.fault(0, error)
            page.shell.end()
        print(f"{'not ok' if page.faults else 'ok'} {n} - {path}: {page.ran} commands")
        for fault in page.faults:
            print("# " + fault.replace("\n", "\n#   "))
        sys.stdout.flush()
        failures += bool(page.faults)
        if not page.faults:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"1..{len(sys.argv) - 2}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
