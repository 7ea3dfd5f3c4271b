"""notebook.py - runs a notebook from top to bottom, and checks what it shows.

usage: notebook.py NOTEBOOK.ipynb EXECUTED.ipynb (nbclient and ipykernel; EXECUTED and its pictures are written)
"""
import base64
import os
import sys

import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
shown = [output.data for output in outputs if "data" in output]
for output in outputs:
    print("".join(output.get("text", "")) or list(output.get("data", ())))
pictures = [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]
for i, picture in enumerate(pictures):
    with open(f"{os.path.splitext(sys.argv[2])[0]}-{i}.png", "wb") as f:
        f.write(picture)
assert len(pictures) == 3 and min(map(len, pictures)) > 10000, [len(p) for p in pictures]
assert not any(output.get("name") == "stderr" for output in outputs), "a red line"
assert sum("<iframe srcdoc=" in data.get("text/html", "") for data in shown) == 1, "the page of an event"
bars = [data["text/html"] for data in shown if "<progress" in data.get("text/html", "")]
assert len(bars) == 1 and "(100 %)" in bars[0], bars
assert any("dataframe" in data.get("text/html", "") for data in shown), "a table of pandas"
assert any("<th>all</th>" in data.get("text/html", "") for data in shown), "counts of Scores"
assert any("<wiremill.Client" in output.get("text", "") for output in outputs), "patches by a broker"
