# Executes cells with a kernel, as JupyterLab would, and prints the outputs of each cell as a line of JSON, with the number of times that
# outputs were replaced in place:
#   python execute.py <kernel> <folder of the notebook> < cells.json

import json
import sys
from queue import Empty

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete, DeadKernelError

kernel, folder = sys.argv[1:]
# Nothing has come for so long: a cell is over.
late_seconds = 0.2


class CountingClient(NotebookClient):
    updates = {}

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.updates[cell_index] = self.updates.get(cell_index, 0) + 1
        return super().process_message(msg, cell, cell_index)

    # Deno sends what a cell has printed by another way than the end of the cell, which may overtake it. JupyterLab shows it all the same.
    async def _async_poll_output_msg(self, parent_msg_id, cell, cell_index):
        await super()._async_poll_output_msg(parent_msg_id, cell, cell_index)
        while True:
            try:
                msg = await self.kc.iopub_channel.get_msg(timeout=late_seconds)
            except Empty:
                return
            if msg["parent_header"].get("msg_id") == parent_msg_id:
                try:
                    self.process_message(msg, cell, cell_index)
                except CellExecutionComplete:
                    pass


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
