"""Executes the notebooks of this folder anew and stores their outputs.

    pip install nbclient ipykernel
    python examples/execute.py

They run in a temporary copy of the folder, so that runs and models do not stay. Needs a network, once: the notebooks
start from a published checkpoint.
"""

import pathlib
import re
import shutil
import tempfile

import nbclient
import nbformat

HERE = pathlib.Path(__file__).parent
# What TensorFlow and Jupyter say about the machine.
MACHINE = re.compile(
    r"^(WARNING: All log|[IWE]0000 |To enable the following|INFO:tensorflow|.*site-packages/|  from \.).*\n?", re.M
)


def execute(path: pathlib.Path) -> None:
    """Executes a notebook and writes it back with its outputs, without what depends on the machine."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        for table in HERE.glob("*.csv"):
            shutil.copy(table, folder)
        nbclient.NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            text = MACHINE.sub("", "".join(output.get("text", "") for output in cell.outputs))
            cell.outputs = [nbformat.v4.new_output("stream", text=text)] * bool(text.strip())
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.ipynb")):
        print(path.name)
        execute(path)
