"""Runs a data service in the tasks of a Spark job: one compute worker in each.

    spark-submit --master 'local[4]' "$(horovod path spark/compute_worker.py)" /tmp/compute.json

The arguments are those of `horovod compute-worker`. It is `horovod_spark.py --keep-going horovod compute-worker …`.
"""

import os
import runpy
import sys

HOROVOD_SPARK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "horovod_spark.py")

if __name__ == "__main__":
    sys.argv = [HOROVOD_SPARK, "--keep-going", "horovod", "compute-worker"] + sys.argv[1:]
    # As __main__, because functions of imported modules do not reach the executors.
    runpy.run_path(HOROVOD_SPARK, run_name="__main__")
