"""_export.py - outputs as Parquet, for `wiremill export --to parquet`."""
from __future__ import annotations

import os
import sys

from . import _files

_FAILURE, _BAD_INPUT = 1, 5   # exit codes


def _write(output: str, to: str) -> int:
    """Writes the rows of an output; the file gets its name when it is whole. Returns the exit code."""
    parquet = _files.package("pyarrow.parquet", "export")
    try:
        table = _files.read(output).to_arrow()
    except (OSError, ValueError, KeyError) as why:
        print(f"wiremill export: {'' if output in str(why) else f'{output}: '}{why}", file=sys.stderr)
        return _BAD_INPUT
    part = f"{to}.{os.getpid()}.part"
    try:
        with open(part, "xb") as file:
            parquet.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, to)
    except OSError as why:
        if os.path.exists(part):
            os.remove(part)
        print(f"wiremill export: {to}: cannot write: {why.strerror or why}", file=sys.stderr)
        return _FAILURE
    print(f"{to}: {table.num_rows} rows")
    return 0


def main(words: list[str]) -> int:
    """Writes each output (even words) to a file (odd words), up to the first that fails."""
    return next((code for code in map(_write, words[::2], words[1::2]) if code), 0)
