"""Run the tutorials, and write their output into them and into the pages of the site.

python docs/tutorials/run.py [FILE ...]
"""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
_STYLE = re.compile(r"\x1b\[[0-9;]*m")  # bold and colors of commands


def run(path: Path) -> None:
    """Execute a notebook in an empty folder, and keep its output but nothing about this machine."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=resources).execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for cell in notebook.cells:
        cell.metadata = {}
        # Progress and warnings of other packages differ from machine to machine.
        kept = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
        for one in kept:
            if "text" in one:
                text = _STYLE.sub("", one["text"]).replace("\r\n", "\n")
                one["text"] = text.replace(f"{folder}/", "")
        if cell.cell_type == "code":
            cell.outputs = _join_streams(kept)
    nbformat.write(notebook, path)


def _join_streams(outputs: list[Any]) -> list[Any]:
    """Join neighboring parts of printed text, which arrive in parts that differ from run to run."""
    joined: list[Any] = []
    for one in outputs:
        if joined and one.output_type == joined[-1].output_type == "stream":
            joined[-1]["text"] += one["text"]
        else:
            joined.append(one)
    return joined


def write_page(path: Path) -> None:
    """Write a notebook as a page of the site, with its pictures beside it.

    A converter of its own, because mkdocs-jupyter brings forty packages for these few lines.
    """
    parts = []
    pictures = 0
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for one in cell.outputs:
            data = one.get("data", {})
            if "image/svg+xml" in data:
                pictures += 1
                picture = path.with_name(f"{path.stem}-{pictures}.svg")
                picture.write_text("".join(data["image/svg+xml"]), encoding="utf-8")
                parts.append(f"![Output of the cell above]({picture.name})")
            else:
                text = one.get("text") or data.get("text/plain", "")
                parts.append(f"```text\n{''.join(text).rstrip()}\n```")
    notebook = (
        f"This page is [a notebook]({path.name}) with its output (`make notebooks`). On another\n"
        "processor, training rounds differently, and the numbers differ a little."
    )
    page = "\n\n".join([parts[0], notebook, *parts[1:]])
    path.with_suffix(".md").write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        run(file)
        write_page(file)
