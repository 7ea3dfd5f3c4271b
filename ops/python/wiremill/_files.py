"""_files.py - whole files: runs `wiremill run`, and reads the outputs that it writes."""
from __future__ import annotations

import dataclasses
import glob
import html
import importlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from typing import Any, Callable, KeysView, Optional, Sequence, Union, overload

import numpy as np
from numpy.typing import NDArray

from . import _input, _library, _pictures, _progress

Path = Union[str, "os.PathLike[str]"]

_FIRST = ("run", "subrun", "event", "hit_id", "cryostat", "tpc", "plane", "wire", "time", "truth")
_LAST = ("engine", "in_fiducial", "status", "file")   # the scores are between both, as in the CSV of `wiremill export`
_TRUTH = ["track", "em", "none", "michel"]     # of `wiremill synth`
_SIGMOID = "michel"   # whose score does not compete with the others (producer/files/wm_call_rule.h)
_PLANES_SHOWN, _LABELS_SHOWN = 12, 12   # of the table in a notebook
_NO_ENGINE = 65535   # in the column `engine`
_HELD = 3   # exit code: finished, something is held


# Of what `wiremill run` prints, lines that a caller of Python has no use for: its result, advice with a command, its log.
_NOT_REASONS = re.compile(r"(?m)^wiremill-result .*$|^.*, then type:\n  .*$|^\d{4}-\d\d-\d\dT\S+Z .*$")


class RunError(RuntimeError):
    """`wiremill run`, or another command, failed; the text is why, with the files that it names.

    Attributes
    ----------
    exit_code : int
        As `wiremill --help` lists them.
    output : str
        All that the command printed.
    """

    def __init__(self, exit_code: int, output: str, verb: str = "run") -> None:
        text = "\n".join(_reasons(output) or output.splitlines()[-3:]) or "it printed nothing"
        again = '\nMend them, then run it again with options=["--retry-held"].' if "\nheld: " in f"\n{output}" else ""
        super().__init__(f"wiremill {verb}: exit code {exit_code}: {text}{again}")
        self.exit_code, self.output = exit_code, output


def _reasons(output: str) -> list[str]:
    """The last lines that `wiremill run` printed of what went wrong, without its name."""
    lines = [line.strip() for line in _NOT_REASONS.sub("", output).splitlines() if line.strip()]
    held = [line for line in lines if line.startswith("held: ")]
    return [re.sub("^wiremill [a-z]+: ", "", line) for line in held or lines][-10:]


@dataclasses.dataclass(repr=False, eq=False)
class Scores:
    """An output file of `wiremill run`: a row for each hit of the input, in its order.

    Attributes
    ----------
    columns : dict of str to ndarray
        The table, each column (hits,), in the order of `wiremill export`.
    labels : list of str
        Which of the columns are scores, in the model's order.
    engines : list of str
        Signatures of the engines. The column `engine` is an index into it, 65535 if a hit is held.
    attributes : dict
        What the file states of itself: model_sha256, precision, specification, input and others. Of several files, what all of
        them state.
    files : list of str
        Of several files, their paths. The column `file` is an index into it.
    """

    columns: dict[str, NDArray[Any]]
    labels: list[str]
    engines: list[str]
    attributes: dict[str, Any]
    files: list[str] = dataclasses.field(default_factory=list)

    @property
    def scores(self) -> NDArray[np.float32]:
        """The scores, (hits, labels); NaN if a hit is held."""
        return np.stack([self.columns[label] for label in self.labels], 1)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Whether each hit is scored, (hits,)."""
        scored: NDArray[np.bool_] = self.columns["status"] == 0
        return scored

    def __len__(self) -> int:
        return len(self.columns["status"])

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def keys(self) -> KeysView[str]:
        """Return the names of the columns, so that ``dict(hits)`` has them all."""
        return self.columns.keys()

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, key: Union[slice, Sequence[int], NDArray[Any]]) -> Scores: ...

    def __getitem__(self, key: Any) -> Any:
        """Return a column by its name, or the rows of a mask, a slice or row numbers, as another `Scores`.

        Examples
        --------
        >>> hits = wiremill.read("out/events.scores.h5")
        >>> sure = hits[hits["em"] > 0.5]
        >>> bool((sure["em"] > 0.5).all())
        True
        """
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"no column {key!r}; there are: {', '.join(self.columns)}")
            return self.columns[key]
        rows = key if isinstance(key, slice) else np.asarray(key) if np.size(key) else np.zeros(0, np.intp)
        if not isinstance(rows, slice) and (rows.ndim != 1 or rows.dtype.kind not in "biu"):
            hint = f"; row {key} is [{key}:{key + 1}]" if isinstance(key, int) and key >= 0 else ""
            raise TypeError(f"{key!r} is neither a column's name, nor a mask, a slice or a list of row numbers{hint}")
        return dataclasses.replace(self, columns={name: column[rows] for name, column in self.columns.items()})

    def _facts(self) -> dict[str, str]:
        """What a line about the output names; of many labels the first and the last."""
        labels = self.labels if len(self.labels) <= 6 else [*self.labels[:3], "...", self.labels[-1]]
        several = f" ({len(self.labels)})" if len(self.labels) > 6 else ""
        name = re.sub(r"(\.h5|\.npy)(:.*)?$", "", os.path.basename(str(self.attributes.get("input", ""))))
        name = f"{len(self.files)} files" if self.files else name
        return {"hits": f"{len(self):,}", "held": f"{len(self) - np.count_nonzero(self.scored):,}",
                "labels": " ".join(labels) + several, "input": name}

    def __repr__(self) -> str:
        facts = self._facts()
        return f"Scores({facts['hits']} hits, {facts['held']} held, labels {facts['labels']}, {facts['input']})"

    def _repr_html_(self) -> str:
        """For a notebook: the facts; hits, held ones and mean scores by plane."""
        plane = self.columns.get("plane", np.zeros(0))
        groups = {"all": np.ones(len(self), bool), **{f"plane {p}": plane == p for p in np.unique(plane)[:_PLANES_SHOWN]}}
        labels = self.labels[:_LABELS_SHOWN]
        rows = [_row("", ["hits", "held", *[f"mean {label}" for label in labels]], "th")]
        for name, chosen in groups.items():
            scored = chosen & self.scored
            n, n_scored = np.count_nonzero(chosen), np.count_nonzero(scored)
            means = [f"{self.columns[label][scored].mean(dtype=float):.3f}" if n_scored else "" for label in labels]
            rows.append(_row(name, [f"{n:,}", f"{n - n_scored:,}", *means], "td"))
        return f"<div>{html.escape(repr(self))}<table>{''.join(rows)}</table></div>"

    def called(self, threshold: float = 0.5) -> NDArray[np.str_]:
        """Return the label that each hit is called, by the rule of `wiremill truth`, `show` and `report`; "" for a held hit.

        Parameters
        ----------
        threshold : float, optional
            A hit is called michel if that score is at least this, else by the largest of the others. If there is no such label
            beside others, the largest score decides.

        Examples
        --------
        >>> hits = wiremill.read("out/events.scores.h5")
        >>> sorted(set(hits.called()) - set(hits.labels))
        []
        """
        alone = _SIGMOID in self.labels and len(self.labels) > 1
        others = [label for label in self.labels if not alone or label != _SIGMOID]
        largest = np.argmax(np.stack([self.columns[label] for label in others], 1), 1) if len(self) else np.zeros(0, np.intp)
        names = np.array(others)[largest]
        if alone:
            names = np.where(self.columns[_SIGMOID] >= threshold, _SIGMOID, names)
        return np.where(self.scored, names, "")

    def plot(self, event: Optional[_pictures.Event] = None, plane: Optional[int] = None, *, tpc: Optional[int] = None,
             score: Optional[str] = None, ax: Any = None) -> Any:
        """Draw the hits of one plane of an event, coloured by a score. Needs the package matplotlib, and positions.

        Parameters
        ----------
        event : str or sequence of int, optional
            ``"run:subrun:event"`` or the three numbers. The first by default.
        plane, tpc : int, optional
            By default those with most hits.
        score : str, optional
            The label whose score colours the hits. The first by default.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            With the scored hits as one collection, and crosses for those that are held.

        Raises
        ------
        ValueError
            There are no such hits, or no positions.

        Examples
        --------
        >>> hits = wiremill.read("out/events.scores.h5", positions=True)
        >>> axes = hits.plot("1:1:1", plane=2, score="em")                       # doctest: +SKIP
        """
        rows, title = _pictures.chosen(self.columns, event, plane, tpc)
        values = self[score or self.labels[0]][rows]
        axes = ax or package("matplotlib.pyplot", "Scores.plot").subplots(figsize=(9, 5))[1]
        wire, time, scored = self["wire"][rows], self["time"][rows], self.scored[rows]
        points = axes.scatter(wire[scored], time[scored], c=values[scored], s=4, vmin=0, vmax=1)
        axes.figure.colorbar(points, ax=axes, label=f"score: {score or self.labels[0]}")
        if not scored.all():
            axes.scatter(wire[~scored], time[~scored], c="grey", s=9, marker="x", label="held")
            axes.legend()
        axes.set(xlabel="wire", ylabel="time", title=title)
        return axes

    def to_numpy(self) -> NDArray[Any]:
        """Return the table as a structured array (hits,), with a field for each column."""
        rows = np.empty(len(self), [(name, column.dtype) for name, column in self.columns.items()])
        for name, column in self.columns.items():
            rows[name] = column
        return rows

    def _named(self) -> dict[str, tuple[NDArray[np.int32], list[str]]]:
        """Columns whose values are indices into a list of names: each one's indices, -1 for no name, and its names."""
        names = {"status": _statuses(), "engine": self.engines, "truth": _TRUTH, "file": self.files}
        return {column: (np.where(self.columns[column] < len(named), self.columns[column].astype(np.int32), -1), named)
                for column, named in names.items() if column in self.columns}

    def to_pandas(self) -> Any:
        """Return the table as a pandas.DataFrame, a row for each hit. Needs the package pandas.

        `status`, `engine`, `truth` and `file` are categories with names; a held hit has no engine.

        Examples
        --------
        >>> table = wiremill.read("out/events.scores.h5").to_pandas()
        >>> list(table.columns[:4])
        ['run', 'subrun', 'event', 'hit_id']
        >>> bool((table["status"] == "scored").all())
        True
        """
        pandas = package("pandas", "Scores.to_pandas")
        named = {name: pandas.Categorical.from_codes(codes, names) for name, (codes, names) in self._named().items()}
        frame = pandas.DataFrame({**self.columns, **named})
        frame.attrs.update(self.attributes)
        return frame

    def to_arrow(self) -> Any:
        """Return the table as a pyarrow.Table, with the attributes as its metadata. Needs the package pyarrow.

        `status`, `engine`, `truth` and `file` are dictionaries of names; a held hit has no engine.

        Examples
        --------
        >>> import pyarrow.parquet                                               # doctest: +SKIP
        >>> pyarrow.parquet.write_table(scores.to_arrow(), "hits.parquet")       # doctest: +SKIP
        """
        pyarrow = package("pyarrow", "Scores.to_arrow")
        named = {name: pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=codes < 0), pyarrow.array(names, "string"))
                 for name, (codes, names) in self._named().items()}
        metadata = {name: str(value) for name, value in self.attributes.items()}
        return pyarrow.table({**self.columns, **named}, metadata=metadata)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        """For numpy.asarray and pandas.DataFrame: `to_numpy`."""
        if copy is False:
            raise ValueError("the table of columns can become an array of rows only by a copy")
        return self.to_numpy() if dtype is None else self.to_numpy().astype(dtype)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """For pyarrow.table, Polars, DuckDB and other libraries of Arrow: `to_arrow`. Needs the package pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _row(name: str, cells: list[str], tag: str) -> str:
    return f"<tr><th>{name}</th>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _statuses() -> list[str]:
    """The names of all statuses, by number."""
    texts = [str(_library.call.wiremill_status_text(status), "ascii") for status in range(256)]
    return texts[:texts.index("unknown")]


def package(name: str, user: str) -> Any:
    """Imports a package that only some functions need, or a part of it."""
    module, name = name, name.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as why:
        if why.name not in (module, name):
            raise
        raise ModuleNotFoundError(f"wiremill.{user} needs the package {name}: pip install {name}", name=name) from None


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def _columns(table: Any) -> dict[str, NDArray[Any]]:
    """The columns of a table of wiremill's, or of numl's: there they are (rows, 1), and event_id (rows, 3)."""
    columns: dict[str, NDArray[Any]] = {}
    for name in table:
        column = table[name][:]
        if name == "event_id":
            columns.update(zip(("run", "subrun", "event"), column.T))
        elif name != "event_id.seq_cnt":
            columns[name] = column[:, 0] if column.ndim == 2 else column
    return columns


def read(path: Union[Path, Sequence[Path]], *, positions: Union[bool, Path] = False) -> Scores:
    """Read output files (NAME.scores.h5) whole. Needs the package h5py.

    Of a file written with ``--layout both`` the table of wiremill is read. One of ``--layout numl`` has its rows by event,
    and neither planes nor engines.

    Parameters
    ----------
    path : path, or sequence of paths
        The file. Several, or a pattern such as ``"out/*.scores.h5"``, become one table, with a column `file`.
    positions : bool or path
        Also take the columns `wire` and `time`, and the `truth` of synthetic hits, from the input. True: from the file that was
        scored, which must not have changed. A path: from this file, whose hits must be the same in the same order.

    Raises
    ------
    ValueError
        A file is no output of wiremill, or several have other labels or columns. Or the input has changed, or its hits are not
        those of the output in their order.
    FileNotFoundError
        A file, or the input that positions are in, does not exist.

    Examples
    --------
    >>> scores = wiremill.read("out/events.scores.h5", positions=True)
    >>> scores.labels
    ['track', 'em', 'none', 'michel']
    >>> scores.scores.shape == (len(scores), 4)
    True
    >>> scores["wire"].dtype, scores["time"].dtype
    (dtype('int32'), dtype('float32'))
    >>> table = wiremill.read("out/*.scores.h5").to_pandas()
    >>> list(table["file"].cat.categories)
    ['out/events.scores.h5']
    """
    package("h5py", "read")
    if isinstance(path, (str, os.PathLike)):
        one = os.fspath(path)
        if os.path.exists(one) or not glob.has_magic(one):
            return _read_one(one, positions)
        paths = sorted(glob.glob(one, recursive=True))
    else:
        paths = [os.fspath(one) for one in path]
    if not paths:
        raise FileNotFoundError(2, "no output matches", path if isinstance(path, (str, os.PathLike)) else "[]")
    if not isinstance(positions, bool):
        raise ValueError("positions of several outputs are in their own inputs: give positions=True")
    return _joined(paths, [_read_one(one, positions) for one in paths])


def _joined(paths: list[str], parts: list[Scores]) -> Scores:
    """Several outputs as one, with a column that names the file."""
    first = parts[0]
    engines = list(dict.fromkeys(engine for part in parts for engine in part.engines))
    for path, part in zip(paths, parts):
        if part.labels != first.labels or list(part.columns) != list(first.columns):
            raise ValueError(f"{path} has other labels or columns than {paths[0]}: {', '.join(part.columns)}; "
                             f"not {', '.join(first.columns)}")
        if "engine" in part.columns:
            number = np.full(_NO_ENGINE + 1, _NO_ENGINE, np.uint16)
            number[:len(part.engines)] = [engines.index(engine) for engine in part.engines]
            part.columns["engine"] = number[part.columns["engine"]]
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns}
    columns["file"] = np.repeat(np.arange(len(parts), dtype=np.uint32), [len(part) for part in parts])
    attributes = {name: value for name, value in first.attributes.items()
                  if all(name in part.attributes and part.attributes[name] == value for part in parts)}
    return Scores(columns, first.labels, engines, attributes, paths)


def _read_one(path: str, positions: Union[bool, Path]) -> Scores:
    """One output."""
    h5py = package("h5py", "read")
    with h5py.File(path, "r") as file:
        attributes = {name: _text(value) for name, value in file.attrs.items()}
        if attributes.get("layout") != "wiremill-scores-1":
            raise ValueError(f"{path}: not an output of wiremill run: its layout is {attributes.get('layout')!r}")
        specification = attributes["specification"]
        name = re.findall(r"(?m)^table: (\S+)", specification)[0]
        columns = _columns(file[name] if name in file else file[f"{name}_table"])
        engines = [_text(signature) for signature in file["engine/signature"][:]] if "engine/signature" in file else []
    if positions is not False:
        given = "" if positions is True else os.fspath(positions)
        columns.update(_input.positions(h5py, path, columns, attributes, given))
    named = re.search(r"(?m)^labels: \[(.*)\]", specification)
    labels = [label.strip() for label in named[1].split(",") if label.strip()] if named else []
    if not labels:
        labels = sorted((name for name in columns if re.fullmatch(r"out_\d+", name)), key=lambda name: int(name[4:]))
    before, behind = ([name for name in names if name in columns and name not in labels] for names in (_FIRST, _LAST))
    return Scores({name: columns[name] for name in [*before, *labels, *behind]}, labels, engines, attributes)


def find_program() -> str:
    """The path of the program wiremill."""
    named = os.environ.get("WIREMILL_PROGRAM")
    found = named if named and os.access(named, os.X_OK) else None if named else shutil.which("wiremill")
    if not found:
        raise FileNotFoundError(2, "the program wiremill is not there: put it into PATH, or set WIREMILL_PROGRAM to it",
                                named or "wiremill")
    return found


def run(model: Path, inputs: Union[Path, Sequence[Path]], output: Path, *, spec: Optional[Path] = None,
        precision: str = "fp32", engine: str = "auto", options: Sequence[str] = (),
        progress: Union[bool, _progress.Progress, None] = None) -> list[str]:
    """Score files of events by the program `wiremill run`.

    What was stopped or killed continues with the same call. If it is interrupted (KeyboardInterrupt), it lets `wiremill run`
    end in order.

    Parameters
    ----------
    model : path
        .onnx, .pb, .wmm, or "synthetic", see `Model`.
    inputs : path, or sequence of paths
        Files, patterns such as ``"events-*.h5"``, or URLs.
    output : path
        A folder.
    spec : path, optional
        How patches are cut: a YAML file or a preset.
    precision, engine : str
        As on the command line.
    options : sequence of str
        Further options of `wiremill run`.
    progress : bool or callable, optional
        True: a bar with the time left, in a notebook or on standard error. None: the same, but not into a log. False: nothing.
        A function is called about every second with the number of hits that are scored or held, and that of all. The second
        number is an estimate while files are read.

    Returns
    -------
    list of str
        Paths of the outputs in `output`. Rows of held hits have a status and NaN.

    Warns
    -----
    UserWarning
        Some files or hits are held. The text has the reasons.

    Raises
    ------
    RunError
        The command ended with another exit code than 0 and 3.
    FileNotFoundError
        The program is neither in PATH nor named by WIREMILL_PROGRAM.

    Examples
    --------
    >>> outputs = wiremill.run("model.onnx", "events.h5", "out", progress=False)
    >>> [os.path.basename(path) for path in outputs]
    ['events.scores.h5']
    """
    several = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    program, folder = find_program(), os.fspath(output)
    command = [program, "run", "--quiet", "--model", os.fspath(model), "--output", folder, "--precision", precision,
               "--engine", engine, *options]
    for one in several:
        command += ["--input", os.fspath(one)]
    if spec is not None:
        command += ["--spec", os.fspath(spec)]
    ours = None if callable(progress) else _progress.shown(progress)
    report = _of_counts(progress) if callable(progress) else ours
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            text = _wait(process, program, folder, report)
        except BaseException:
            process.terminate()     # it ends in order: a second start goes on
            raise
        finally:
            if ours:
                ours.close()
    if process.returncode not in (0, _HELD):
        raise RunError(process.returncode, text.decode(errors="replace"))
    if process.returncode == _HELD:
        warnings.warn("\n".join(_reasons(text.decode(errors="replace"))), stacklevel=2)
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".scores.h5"))


def show(output: Path, event: Optional[_pictures.Event] = None, *, options: Sequence[str] = ()) -> _pictures.Page:
    """Return the page of an event that `wiremill show` writes: a notebook shows it.

    Parameters
    ----------
    output : path
        An output (NAME.scores.h5). The input that it names must be there.
    event : str or sequence of int, optional
        ``"run:subrun:event"`` or the three numbers. The first by default.
    options : sequence of str
        Further options of `wiremill show`, such as ``["--worst"]`` or ``["--score", "em"]``.

    Returns
    -------
    Page

    Raises
    ------
    RunError
        There is no such event, or a file cannot be read.
    FileNotFoundError
        The program is neither in PATH nor named by WIREMILL_PROGRAM.

    Examples
    --------
    >>> page = wiremill.show("out/events.scores.h5", "1:1:1")
    >>> page.save("event.html")
    """
    wanted = [] if event is None else ["--event", _pictures.event_text(event)]
    with tempfile.TemporaryDirectory(prefix="wiremill-") as folder:
        page = os.path.join(folder, "event.html")
        done = subprocess.run([find_program(), "show", os.fspath(output), "--output", page, *wanted, *options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RunError(done.returncode, done.stdout.decode(errors="replace"), "show")
        with open(page, encoding="utf-8") as file:
            return _pictures.Page(file.read())


def _of_counts(progress: _progress.Progress) -> Callable[[_progress.State], None]:
    return lambda state: progress(state.done, state.known)


def _wait(process: subprocess.Popen[bytes], program: str, folder: str,
          report: Optional[Callable[[_progress.State], None]]) -> bytes:
    """Wait until the process ends, and return what it printed."""
    seen, ends = None, False
    while True:
        try:
            text, _ = process.communicate(timeout=1 if report else None)
            ends = True
        except subprocess.TimeoutExpired:
            pass
        state = _state(program, folder) if report else None
        if report and state and state != seen:
            seen = state
            report(state)
        if ends:
            return text


def _state(program: str, folder: str) -> Optional[_progress.State]:
    """How far the campaign is, by `wiremill status`; None before the campaign exists."""
    asked = subprocess.run([program, "status", "--json", folder], stdin=subprocess.DEVNULL, capture_output=True)
    try:
        status = json.loads(asked.stdout)
        hits, inputs = status["hits"], status["inputs"]
        known, expected = hits["announced"], hits["expected"]
        word = "at least" if expected is None else "about" if expected > known else ""
        return _progress.State(hits["done"] + hits["held"], max(known, expected or 0), word,
                               inputs["written"] + inputs["held"], inputs["total"])
    except (ValueError, KeyError, TypeError):
        return None
