"""assemble.py - puts the manual's Markdown together: pages of ops/manual, of schema/, and what the programs print of their tables.

usage: assemble.py TARGET [BUILD]     TARGET is made again: TARGET/conf.py, TARGET/index.md, ...
BUILD: with the pages of the command line, which its programs print. Without it: what `wiremill help PAGE` shows, as text.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import terminal

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent

# Pages that the code's folders own, and where the manual has them.
INCLUDED = {
    "schema/FORMATS.md": "reference/formats.md",
    "schema/OUTPUTS.md": "reference/outputs.md",
    "schema/SECURITY.md": "reference/security.md",
    "schema/CONFINEMENT.md": "reference/confinement.md",
    "ops/farm/PROFILES.md": "reference/profiles.md",
    "ops/CHANGELOG.md": "reference/changelog.md",
}


def rewritten(text, page):
    """Links between included pages lead to their places in the manual."""
    def target(match):
        name, anchor = match.group(2), match.group(3) or ""
        here = (ROOT / page).parent
        path = (here / name).resolve()
        for source, place in INCLUDED.items():
            if path == (ROOT / source).resolve():
                return f"]({pathlib.Path(place).name}{anchor})"
        if path.is_relative_to(HERE.resolve()):
            return f"](../{path.relative_to(HERE.resolve())}{anchor})"
        return match.group(0)
    return re.sub(r"(\]\()([^)#:]+\.md)(#[^)]*)?\)", target, text)


def printed(program, *words):
    """What a program prints; it must succeed. WM_RUN: what runs programs of another architecture."""
    return subprocess.run([*os.environ.get("WM_RUN", "").split(), program, *words], check=True, capture_output=True, text=True).stdout


def command_line(binaries, target):
    """One page for each verb and program, and their list in the order of `wiremill --help`."""
    pages = []
    for program in "wiremill", "wiremill-worker":
        for line in printed(binaries / program, "--print-pages").splitlines():
            name, owner, *verb = line.split()
            (target / f"{name}.md").write_text(printed(binaries / owner, "--print-markdown", *verb))
            pages.append(name)
    head = (HERE / "reference/cli/index.md").read_text()
    (target / "index.md").write_text(
        head + "\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n")


def waits():
    """The table of schema/wm_wait.h."""
    text = re.sub(r'"\s*\\?\n\s*"', "", (ROOT / "schema/wm_wait.h").read_text())
    lines = ["| name | severity | pause | what | what to do |", "|---|---|---|---|---|"]
    for name, severity, pause, what, advice in re.findall(
            r'ROW \(\w+, \d+, "([^"]+)", (\w+), (true|false), \w+,[\s\\]*"([^"]+)",[\s\\]*"([^"]+)"\)', text):
        lines.append(f"| `{name}` | {severity.lower()} | {'yes' if pause == 'true' else ''} | {what} | {advice} |")
    return "\n".join(lines) + "\n"


GENERATED = {"waits": waits}


def filled(text):
    """Replaces each line `% generated: NAME` by that table."""
    return re.sub(r"^% generated: (\w+)$", lambda match: GENERATED[match.group(1)](), text, flags=re.M)


def pages(target):
    """The pages themselves, those of other folders among them, with their tables."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(HERE, target, ignore=shutil.ignore_patterns("README.md", "requirements.txt", "*.mk", "assemble.py", "terminal.py", "__pycache__"))
    for source, place in INCLUDED.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(rewritten((ROOT / source).read_text(), source))
    for page in target.glob("*/*.md"):
        page.write_text(filled(page.read_text()))


def as_text(target, source):
    """The pages of `source` for a terminal, and their list in the order of its index."""
    shutil.rmtree(target, ignore_errors=True)
    verbs = set(re.findall(r"row \((\w+)\)", (ROOT / "ops/verbs.h").read_text()))
    titles = {}
    for path in re.findall(r"^\w+/[\w-]+$", (source / "index.md").read_text(), flags=re.M):
        markdown = (source / f"{path}.md").read_text()
        titles[path] = re.search(r"^# (.+)$", markdown, flags=re.M).group(1)
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / f"{path}.txt").write_text(terminal.page(markdown, path, verbs))
    (target / "manual.txt").write_text(terminal.listed(titles, verbs))


def main():
    target = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        pages(target)
        command_line(pathlib.Path(sys.argv[2]) / "bin", target / "reference/cli")
        return
    with tempfile.TemporaryDirectory() as folder:
        pages(pathlib.Path(folder))
        as_text(target, pathlib.Path(folder))


if __name__ == "__main__":
    main()
