// The launcher in the driver of a Spark application, started by horovod_spark.py: horovodrun with Spark's tasks as places. The first
// argument is the descriptor for the order, the others are those of horovodrun.

import { main } from '../main.ts';
import { SparkParent } from './spark-parent.ts';
import { sparkPlaces } from './spark-places.ts';

const [descriptor = '', ...argv] = process.argv.slice(2);
await main(argv, { name: 'horovod_spark.py', give: sparkPlaces(() => new SparkParent(Number(descriptor))) });
