// Commits on tfjs-node. Run by the stage tfjs-node only.

import { after, before } from 'node:test';
import { describeCommits } from '../../../../test/support/elastic-commits.ts';
import * as hvd from '../../../tensorflow.ts';

before(async () => {
  await hvd.init();
  await hvd.setBackend('tensorflow');
});
after(() => hvd.shutdown());

describeCommits('tensorflow');
