"""draw.py - draws the diagrams of explain/: python3 ops/manual/pictures/draw.py writes the SVG files beside itself."""

import pathlib
import xml.sax.saxutils as sax

HERE = pathlib.Path(__file__).parent


class Drawing:
    """Boxes, arrows and words on a white card, so that light and dark pages show the same."""

    def __init__(self, name, title, width, height):
        self.name = name
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
            ' font-family="sans-serif" font-size="14" fill="#1b2733">',
            f'<title>{sax.escape(title)}</title>',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 8 4 0 8Z" fill="#445566"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>']

    def box(self, x, y, w, h, words, fill="#e8f0fa"):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="#445566"/>')
        lines = words.split("\n")
        for i, line in enumerate(lines):
            self.words(x + w / 2, y + h / 2 + 5 + 18 * (i - (len(lines) - 1) / 2), line)

    def words(self, x, y, text, size=14, anchor="middle"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">{sax.escape(text)}</text>')

    def arrow(self, path, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ''
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="#445566" stroke-width="1.5" marker-end="url(#head)"{dash}/>')

    def line(self, x1, y1, x2, y2):
        self.parts.append(f'<path d="M{x1} {y1} {x2} {y2}" stroke="#9aa7b4"/>')

    def save(self):
        (HERE / f"{self.name}.svg").write_text("\n".join(self.parts + ["</svg>"]) + "\n")


def data_flow():
    d = Drawing("data-flow", "Events go to a producer, batches to the broker, tasks to workers; scores come back the same way", 760, 290)
    d.box(20, 40, 110, 50, "events.h5", "#ffffff")
    d.box(190, 40, 130, 50, "producer\ncuts patches")
    d.box(420, 40, 130, 50, "broker\ndecides")
    d.box(630, 40, 110, 50, "worker\none of many")
    d.box(630, 140, 110, 50, "engine\nCPU or GPU")
    d.box(400, 140, 170, 50, "journal\nwhat is acknowledged")
    d.box(400, 225, 170, 50, "ledger (SQLite)\nmade from the journal")
    d.box(190, 225, 130, 50, "scores.h5", "#ffffff")
    for path in "M130 65H188", "M320 56H418", "M420 76H322", "M550 56H628", "M630 76H552", "M685 90V138", "M485 90V138", \
            "M485 190V223", "M255 90V223":
        d.arrow(path)
    d.words(370, 50, "batches", 12)
    d.words(370, 92, "results", 12)
    d.words(590, 50, "tasks", 12)
    d.words(590, 92, "scores", 12)
    d.save()


def states():
    d = Drawing("states", "States of an input: open, written or held", 700, 250)
    d.box(40, 95, 130, 50, "open")
    d.box(500, 30, 150, 50, "written", "#e3f4e3")
    d.box(500, 165, 150, 50, "held", "#fbe9dc")
    d.arrow("M170 108 C300 50 380 50 498 50")
    d.words(330, 48, "all batches back, output written", 12)
    d.arrow("M170 132 C300 195 380 195 498 195")
    d.words(330, 212, "it cannot be read or fetched", 12)
    d.arrow("M500 66 C400 85 300 100 172 114", True)
    d.words(360, 113, "kick, or --retry-held", 12)
    d.arrow("M500 180 C400 160 300 140 172 124", True)
    d.words(105, 82, "announced by a producer", 12)
    d.save()


def durability():
    d = Drawing("durability", "A result is acknowledged once its record is in the journal on disk", 720, 270)
    d.box(30, 40, 120, 50, "worker")
    d.box(300, 40, 120, 50, "broker")
    d.box(570, 40, 120, 50, "producer")
    d.box(210, 180, 130, 50, "journal", "#e3f4e3")
    d.box(400, 180, 130, 50, "ledger.db", "#f4efdb")
    d.arrow("M150 55 L298 55")
    d.words(224, 46, "1 result", 12)
    d.arrow("M335 90 L295 178")
    d.words(260, 128, "2 append,", 12)
    d.words(260, 144, "fsync", 12)
    d.arrow("M300 78 L152 78", True)
    d.words(224, 96, "3 acknowledged", 12)
    d.arrow("M420 65 L568 65")
    d.words(494, 56, "3 result", 12)
    d.arrow("M340 205 L398 205")
    d.words(369, 222, "index", 12)
    d.arrow("M630 90 L630 178")
    d.box(570, 180, 120, 50, "output", "#e3f4e3")
    d.words(562, 135, "4 whole,", 12)
    d.words(562, 151, "then named", 12)
    d.save()


def patches():
    d = Drawing("patches", "A patch is made from the window of a plane around a hit", 700, 270)
    d.box(30, 40, 250, 180, "", "#f2f5f8")
    d.words(155, 245, "plane: wires across, ticks up")
    d.parts.append('<path d="M50 200 C120 150 200 130 265 60" fill="none" stroke="#7a5cc0" stroke-width="3"/>')
    d.parts.append('<rect x="135" y="95" width="80" height="80" fill="none" stroke="#c0392b" stroke-width="2"/>')
    d.parts.append('<circle cx="176" cy="135" r="4" fill="#c0392b"/>')
    d.words(175, 88, "window", 12)
    d.arrow("M218 135 L438 135")
    d.words(360, 108, "mean or max of ticks,", 12)
    d.words(360, 124, "clamp, rescale", 12)
    d.box(440, 60, 150, 150, "", "#ffffff")
    for i in range(1, 6):
        d.line(440 + 25 * i, 60, 440 + 25 * i, 210)
        d.line(440, 60 + 25 * i, 590, 60 + 25 * i)
    for i, j in ((0, 5), (1, 4), (1, 5), (2, 3), (3, 2), (3, 3), (4, 1), (5, 0), (5, 1)):
        d.parts.append(f'<rect x="{440 + 25 * i}" y="{60 + 25 * j}" width="25" height="25" fill="#7a5cc0" opacity="0.7"/>')
    d.words(515, 235, "patch: the model's input")
    d.save()


def trust():
    d = Drawing("trust", "A second machine checks a sampled batch; a third decides if they differ", 700, 230)
    d.box(30, 90, 120, 50, "batch")
    d.box(250, 25, 130, 50, "machine A")
    d.box(250, 155, 130, 50, "machine B")
    d.box(490, 90, 180, 50, "same scores:\nboth are good", "#e3f4e3")
    d.arrow("M150 105 L248 52")
    d.arrow("M150 125 L248 178")
    d.words(150, 72, "1 every batch", 12)
    d.words(150, 172, "2 a secret sample", 12)
    d.arrow("M380 52 L488 102")
    d.arrow("M380 178 L488 128")
    d.words(570, 165, "else a third machine decides;", 12)
    d.words(570, 181, "two against one: the one gets", 12)
    d.words(570, 197, "no more work", 12)
    d.save()


def scheduling():
    d = Drawing("scheduling", "A worker with several brokers: clients first, then campaigns in rounds", 700, 250)
    d.box(30, 30, 160, 45, "broker for clients", "#fbe9dc")
    d.box(30, 105, 160, 45, "campaign, share 3")
    d.box(30, 180, 160, 45, "campaign, share 1")
    d.box(320, 95, 120, 65, "worker")
    d.box(550, 105, 110, 45, "engine", "#e3f4e3")
    d.arrow("M190 52 L318 110")
    d.arrow("M190 127 L318 127")
    d.arrow("M190 202 L318 145")
    d.arrow("M440 127 L548 127")
    d.words(268, 65, "first", 12)
    d.words(250, 120, "3 of 4 rounds", 12)
    d.words(255, 205, "1 of 4 rounds", 12)
    d.words(495, 118, "one batch", 12)
    d.words(520, 205, "while clients always have more, campaigns together", 12)
    d.words(520, 221, "get --bulk-share percent of the time", 12)
    d.save()


def exactness():
    d = Drawing("exactness", "A score depends on its patch and on the signature alone", 700, 220)
    d.box(30, 30, 170, 50, "patch")
    d.box(30, 130, 170, 50, "signature:\nsparse/fma/fp32/v1")
    d.box(330, 80, 110, 50, "score", "#e3f4e3")
    d.arrow("M200 55 L328 95")
    d.arrow("M200 155 L328 115")
    d.box(520, 30, 150, 150, "other hits\nbatch size\nthreads\norder\nkilled processes", "#f2f5f8")
    d.arrow("M520 105 L442 105", True)
    d.words(481, 98, "no effect", 12)
    d.save()


def limits():
    d = Drawing("limits", "What one broker serves: peers, events, batches and patches", 700, 170)
    d.box(30, 55, 150, 60, "1,024 peers")
    d.box(240, 55, 150, 60, "one broker", "#e3f4e3")
    d.box(450, 15, 220, 40, "an event: 65,536 batches", "#f2f5f8")
    d.box(450, 65, 220, 40, "a batch: 4 MiB, or one patch", "#f2f5f8")
    d.box(450, 115, 220, 40, "a patch: 256 MiB as float32", "#f2f5f8")
    d.arrow("M180 85 L238 85")
    for y in (35, 85, 135):
        d.arrow(f"M390 85 L448 {y}")
    d.save()


def engines():
    d = Drawing("engines", "Which engine the setting auto takes for a model", 700, 210)
    d.box(30, 80, 150, 50, "a model")
    d.box(260, 80, 170, 50, "GPU that passes\nits self-test?")
    d.box(520, 15, 150, 45, "cuda", "#e3f4e3")
    d.box(520, 80, 150, 45, "sparse", "#e3f4e3")
    d.box(520, 145, 150, 45, "openvino or\nonnxruntime", "#e3f4e3")
    d.arrow("M180 105 L258 105")
    d.arrow("M430 95 L518 40")
    d.words(462, 52, "yes", 12)
    d.arrow("M430 105 L518 103")
    d.words(475, 97, "no: family", 12)
    d.arrow("M430 115 L518 165")
    d.words(450, 152, "no: others", 12)
    d.save()


if __name__ == "__main__":
    for draw in (data_flow, states, durability, patches, trust, scheduling, exactness, engines, limits):
        draw()
