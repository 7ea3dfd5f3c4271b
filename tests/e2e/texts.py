"""texts.py - one text in every form in which editors and systems write it.

usage: texts.py FOLDER SUFFIX [csv] <TEXT   FOLDER/good-FORM+SUFFIX mean the same as TEXT, FOLDER/bad-FORM+SUFFIX are
                                            refused; csv: also the forms of tables
"""
import sys

NO_BREAK, MARK = "\u00a0", b"\xef\xbb\xbf"


def table(text, separator, quote):
    return "".join((line if line.startswith("#") else separator.join(quote + cell + quote for cell in line.split(","))) +
                   "\n" for line in text.splitlines())


def numbered(text):
    """As pandas writes a table with tabs: a column of row numbers, whose name is empty."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "".join((str(n) if n else "") + "\t" + line.replace(",", "\t") + ("\t" if n else "") + "\n" for n, line in enumerate(lines))


def forms(text, is_table):
    plain = text.encode()
    good = {"lf": plain, "crlf": text.replace("\n", "\r\n").encode(), "cr": text.replace("\n", "\r").encode(),
            "mark": MARK + plain, "open": plain.rstrip(b"\n"), "openmark": MARK + plain.rstrip(b"\n"),
            "mixed": b"\r\n\r" + text.replace("\n", "\r", 1).replace("\n", "\r\n", 1).encode() + b"\r\r",
            "behind": text.replace("\n", f" \t{NO_BREAK}\n").encode(), "before": ("  " + text.replace("\n", "\n  ")).encode()}
    if is_table:
        good |= {"quotes": table(text, ",", '"').encode(), "semicolons": table(text, ";", "").encode(),
                 "tabs": table(text, "\t", "").encode(), "numbered": numbered(text).encode(), "form": ("\f" + text.replace("\n", "\n\f\n")).encode(),
                 "all": MARK + table(text, " ; ", '"').replace("\n", "\r").encode()}
    middle = len(plain) // 2
    bad = {"utf16": b"\xff\xfe" + text.encode("utf-16-le"), "utf16be": b"\xfe\xff" + text.encode("utf-16-be"),
           "utf16le": text.encode("utf-16-le"), "utf32": b"\xff\xfe\0\0" + text.encode("utf-32-le"),
           "nul": plain[:middle] + b"\0" + plain[middle:]}
    return good, bad


def main():
    folder, suffix = sys.argv[1:3]
    for kind, files in zip(("good", "bad"), forms(sys.stdin.read(), "csv" in sys.argv[3:])):
        for form, data in files.items():
            with open(f"{folder}/{kind}-{form}{suffix}", "wb") as f:
                f.write(data)


main()
