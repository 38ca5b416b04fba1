# Executes cells with a kernel, as JupyterLab would, and prints the outputs of each cell as a line of JSON, with the number of times that
# outputs were replaced in place:
#   python execute.py <kernel> <folder of the notebook> < cells.json

import json
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

kernel, folder = sys.argv[1:]


class CountingClient(NotebookClient):
    updates = {}

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.updates[cell_index] = self.updates.get(cell_index, 0) + 1
        return super().process_message(msg, cell, cell_index)


cells = [nbformat.v4.new_code_cell(code) for code in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
resources = {"metadata": {"path": folder}}
client = CountingClient(notebook, kernel_name=kernel, timeout=120, allow_errors=True, resources=resources)
try:
    client.execute()
except DeadKernelError:
    pass  # A test has killed it.
for index, cell in enumerate(notebook.cells):
    print(json.dumps({"outputs": cell.outputs, "updates": client.updates.get(index, 0)}))
