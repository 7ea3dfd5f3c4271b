"""screen.py - a terminal's screen as a picture: SVG of what `tmux capture-pane -e -p` prints.

usage: screen.py <SCREEN >PICTURE.svg
Knows bold, reverse and the eight colors, which is what wiremill top uses; another code is an error.
"""

import html
import re
import sys

WIDE, HIGH, MARGIN = 8.4, 18, 12  # of a character of 14 px, and around the screen
BACK, FRONT = "#1b1f24", "#d6dbe1"
COLORS = ["#5c6370", "#f07178", "#8fc97a", "#e6c06a", "#6cb0f0", "#c792ea", "#56c5d0", FRONT]


def pieces(line, state):
    """Texts of a line with the column that each begins at and its look; `state` goes on to the next line."""
    column = 0
    for codes, text in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+)", line):
        if text:
            yield column, text, dict(state)
            column += len(text)
            continue
        for code in (int(c or 0) for c in codes.split(";")):
            if code == 0:
                state.update(bold=False, reverse=False, color=FRONT)
            elif code in (1, 7):
                state["bold" if code == 1 else "reverse"] = True
            elif code == 39 or 30 <= code <= 37:
                state["color"] = FRONT if code == 39 else COLORS[code - 30]
            elif code != 49:
                raise ValueError(f"screen.py: the code {code} is not known")


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    state = {"bold": False, "reverse": False, "color": FRONT}
    rows = [list(pieces(line, state)) for line in lines]
    columns = max(at + len(text) for row in rows for at, text, _ in row)
    width, height = columns * WIDE + 2 * MARGIN, len(rows) * HIGH + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
          'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">')
    print(f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>')
    for n, row in enumerate(rows):
        for at, text, look in row:
            x, y, wide = MARGIN + at * WIDE, MARGIN + n * HIGH, len(text) * WIDE
            if look["reverse"]:
                print(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{HIGH}" fill="{FRONT}"/>')
            if text.strip():
                weight = ' font-weight="bold"' if look["bold"] else ""
                print(f'<text x="{x:.1f}" y="{y + 13}" textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs" '
                      f'fill="{BACK if look["reverse"] else look["color"]}"{weight}>'
                      f'{html.escape(text).replace(chr(32), chr(160))}</text>')
    print("</svg>")


main()
