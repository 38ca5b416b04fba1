# Executes cells with a kernel, as JupyterLab would, and prints the outputs of each cell as a line of JSON:
#   python execute.py <kernel> <folder of the notebook> < cells.json

import json
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

kernel, folder = sys.argv[1:]
cells = [nbformat.v4.new_code_cell(code) for code in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
client = NotebookClient(notebook, kernel_name=kernel, timeout=120, resources={"metadata": {"path": folder}})
try:
    client.execute()
except CellExecutionError:
    pass  # The output of the cell has the error.
for cell in notebook.cells:
    print(json.dumps(cell.outputs))
