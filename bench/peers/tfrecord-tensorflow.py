# Python TensorFlow's side of bench/data.mjs: makes the files, then reads a task per line, repeats it until its time is over, and
# prints the figures. Everything runs in one thread.
import functools
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

PIXELS = 3072
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
    return tf.data.TFRecordDataset(path, "GZIP" if "gzip" in path else "").with_options(options)


def decoded(batch):
    values = tf.io.parse_example(batch, SPEC)
    return tf.io.decode_raw(values["image"], tf.uint8), values["label"]


# Graphs are built once for each file, as a training job does.
@functools.cache
def records_graph(path):
    data = dataset(path)
    return tf.function(
        lambda: data.reduce(
            (np.int64(0), np.int64(0)),
            lambda sums, record: (sums[0] + 1, sums[1] + tf.cast(tf.strings.length(record), tf.int64)),
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
    return dataset(path).batch(128).map(decoded, num_parallel_calls=1)


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
    os.remove(path + "-tensorflow")
    return count, count * PIXELS


TASKS = {"records": records, "parsed": parsed, "parsed-loop": parsed_loop, "write": write}

for line in sys.stdin:
    task = json.loads(line)
    if task["task"] == "make":
        print(json.dumps(make(task["folder"], task["scale"])), flush=True)
        continue
    done, size = 0, 0
    start = time.perf_counter()
    while True:
        more = TASKS[task["task"]](task["file"])
        done += more[0]
        size += more[1]
        seconds = time.perf_counter() - start
        if seconds >= task["seconds"]:
            break
    print(json.dumps({"records": done, "bytes": size, "seconds": seconds}), flush=True)
