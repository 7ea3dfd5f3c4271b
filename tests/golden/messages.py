"""messages.py - whether each message of the manual's page is one that the programs can print.

usage: messages.py PAGE SOURCE...

The page's tables have a message in the first column, in backticks; `...` stands for what a format fills in. Each must be
part of one string of the sources, with such a format, or another end, at each `...`.
"""
import pathlib
import re
import sys

LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*')
PIECE = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def texts(path):
    """The strings of a C file, adjacent ones joined."""
    for literal in LITERAL.finditer(pathlib.Path(path).read_text()):
        yield "".join(PIECE.findall(literal[0])).replace('\\"', '"').replace("%%", "%").replace("\\n", "\n")


def main(page, sources):
    known = "\n\0".join(text for path in sources for text in texts(path))
    rows = [line for line in pathlib.Path(page).read_text().splitlines() if line.startswith("| `")]
    messages = [re.match(r"\| (`+) ?(.*?) ?\1 \|", row)[2] for row in rows]
    missing = [message for message in messages
               if not re.search(r"[^\0]*?".join(re.escape(part) for part in message.split("...")), known)]
    for message in missing:
        print(f"no source prints: {message}")
    twice = {message for message in messages if messages.count(message) > 1}
    for message in twice:
        print(f"on the page twice: {message}")
    for row in rows:
        if len([cell for cell in re.split(r"(?<!\\)\|", row)[1:-1] if cell.strip()]) != 3:
            print(f"not a message, its cause and its cure: {row}")
            missing.append(row)
    print(f"{len(messages)} messages")
    return bool(missing or twice or len(messages) < 100)


sys.exit(main(sys.argv[1], sys.argv[2:]))
