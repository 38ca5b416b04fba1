"""Runs the ranks of a Horovod job for TypeScript in the tasks of a Spark job.

    spark-submit --master yarn "$(horovod path spark/horovod_spark.py)" --num-proc 4 train.js --epochs 3

Everything after the name of this file is for horovodrun, which this program starts with Node. run() of horovod/spark starts this
program itself, through spark-submit. In both cases Spark only provides the places: this program starts a Spark job, each task of it
starts our agent, and the agents connect to the launcher, which does the rest.

With the launcher it exchanges lines. It gets one *order* (addresses, secret, number of tasks), and tells *events*. Tasks use the
standard library only, and no other module of ours: modules that this file imports do not reach the executors.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ORDER_VARIABLE = "HOROVOD_SPARK_ORDER"
EVENT_PREFIX = "horovod-spark "
TASK_MARK = "horovod: "
# How often slots are counted and ends are looked for.
LOOK_SECONDS = 0.5
# How long the Spark job may take to end after it was cancelled.
CANCEL_SECONDS = 20


def main():
    order = os.environ.pop(ORDER_VARIABLE, None)
    link = ChildLink() if order is None else ParentLink(json.loads(order))
    code = 1
    try:
        code = serve(link)
    finally:
        sys.stdout.flush()
        link.close()
    if code != 0:
        sys.exit(code)


class ParentLink:
    """The launcher has started spark-submit: its order came in the environment, and events go to stdout."""

    def __init__(self, order):
        self.order = order

    def tell(self, event):
        sys.stdout.write(EVENT_PREFIX + json.dumps(event) + "\n")
        sys.stdout.flush()

    def is_over(self):
        return False

    def exit_code(self, is_failed):
        return 1 if is_failed else 0

    def close(self):
        pass


class ChildLink:
    """Somebody has started this program with spark-submit: it starts the launcher."""

    def __init__(self):
        node = property_of("spark.horovod.node") or shutil.which("node")
        if node is None:
            raise SystemExit("horovod_spark.py: Node was not found on the PATH. Install Node 20.19 or later.")
        reads, writes = os.pipe()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.child = subprocess.Popen(
            [node, launcher_program(), str(writes)] + sys.argv[1:],
            stdin=subprocess.PIPE,
            pass_fds=[writes],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(writes)
        with os.fdopen(reads, "r") as orders:
            line = orders.readline()
        # Without a line it has ended: --help, or a mistake in the options.
        self.order = json.loads(line) if line else None

    def tell(self, event):
        try:
            self.child.stdin.write((json.dumps(event) + "\n").encode())
            self.child.stdin.flush()
        except OSError:
            pass

    def is_over(self):
        return self.child.poll() is not None

    def exit_code(self, is_failed):
        try:
            self.child.stdin.close()
        except OSError:
            pass
        code = self.child.wait()
        return code if code >= 0 else 128 - code

    def close(self):
        if self.child.poll() is None:
            self.child.terminate()


def launcher_program():
    """In the package to which this file belongs, or in the project, if Spark has copied this file elsewhere."""
    here = os.path.dirname(os.path.abspath(__file__))
    packages = [os.path.join(here, "..", ".."), "node_modules/horovod", "app/node_modules/horovod"]
    given = property_of("spark.horovod.package")
    for package in [given] if given else packages:
        program = os.path.join(package, "dist", "launch", "spark", "main.js")
        if os.path.exists(program):
            return os.path.abspath(program)
    raise SystemExit(
        "horovod_spark.py: the package horovod was not found beside this file or in node_modules. "
        "Set spark.horovod.package to its folder."
    )


def property_of(name):
    """Of the configuration of this application, before there is a context."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # pylint: disable=protected-access
    return SparkConf().get(name)


def serve(link):
    order = link.order
    if order is None:
        return link.exit_code(False)
    parent = os.getppid()
    context = open_context(order)
    job = None
    try:
        conf = context.getConf()
        slots = context.defaultParallelism
        link.tell(
            {
                "event": "context",
                "slots": slots,
                "master": context.master,
                "applicationId": context.applicationId,
                "webUrl": context.uiWebUrl,
                "isDynamic": conf.get("spark.dynamicAllocation.enabled", "false") == "true",
            }
        )
        job = SparkJob(context, order, order["count"] or slots)
        while not job.is_over():
            job.thread.join(LOOK_SECONDS)
            found = context.defaultParallelism
            if found != slots:
                slots = found
                link.tell({"event": "slots", "slots": slots})
            if link.is_over() or os.getppid() != parent:
                job.cancel()
                break
        if job.failure is not None:
            link.tell({"event": "failed", "reason": job.failure})
        return link.exit_code(job.failure is not None)
    finally:
        if os.getppid() == parent:
            context.stop()


def open_context(order):
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    # A barrier job that comes before the executors is tried again after 15 s by default.
    for name, value in order["defaults"].items():
        conf.setIfMissing(name, value)
    conf.setIfMissing("spark.app.name", order["name"])
    # Where Node, the package and the working directory of the ranks are on the executors, if not where they are here.
    order["node"] = conf.get("spark.horovod.node", order["node"])
    order["directory"] = conf.get("spark.horovod.directory", order["directory"])
    package = conf.get("spark.horovod.package")
    if package is not None:
        order["agents"] = [os.path.join(package, "dist", "launch", "agent", "main.js")]
    context = SparkContext(conf=conf)
    if threading.current_thread() is threading.main_thread():
        # PySpark cancels all jobs with Ctrl-C. The launcher gets it too, and ends the ranks in its own time.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not order["isVerbose"]:
        context.setLogLevel("ERROR" if order["isElastic"] else "OFF")
    return context


class SparkJob:
    """One task for each place. A plain job if places may come and go, otherwise a barrier job: all tasks run, or none."""

    def __init__(self, context, order, count):
        self.context = context
        self.failure = None
        self.group = "horovod " + order["jobId"]
        self.count = count
        # The secret goes to the tasks with the closure, and nowhere else.
        self.task = task_for({key: order[key] for key in TASK_KEYS})
        self.is_elastic = order["isElastic"]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.context.setJobGroup(self.group, "ranks of a Horovod job", interruptOnCancel=True)
            places = self.context.parallelize(range(self.count), self.count)
            if self.is_elastic:
                places.mapPartitions(self.task).collect()
            else:
                places.barrier().mapPartitions(self.task).collect()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = reason_of(error)

    def is_over(self):
        return not self.thread.is_alive()

    def cancel(self):
        """Spark forgets a cancel while the job waits for slots. Then the context, which ends with this job, ends it."""
        give_up = time.monotonic() + CANCEL_SECONDS
        while not self.is_over() and time.monotonic() < give_up:
            try:
                if not self.context.statusTracker().getJobIdsForGroup(self.group):
                    return
                self.context.cancelJobGroup(self.group)
            except Exception:  # pylint: disable=broad-except
                return  # The JVM has ended.
            self.thread.join(LOOK_SECONDS)


TASK_KEYS = ["addresses", "secret", "jobId", "node", "agents", "directory", "timeoutMs"]


def task_for(order):
    """What runs on the executors. It must not refer to anything outside: this module is not there."""
    mark = TASK_MARK

    def task(_items):
        import collections
        import ctypes
        import json as js
        import os as system
        import shutil as files
        import signal as signals
        import subprocess as processes
        import sys as python
        import threading as threads

        from pyspark import TaskContext

        context = TaskContext.get()
        place = context.partitionId()

        def fail(text):
            raise RuntimeError(mark + "task %d: %s" % (place, text))

        directory = order["directory"]
        given = order["node"]
        node = given if system.access(given, system.X_OK) else files.which("node")
        if node is None:
            fail("Node was not found on executor %s, neither at %s nor on the PATH" % (system.uname().nodename, given))
        agents = [path for path in order["agents"] if system.path.exists(path)]
        if not agents:
            fail(
                "the package horovod was not found on executor %s, at %s (from %s)"
                % (system.uname().nodename, " or ".join(order["agents"]), system.getcwd())
            )
        environment = dict(system.environ)
        environment.pop("HOROVOD_SPARK_ORDER", None)
        resources = context.resources() or {}
        if "gpu" in resources:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(resources["gpu"].addresses)

        def end_with_parent():
            # On Linux the agent gets SIGTERM when this process is killed. Its stdin ends as well.
            try:
                ctypes.CDLL(None).prctl(1, int(signals.SIGTERM), 0, 0, 0)
            except (AttributeError, OSError):
                pass

        agent = processes.Popen(
            [node, agents[0], "dial"],
            stdin=processes.PIPE,
            stdout=processes.DEVNULL,
            stderr=processes.PIPE,
            env=environment,
            preexec_fn=end_with_parent,
        )
        said = collections.deque(maxlen=20)

        def listen():
            for line in agent.stderr:
                text = line.decode(errors="replace").rstrip()
                said.append(text)
                # Into the log of the executor: the start and the end of each place.
                python.stderr.write(text + "\n")

        listener = threads.Thread(target=listen, daemon=True)
        listener.start()
        line = {
            "addresses": order["addresses"],
            "secret": order["secret"],
            "jobId": order["jobId"],
            "place": place,
            "attempt": context.attemptNumber() + 1000 * context.stageId(),
            "timeoutMs": order["timeoutMs"],
        }
        if directory is not None:
            line["directory"] = directory
        try:
            agent.stdin.write((js.dumps(line) + "\n").encode())
            agent.stdin.flush()
        except OSError:
            pass  # It has ended; its exit code says more.
        code = agent.wait()
        listener.join(1)
        if code != 0:
            words = [text for text in said if "connected to the launcher" not in text]
            fail("its agent ended with code %d%s" % (code, ": " + words[0] if words else ""))
        return iter([place])

    return task


def reason_of(error):
    """One line for the user: what our task has said, or why Spark has lost the executor, or the beginning of Spark's message."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    lost = re.search(r"ExecutorLostFailure[^\n]*", text)
    if lost is not None:
        return lost.group(0)
    ours = re.search(re.escape(TASK_MARK) + r"([^\n]*)", text)
    if ours is not None:
        return ours.group(1)
    return text.strip().split("\n")[0][:500]


if __name__ == "__main__":
    main()
