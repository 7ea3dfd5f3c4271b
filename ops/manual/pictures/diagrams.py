"""diagrams.py - draws the manual's diagrams as SVG: data-flow, states, patch, durability, trust, scheduling.

usage: diagrams.py FOLDER     (make diagrams)
A diagram is a list of boxes, arrows and texts on a white card, so that it is readable in light and dark.
"""

import pathlib
import sys

BLUE, RED, GOLD, GREY = "#0b5fb4", "#c62828", "#b8860b", "#666"


def box(x, y, w, h, *lines, fill="#eef4fb", stroke=BLUE):
    text = "".join(
        f'<text x="{x + w / 2}" y="{y + h / 2 + 5 + 17 * (i - (len(lines) - 1) / 2)}" text-anchor="middle"'
        f'{" font-weight=&quot;bold&quot;".replace("&quot;", chr(34)) if i == 0 else ""}>{line}</text>'
        for i, line in enumerate(lines))
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{stroke}"/>{text}'


def arrow(x1, y1, x2, y2, label="", dx=0, dy=-6, colour=GREY, dashed=False):
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    text = f'<text x="{(x1 + x2) / 2 + dx}" y="{(y1 + y2) / 2 + dy}" text-anchor="middle" fill="{colour}">{label}</text>' if label else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.6" marker-end="url(#head)"{dash}/>{text}'


def words(x, y, text, colour="#222", anchor="start"):
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{text}</text>'


def data_flow():
    return 760, 300, "Events go to a producer, batches to the broker, tasks to workers; results come back the same way", [
        box(20, 40, 120, 50, "events.h5", fill="#fff"), arrow(140, 65, 190, 65),
        box(190, 40, 140, 50, "producer", "cuts patches"), arrow(330, 56, 420, 56, "batches"), arrow(420, 78, 330, 78, "results", dy=16),
        box(420, 40, 140, 50, "broker", "decides"), arrow(560, 56, 620, 56, "tasks"), arrow(620, 78, 560, 78, "scores", dy=16),
        box(620, 40, 120, 50, "worker", "one of many"), arrow(680, 90, 680, 140),
        box(620, 140, 120, 50, "engine", "CPU or GPU"),
        arrow(490, 90, 490, 140), box(400, 140, 180, 50, "journal", "what is acknowledged"),
        arrow(490, 190, 490, 230), box(400, 230, 180, 50, "ledger (SQLite)", "made from the journal"),
        arrow(260, 90, 260, 230), box(190, 230, 140, 50, "scores.h5", fill="#fff"),
    ]


def states():
    return 760, 290, "States of an input: announced, open, written, held; kick and --retry-held lead back", [
        box(20, 60, 130, 54, "named", "on a command line"), arrow(150, 87, 220, 87, "claimed"),
        box(220, 60, 130, 54, "open", "events are scored"), arrow(350, 87, 450, 87, "all done"),
        box(450, 60, 140, 54, "written", "output on disk", fill="#e8f5e9", stroke="#2e7d32"),
        arrow(285, 114, 285, 200), words(300, 162, "cannot be read, or does not fit"),
        box(220, 200, 130, 54, "held", "a person decides", fill="#fff4e5", stroke=GOLD),
        arrow(220, 227, 90, 227), arrow(90, 227, 90, 114), words(100, 246, "--retry-held, kick"),
        arrow(520, 114, 520, 200), words(535, 162, "input or output changed"),
        box(450, 200, 140, 54, "changed", "the output stays", fill="#fff4e5", stroke=GOLD),
        arrow(450, 240, 350, 240, "--retry-held", dy=18, dashed=True),
    ]


def patch():
    tracks = [f'<line x1="{60}" y1="{180}" x2="{420}" y2="{70}" stroke="#444" stroke-width="3"/>',
              f'<path d="M250 122 q40 60 110 66" fill="none" stroke="#777" stroke-width="2"/>']
    cells = []
    for i in range(12):
        for k in range(12):
            on = abs((11 - k) - (3 + i * 0.5)) < 0.7 or (i > 5 and abs(k - (4 + (i - 5) * 0.9)) < 0.6)
            cells.append(f'<rect x="{540 + 15 * i}" y="{50 + 15 * k}" width="15" height="15" fill="{"#333" if on else "#f4f4f4"}" stroke="#ddd"/>')
    return 760, 280, "A patch is a window of wires and drift bins around a hit, cut from a plane", [
        f'<rect x="40" y="40" width="420" height="180" fill="#fafafa" stroke="{GREY}"/>', *tracks,
        f'<rect x="215" y="85" width="72" height="72" fill="none" stroke="{RED}" stroke-width="2"/>',
        f'<circle cx="251" cy="121" r="5" fill="{RED}"/>',
        words(250, 244, "wires of one plane", anchor="middle"),
        f'<text transform="translate(28 130) rotate(-90)" text-anchor="middle">ticks</text>',
        words(295, 82, "window around a hit", RED), arrow(287, 121, 535, 121, "downscaled, scaled", dx=25, colour=RED),
        *cells, words(630, 252, "patch: 48 wires x 48 bins", anchor="middle"),
    ]


def durability():
    return 760, 250, "A result is written to the journal, synced to disk, then acknowledged", [
        box(20, 40, 110, 50, "worker"), arrow(130, 65, 230, 65, "1 result"),
        box(230, 40, 110, 50, "broker"), arrow(285, 90, 285, 150, ""), words(295, 125, "2 record, then fdatasync"),
        box(190, 150, 190, 60, "journal", "append only, checksums"),
        arrow(230, 80, 130, 80, "3 acknowledged", dy=18, colour="#2e7d32"),
        arrow(380, 180, 470, 180, "4 later"), box(470, 150, 120, 60, "ledger", "SQLite"),
        arrow(340, 65, 470, 65, "5 result"), box(470, 40, 120, 50, "producer"), arrow(590, 65, 650, 65),
        box(650, 40, 95, 50, "output", fill="#fff"),
    ]


def trust():
    return 760, 260, "One batch in a thousand is scored on a second machine, and by a third if they differ", [
        box(20, 100, 110, 50, "broker"), arrow(130, 112, 260, 60, "batch"), arrow(130, 125, 260, 125, "as a check", dx=0),
        arrow(130, 140, 260, 195, "if they differ", dx=-14, dy=18, dashed=True),
        box(260, 35, 130, 50, "machine A", "result is kept"), box(260, 100, 130, 50, "machine B", "compared"),
        box(260, 170, 130, 50, "machine C", "decides"),
        arrow(390, 60, 520, 100), arrow(390, 125, 520, 125), arrow(390, 195, 520, 150, dashed=True),
        box(520, 90, 220, 70, "two against one:", "the one gets no more work, and", "its batches are rescored", fill="#fff4e5", stroke=GOLD),
    ]


def scheduling():
    return 760, 250, "Clients take turns by the hits that they have had scored; bulk campaigns get what is left", [
        box(20, 30, 140, 40, "client: 1 patch", fill="#e8f5e9", stroke="#2e7d32"),
        box(20, 85, 140, 40, "client: a million"), box(20, 140, 140, 40, "bulk campaign", fill="#f4f4f4", stroke=GREY),
        arrow(160, 50, 300, 90), arrow(160, 105, 300, 105), arrow(160, 160, 300, 120, dashed=True),
        box(300, 75, 180, 60, "turns", "fewest hits served first"), arrow(480, 105, 560, 105),
        box(560, 75, 180, 60, "engine", "one batch at a time"),
        words(20, 215, "A bulk batch begins only if no client waits, except for --bulk-share percent of the time."),
    ]


def main():
    folder = pathlib.Path(sys.argv[1])
    for draw in data_flow, states, patch, durability, trust, scheduling:
        width, height, title, parts = draw()
        head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">' \
               f'<path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker>'
        svg = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
               f'font-family="sans-serif" font-size="13" fill="#222">\n<title>{title}</title>\n<defs>{head}</defs>\n'
               f'<rect width="{width}" height="{height}" fill="#fff" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n")
        (folder / f"{draw.__name__.replace('_', '-')}.svg").write_text(svg)


if __name__ == "__main__":
    main()
