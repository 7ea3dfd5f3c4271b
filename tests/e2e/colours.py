#!/usr/bin/env python3
"""colours.py - are the colours of pictures seen on their paper, and told apart by eyes of all kinds?

usage: colours.py PAGE [PICTURE]   PAGE: of wiremill show, with the labels of the family; PICTURE: of one score, with a held hit
Contrast is WCAG's, colour blindness Machado's (2009, severity 1), distance CIE Lab's of 1976. The script's own colours, of a
dark page, are read from its text.
"""
import itertools
import math
import re
import sys

SEEN = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def lab(colour, kind):
    seen = [min(1, max(0, v)) for v in times(SEEN[kind], linear(colour))]
    xyz = times(((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)), seen)
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (a / b for a, b in zip(xyz, (0.9505, 1, 1.089))))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(one, other):
    return min(math.dist(lab(one, kind), lab(other, kind)) for kind in SEEN)


def contrast(one, paper):
    a, b = sorted(sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(c))) for c in (one, paper))
    return (b + 0.05) / (a + 0.05)


def told_apart(colours, paper):
    for one, other in itertools.combinations(colours, 2):
        assert apart(one, other) >= 28, (one, other, [(k, round(math.dist(lab(one, k), lab(other, k)))) for k in SEEN])
    for colour in colours:
        assert contrast(colour, paper) >= 3, (colour, paper, contrast(colour, paper))


page = open(sys.argv[1], encoding="utf-8").read()
labels = dict(re.findall(r'<i data-label="([^"]+)" data-colour="([^"]+)">', page))
assert list(labels) == ["track", "em", "none", "michel"], labels


def css(pixel):  # 0xAABBGGRR, as the script has pixels
    return "#" + "".join(pixel[i:i + 2] for i in (8, 6, 4))


held_dark, held_light = map(css, re.search(r"theme\.held = dark \? (0x\w{8}) : (0x\w{8})", page).groups())
paper_dark, paper_light = map(css, re.search(r"theme\.paper = dark \? (0x\w{8}) : (0x\w{8})", page).groups())
on_dark = {key: css(value) for key, value in re.findall(r'"(#\w{6})": (0x\w{8})', re.search(r"onDark = {([^}]*)}", page)[1])}
told_apart([*labels.values(), held_light], paper_light)
told_apart([on_dark[colour] for colour in labels.values()] + [held_dark], paper_dark)
if len(sys.argv) > 2:
    picture = open(sys.argv[2], encoding="utf-8").read()
    scale = re.findall(r'fill="(#\w{6})"', re.search(r'<g class="scale">(.*?)</g>', picture, re.S)[1])
    light = [lab(colour, kind)[0] for kind in SEEN for colour in scale]
    n = len(scale)
    assert n >= 12 and all(light[i] > light[i + 1] for i in range(len(light) - 1) if (i + 1) % n), light
    assert min(contrast(colour, "#ffffff") for colour in scale) >= 3
    held = set(re.findall(r'<circle [^>]*r="4" fill="(#\w{6})"', picture))
    assert held_light in held, held
    assert min(apart(held_light, colour) for colour in scale) >= 15, min((apart(held_light, c), c) for c in scale)
