"""Gives a Horovod job for TypeScript its places on a Ray cluster.

run() of horovod/ray starts this program. It reserves resources with a placement group, starts an actor for each place, and each actor
starts our agent, which connects to the launcher; the launcher does the rest. In an elastic job there is no placement group: every
actor is scheduled by itself, and again elsewhere when it is lost.

The launcher gives one *order* in the environment (addresses, secret, places), and hears *events*, lines of JSON on stdout. Actors use
the standard library only, and no other module of ours: modules that this file imports do not reach the nodes.
"""

import json
import os
import signal
import sys
import time

ORDER_VARIABLE = "HOROVOD_RAY_ORDER"
EVENT_PREFIX = "horovod-ray "
# How often ends are looked for, and how long an elastic place waits before it starts again.
LOOK_SECONDS = 0.5
RESTART_SECONDS = 1
# How long the other places of an elastic job may take to end.
END_SECONDS = 5


def tell(event, **fields):
    sys.stdout.write(EVENT_PREFIX + json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def main():
    order = json.loads(os.environ.pop(ORDER_VARIABLE))
    try:
        import ray
    except ImportError as error:
        tell("failed", reason="%s has no Ray (%s): pip install ray" % (sys.executable, error))
        return 1
    # Ray itself handles SIGTERM after init(); before it, the default ends this process.
    try:
        ray.init(address=order["address"], log_to_driver=order["isVerbose"], **order["local"])
    except Exception as error:  # Ray raises many kinds
        tell("failed", reason="Ray cannot be reached: %s" % first_line(error))
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return serve(ray, order)
    finally:
        ray.shutdown()


def serve(ray, order):
    nodes = [node for node in ray.nodes() if node["Alive"]]
    total = ray.cluster_resources()
    tell(
        "cluster",
        nodes=len(nodes),
        cpus=total.get("CPU", 0),
        gpus=total.get("GPU", 0),
        perNode=[[node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)] for node in nodes],
        isOwn=started_here(ray),
    )
    resources = {"num_cpus": order["cpusPerWorker"], "num_gpus": order["gpusPerWorker"]}
    Place = ray.remote(max_restarts=0, max_task_retries=0, **resources)(make_place())
    return elastic(ray, order, Place) if order["isElastic"] else fixed(ray, order, Place)


def started_here(ray):
    """Whether ray.init() has started a cluster for this job; it does not grow."""
    try:
        return bool(ray._private.worker._global_node.is_head())
    except AttributeError:
        return False


def fixed(ray, order, Place):
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    each = order["placesPerBundle"]
    bundle = {"CPU": order["cpusPerWorker"] * each, "GPU": order["gpusPerWorker"] * each}
    bundle = {name: amount for name, amount in bundle.items() if amount > 0} or {"CPU": 0.001}
    bundles = order["count"] // each
    group = placement_group([bundle] * bundles, strategy=order["strategy"])
    try:
        # The launcher ends this process when the start takes too long.
        while not ray.wait([group.ready()], timeout=LOOK_SECONDS)[0]:
            pass
        actors = [
            Place.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=place // each
                )
            ).remote()
            for place in range(order["count"])
        ]
        running = {actor.run.remote(order, place, 0): place for place, actor in enumerate(actors)}
        code = 0
        while running:
            for done in ray.wait(list(running), num_returns=1, timeout=LOOK_SECONDS)[0]:
                place = running.pop(done)
                reason = ending(ray, done)
                if reason is None:
                    continue
                code = 1
                tell("failed", place=place, reason=reason)
        return code
    finally:
        remove_placement_group(group)


def elastic(ray, order, Place):
    attempts = [0] * order["count"]
    starts = {place: 0 for place in range(order["count"])}
    running = {}
    deadline = None
    while deadline is None or (running and time.monotonic() < deadline):
        now = time.monotonic()
        for place in [place for place, at in starts.items() if at <= now and deadline is None]:
            del starts[place]
            actor = Place.remote()
            running[actor.run.remote(order, place, attempts[place])] = (place, actor)
            attempts[place] += 1
        if not running:
            time.sleep(LOOK_SECONDS)
            continue
        for done in ray.wait(list(running), num_returns=1, timeout=LOOK_SECONDS)[0]:
            place, actor = running.pop(done)
            reason = ending(ray, done)
            ray.kill(actor)
            if reason is None:
                # The launcher has hung up, so the job is over; an actor that no node has room for would wait for ever.
                deadline = deadline or time.monotonic() + END_SECONDS
            else:
                tell("lost", place=place, reason=reason)
                starts[place] = time.monotonic() + RESTART_SECONDS
    return 0


def ending(ray, result):
    """None: the launcher has hung up. Otherwise why the place was lost."""
    try:
        code, text = ray.get(result)
    except Exception as error:  # RayActorError, OutOfMemoryError …
        return first_line(error)
    return None if code == 0 else (text or "its agent ended with code %d" % code)


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]


def make_place():
    """The class of an actor. It is sent to the nodes as a whole, so its imports are inside."""

    class Place:
        def run(self, order, place, attempt):
            import json
            import os
            import shutil
            import subprocess

            node = next((path for path in [order["node"], shutil.which("node")] if path and os.path.exists(path)), None)
            if node is None:
                return 1, "there is no Node on %s: neither %s nor `node` on the PATH" % (os.uname().nodename, order["node"])
            agent = next((path for path in order["agents"] if os.path.exists(path)), None)
            if agent is None:
                return 1, "horovod is not installed on %s: there is no %s" % (os.uname().nodename, " and no ".join(order["agents"]))
            # It ends when its stdin does, which nobody but this process holds open.
            child = subprocess.Popen([node, agent, "dial"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            dial = {name: order[name] for name in ["addresses", "secret", "jobId", "timeoutMs", "directory"]}
            try:
                line = json.dumps({**dial, "place": place, "attempt": attempt}) + "\n"
                child.stdin.write(line.encode())
                child.stdin.flush()  # and stays open
            except BrokenPipeError:
                pass
            return child.wait(), None

    return Place


if __name__ == "__main__":
    sys.exit(main())
