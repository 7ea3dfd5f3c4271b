"""terminal.py - a page's Markdown as a terminal shows it, 80 columns wide: what `wiremill help PAGE` prints.

Headings begin in the first column, and nothing else does. Links become their text, and the pages that they lead to are
listed at the end. A table whose words are too wide for columns becomes a list.
"""

import itertools
import os
import re
import textwrap

WIDTH = 80
INDENT = 2
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
MARKS = re.compile(r"`+([^`]+)`+|\\([*_<>\[\]|\\#$])|\*\*|(?<![\w*])\*([^\s*][^*]*)\*(?![\w*])|<(https?:[^>]+)>")


def plain(text, seen):
    """Text without marks; targets of links to pages are added to `seen`."""
    def link(match):
        words, target = match.groups()
        if "://" in target:
            return f"{words} ({target})"
        seen[re.sub(r"(\.md)?(#.*)?$", "", target)] = True
        return words

    return MARKS.sub(lambda match: "".join(filter(None, match.groups())), LINK.sub(link, text)).replace(r"\|", "|")


def wrapped(text, first, indent):
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * indent,
                         break_long_words=False, break_on_hyphens=False)


def table(lines, seen):
    """Columns, of which the widest give way until the table fits; without room for their longest words, a list."""
    rows = [[plain(cell.strip(), seen) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]
    del rows[1]
    columns = list(zip(*rows, strict=True))
    least = [max(len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    width = [max(len(cell) for cell in column) for column in columns]
    room = WIDTH - INDENT - 2 * (len(width) - 1)
    if sum(least) > room:
        return [line for row in rows[1:] for line in as_list(rows[0], row)][:-1]
    while sum(width) > room:
        widest = max((n for n in range(len(width)) if width[n] > least[n]), key=width.__getitem__)
        width[widest] -= 1
    rows.insert(1, ["-" * w for w in width])
    cells = [[textwrap.wrap(cell, w, break_on_hyphens=False) or [""] for cell, w in zip(row, width)] for row in rows]
    spaced, out = any(len(cell) > 2 for row in cells for cell in row), []
    for n, row in enumerate(cells):
        out += [""] if spaced and n > 2 else []
        out += [" " * INDENT + "  ".join(part.ljust(w) for part, w in zip(parts, width)).rstrip()
                for parts in itertools.zip_longest(*row, fillvalue="")]
    return out


def as_list(head, row):
    """A row as its first cell and, below it, the other cells with their headings."""
    rest = [line for name, cell in zip(head[1:], row[1:]) if cell
            for line in wrapped(f"{name}: {cell}" if name else cell, " " * (INDENT + 4), INDENT + 6)]
    return [*wrapped(row[0], " " * INDENT, INDENT + 2), *rest, ""]


class Page:
    """The lines of a page so far, and the paragraph that is being read."""

    def __init__(self):
        self.out, self.words, self.first, self.indent, self.seen = [], [], "", INDENT, {}

    def end(self):
        """Ends a paragraph, an item of a list or a table."""
        if self.words and self.words[0].startswith("|"):
            self.out += table(self.words, self.seen)
        elif self.words:
            self.out += wrapped(plain(" ".join(self.words), self.seen), self.first, self.indent)
        self.words = []

    def begin(self, text, at, mark=""):
        self.end()
        self.words, self.first, self.indent = [text], " " * (INDENT + at) + mark, INDENT + at + len(mark)

    def line(self, line):
        text = line.strip()
        at = len(line) - len(line.lstrip())
        item = re.match(r"(?:[-*]|\d+\.|:) +", text)
        if not text:
            self.end()
            self.out.append("")
        elif line.startswith("#"):
            self.end()
            self.out.append(plain(text.lstrip("# "), self.seen))
        elif item:
            self.begin(text[item.end():], at, " " * item.end() if text[0] == ":" else item.group())
        elif self.words and (text[0] == "|") == (self.words[0][0] == "|"):
            self.words.append(text)
        elif text[0] != "%" and not text.startswith("!["):
            self.begin(text, at)


def called(path, verbs):
    """The name of a page for `wiremill help`: with its folder if a verb is called so, too."""
    folder, name = path.split("/")[-2:]
    if folder == "cli":
        return name.removeprefix("wiremill-")
    return f"{folder}/{name}" if name in verbs else name


def page(text, path, verbs):
    """The page at `path` ("howto/keys") as text."""
    made, fence, at = Page(), None, 0
    for line in text.splitlines():
        mark = re.match(r"( *)```(\S*)", line)
        if mark and fence is None:
            made.end()
            fence, at = mark.group(2), len(mark.group(1))
        elif mark:
            made.end()
            fence = None
        elif fence is None or fence == "{glossary}":
            made.line(line)
            if fence and line and not line.startswith(" "):
                made.end()
        elif not fence.startswith("{"):
            made.out.append((" " * (INDENT + 4) + line).rstrip())
    made.end()
    linked = [os.path.normpath(os.path.join(os.path.dirname(path), target)) for target in made.seen if target]
    others = dict.fromkeys(called(target, verbs) for target in linked if target != path and "/" in target)
    if others:
        made.out += ["", "See also", *wrapped("wiremill help " + ", ".join(others), " " * INDENT, INDENT)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(made.out)).strip("\n") + "\n"


GROUPS = {"start": "lessons to begin with", "howto": "one task each", "explain": "how it works", "reference": "complete tables"}


def listed(titles, verbs):
    """The list of all pages, by folder."""
    out = []
    for group, what in GROUPS.items():
        out += [what, *(f"  {called(path, verbs):21} {plain(title, {})}" for path, title in titles.items()
                        if path.startswith(group + "/")), ""]
    return "\n".join(out + ["wiremill help PAGE prints one; wiremill help --browser opens a site", ""])
