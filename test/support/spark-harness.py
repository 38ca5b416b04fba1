"""One Spark context for many jobs of a test. Each line on stdin is an order with an `id`, or `{"id": 1, "op": "end"}`; events go to stdout with
the id. Everything else is that of horovod_spark.py, whose path is the first argument."""

import json
import os
import sys
import threading

with open(sys.argv[1], encoding="utf-8") as source:
    # Into this module, __main__: Spark sends its functions to the tasks by value.
    exec(compile(source.read().replace('if __name__ == "__main__":\n    main()', ""), sys.argv[1], "exec"))

contexts = []
links = {}
lock = threading.Lock()
open_real_context = open_context


def open_context(order):
    with lock:
        if not contexts:
            contexts.append(open_real_context(order))
            contexts[0].stop_really, contexts[0].stop = contexts[0].stop, lambda: None
    return contexts[0]


class TestLink:
    def __init__(self, order):
        self.order = order
        self.has_ended = False

    def tell(self, event):
        say({"id": self.order["id"], **event})

    def is_over(self):
        return self.has_ended

    def exit_code(self, is_failed):
        return 0


def say(message):
    with lock:
        os.write(1, (json.dumps(message) + "\n").encode())


def run(link):
    serve(link)
    say({"id": link.order["id"], "event": "over"})


for line in sys.stdin:
    order = json.loads(line)
    if order.get("op") == "end":
        links[order["id"]].has_ended = True
    else:
        links[order["id"]] = TestLink(order)
        threading.Thread(target=run, args=[links[order["id"]]], daemon=True).start()
for context in contexts:
    context.stop_really()
os._exit(0)
