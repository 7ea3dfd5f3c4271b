"""terminal.py - runs a command on a pseudo-terminal and reads its screen, by steps of standard input, one a line:
    size ROWSxCOLUMNS   key TEXT (escapes as in Python)   click REGEX (the line that has it)   until REGEX   never REGEX   signal NAME   print   run COMMAND
    normal (the alternate screen was left, the cursor is shown)
A little shell stands between: it prints "shell: stopped" (then a line continues the command), and at the end
"shell: exit N", with "terminal as before" if the command left the mode of the terminal as it was.
"""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

LIMIT_S = 240  # of a step; a disk may be slow
MODES = {"?1049", "?25", "?7", "?1000", "?1006"}


class Screen:
    """What a terminal shows; a code that wiremill is not known to use is an error."""

    def __init__(self, rows, columns):
        self.rest, self.modes, self.other, self.pid, self.head = b"", {}, None, None, ""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns, self.row, self.column = rows, columns, 0, 0
        self.cells = [[" "] * columns for _ in range(rows)]

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, data):
        data = self.rest + data
        try:
            text, self.rest = data.decode(), b""
        except UnicodeDecodeError as error:
            text, self.rest = data[: error.start].decode(), data[error.start :]
            assert len(self.rest) < 4, f"not UTF-8: {self.rest[:20]}"
        if not self.pid:
            self.head += text
            found = re.search(r"shell: pid (\d+)\r", self.head)
            self.pid = int(found.group(1)) if found else None
        cut = re.search(r"\x1b(\[[?0-9;]*)?$", text)
        if cut:
            text, self.rest = text[: cut.start()], text[cut.start() :].encode() + self.rest
        for code, arguments, final, plain in re.findall(r"(\x1b\[([?0-9;]*)([A-Za-z]))|([^\x1b]|\x1b)", text):
            self.code(arguments, final) if code else self.put(plain)

    def code(self, arguments, final):
        numbers = [int(n or 1) for n in arguments.split(";")] if not arguments.startswith("?") else []
        if final == "H":
            self.row, self.column = (numbers + [1, 1])[0] - 1, (numbers + [1, 1])[1] - 1
        elif final == "J" and arguments == "2":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K":
            if self.row < self.rows:
                self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
        elif final in "hl" and arguments in MODES:
            if arguments == "?1049":
                self.other, self.cells = self.cells, self.other or [[" "] * self.columns for _ in range(self.rows)]
                if final == "h":
                    self.saved = self.row, self.column
                else:
                    self.row, self.column = self.saved
            self.modes[arguments] = final == "h"
        else:
            assert final == "m", f"unknown code ESC[{arguments}{final}"

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row >= self.rows:
                self.cells, self.row = self.cells[1:] + [[" "] * self.columns], self.rows - 1
        elif character == "\x07":
            pass
        else:
            assert character >= " ", f"control character {character!r}"
            if self.row < self.rows and self.column < self.columns:  # a terminal that was just made smaller cuts
                self.cells[self.row][self.column] = character
            self.column += 1


def shell(command):
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    before = termios.tcgetattr(0)
    printed, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(printed, 1)  # the line with the number comes before all that the command writes
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    print("shell: pid", pid, flush=True)
    os.write(told, b".")
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        same = "as before" if termios.tcgetattr(0) == before else "CHANGED"
        if not os.WIFSTOPPED(status):
            print(f"shell: exit {os.waitstatus_to_exitcode(status)}, terminal {same}", flush=True)
            return
        print(f"shell: stopped, terminal {same}", flush=True)
        sys.stdin.readline()
        os.tcsetpgrp(0, pid)
        os.kill(pid, signal.SIGCONT)


def main():
    child, fd = pty.fork()
    if child == 0:
        shell(sys.argv[1:])
        os._exit(0)
    screen = Screen(24, 80)

    def pump(seconds):
        try:
            if select.select([fd], [], [], seconds)[0]:
                screen.feed(os.read(fd, 65536))
                return True
        except OSError:  # the command has ended
            time.sleep(seconds)
        return False

    def until(pattern):
        end = time.monotonic() + LIMIT_S
        while not re.search(pattern, screen.text(), re.M):
            assert time.monotonic() < end, f"not on the screen: {pattern}"
            pump(0.05)

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        for line in sys.stdin:
            step, _, rest = line.rstrip("\n").partition(" ")
            while pump(0):
                pass
            if step == "size":
                rows, columns = map(int, rest.split("x"))
                screen.resize(rows, columns)
                fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            elif step == "key":
                os.write(fd, rest.encode().decode("unicode_escape").encode("latin1"))
            elif step == "click":
                until(rest)
                row = 1 + next(i for i, text in enumerate(screen.text().split("\n")) if re.search(rest, text))
                os.write(fd, f"\x1b[<0;3;{row}M\x1b[<0;3;{row}m".encode())
            elif step == "until":
                until(rest)
            elif step == "never":
                assert not re.search(rest, screen.text(), re.M), f"on the screen: {rest}"
            elif step == "signal":
                os.kill(screen.pid, getattr(signal, "SIG" + rest))
            elif step == "print":
                print(screen.text())
            elif step == "run":
                assert os.system(rest) == 0, f"failed: {rest}"
            elif step == "normal":
                wrong = {"?1049": True, "?25": False, "?7": False, "?1000": True, "?1006": True}
                for mode, bad in wrong.items():
                    assert screen.modes.get(mode) is (not bad), f"mode {mode} was left on the terminal"
            else:
                raise AssertionError(f"no step {step}")
    except AssertionError as error:
        print(f"{error}; at step: {line.rstrip()}\n{screen.text()}")
        sys.exit(1)
    finally:
        os.close(fd)  # hangs up: the command ends, too


main()
