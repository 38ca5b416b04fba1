// As fault-late-writer.test.ts, in the memory of TensorFlow. Run by the stage tfjs-node only.

import { test } from 'node:test';
import { assertStaysIntact } from '../support/late-writer.ts';

test('what the survivor of a failure puts into tensors of tfjs-node stays there, whoever was writing', (t) =>
  assertStaysIntact(t, 'tensorflow'));
