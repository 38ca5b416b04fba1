# Python TensorFlow's side of bench/data.mjs: makes the files, then reads a task per line, repeats it until its time is over, and
# prints the figures. Everything runs in one thread, without autotune and prefetch, and graphs are traced before the clock starts.
#
# reduce() calls a function for each element, which costs about 10 us, several times what reading a record of 3 KB does. Records are
# therefore drained in batches, of 128 or of about 1 MB where records are longer, and files are read through a buffer of 1 MiB instead
# of 256 KiB: the fastest of the ways that were tried. (skip() is faster still, but reads no record: it verifies no checksum of data.)
# Parsed batches stay as parse_example() makes them, with images as strings: decode_raw() would be one more copy.
import functools
import hashlib
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

PIXELS = 3072
BATCH = 128
LONG_BATCH = 10
SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def serialized(image, label):
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
        )
    ).SerializeToString()


def make(folder, scale):
    random = np.random.default_rng(1)
    for name, size, count, compression in [
        ("3k.tfrecord", PIXELS, 40000, ""),
        ("100k.tfrecord", 100000, 1500, ""),
        ("3k-gzip.tfrecord", PIXELS, 10000, "GZIP"),
    ]:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        with tf.io.TFRecordWriter(path + ".tmp", compression) as writer:
            for i in range(max(1, count // scale)):
                # Half of the range: images compress, a little.
                writer.write(serialized(random.integers(0, 16, size, dtype=np.uint8).tobytes(), i % 10))
        os.rename(path + ".tmp", path)
    return tf.__version__


def dataset(path):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    compression = "GZIP" if "gzip" in path else ""
    return tf.data.TFRecordDataset(path, compression, buffer_size=1 << 20).with_options(options)


def parsed_batch(batch):
    values = tf.io.parse_example(batch, SPEC)
    return values["image"], values["label"]


# Graphs are built once for each file, as a training job does.
@functools.cache
def records_graph(path):
    data = dataset(path).batch(LONG_BATCH if "100k" in path else BATCH)
    return tf.function(
        lambda: data.reduce(
            (np.int64(0), np.int64(0)),
            lambda sums, batch: (
                sums[0] + tf.shape(batch, out_type=tf.int64)[0],
                sums[1] + tf.cast(tf.reduce_sum(tf.strings.length(batch)), tf.int64),
            ),
        )
    )


@functools.cache
def parsed_graph(path):
    def count(sum, batch):
        return sum + tf.shape(batch[1], out_type=tf.int64)[0]

    data = batches(path)
    return tf.function(lambda: data.reduce(np.int64(0), count))


@functools.cache
def batches(path):
    # Without num_parallel_calls: one call would run in a thread of its own.
    return dataset(path).batch(BATCH).map(parsed_batch)


def records(path):
    sums = records_graph(path)()
    return int(sums[0]), int(sums[1])


def parsed(path):
    count = int(parsed_graph(path)())
    return count, count * PIXELS


def parsed_loop(path):
    count = 0
    for image, label in batches(path):
        count += len(label)
    return count, count * PIXELS


def write(path):
    image = bytes(i % 256 for i in range(PIXELS))
    count = 5000
    with tf.io.TFRecordWriter(path + "-tensorflow") as writer:
        for i in range(count):
            writer.write(serialized(image, i % 10))
    # Our writer does so before the file gets its name.
    with open(path + "-tensorflow", "rb+") as file:
        os.fsync(file.fileno())
    os.remove(path + "-tensorflow")
    return count, count * PIXELS


def digest(path):
    seen, count = hashlib.sha256(), 0
    for image, label in batches(path):
        for each, number in zip(image.numpy(), label.numpy()):
            seen.update(each)
            seen.update(str(number).encode())
            count += 1
    return {"records": count, "digest": seen.hexdigest()}


TASKS = {"records": records, "parsed": parsed, "parsed-loop": parsed_loop, "write": write}

warm = set()
for line in sys.stdin:
    task = json.loads(line)
    if task["task"] == "make":
        print(json.dumps(make(task["folder"], task["scale"])), flush=True)
        continue
    if task["task"] == "digest":
        print(json.dumps(digest(task["file"])), flush=True)
        continue
    # Traces the graph, and brings the file into the page cache.
    if task["task"] != "write" and (task["task"], task["file"]) not in warm:
        TASKS[task["task"]](task["file"])
        warm.add((task["task"], task["file"]))
    done, size = 0, 0
    start, used = time.perf_counter(), time.process_time()
    while True:
        more = TASKS[task["task"]](task["file"])
        done += more[0]
        size += more[1]
        seconds = time.perf_counter() - start
        if seconds >= task["seconds"]:
            break
    used = time.process_time() - used
    print(json.dumps({"records": done, "bytes": size, "seconds": seconds, "cpuSeconds": used}), flush=True)
