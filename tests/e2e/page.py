"""page.py - look PAGE: checks that a page stands alone, prints what it holds as JSON; holds JSON EXPRESSION...: all are true

In expressions d has rows, text, titles (of pictures) and source, r the rows by their first cell.
"""
import json, re, sys
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

VOID = {"meta", "br", "img"}

class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows, self.text = [], [], []
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object"), tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "src" or value.startswith("data:image/png;base64,"), value
            assert name in ("xmlns", "src", "href") or "//" not in (value or "") or "/tmp" in value, (name, value)
        assert tag != "img" or dict(attrs).get("alt")
        assert tag != "th" or not {"colspan", "rowspan"} & set(dict(attrs)), "a header of several columns"
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

def look(name):
    source = open(name, encoding="utf-8").read()
    assert source.startswith("<!doctype html>") and source.endswith("</html>\n") and "url(" not in source
    assert all(h.startswith("data:image/png;base64,") or not re.match(r"[^/]*:|//", h) for h in re.findall(r'href="([^"]*)"', source))
    page = Page()
    page.feed(source)
    assert not page.open, page.open
    pictures = [xml.fromstring(s) for s in re.findall(r"<svg.*?</svg>", source, re.S)]
    assert all(p.get("aria-label") and p.get("role") == "img" and p[0].text for p in pictures)
    for table in re.findall(r"(?s)<table\b.*?</table>", source):
        assert re.match(r"(?s)<table[^>]*>\s*<caption>[^<]", table), "a table without a name: " + table[:200]
        head, body = table.split("</thead>") if "</thead>" in table else ("", table)
        assert not re.search(r'<th\b(?! scope="col")|<th[^>]*></th>', head), "a head without a scope or name: " + head
        assert "<td" not in head and not re.search(r"<th\b(?! scope=\"row\")", body), "heads of no row: " + body[:300]
        assert all(r.startswith('<th scope="row"') for r in re.findall(r"<tr>\s*(.{16})", body)), "a row without a head: " + body[:300]
    json.dump({"rows": page.rows, "text": " ".join(" ".join(page.text).split()),
               "titles": [p[0].text for p in pictures], "source": source}, sys.stdout)

def holds(name, *wanted):
    d = json.load(open(name))
    r = {row[0]: row[1:] for row in d["rows"]}
    for expression in wanted:
        if not eval(expression, {"d": d, "r": r}):
            sys.exit(expression + " is not so:\n" + "\n".join(map(str, d["rows"])) + "\n" + d["text"])

dict(look=look, holds=holds)[sys.argv[1]](*sys.argv[2:])
