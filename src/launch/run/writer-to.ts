// The output of a job within a program: it goes to stdout and stderr of this process, which are not ours, or into the cell of a notebook.

import { Writable } from 'node:stream';
import { CellOutput, isDenoCell } from '../output/cell-output.ts';
import { ConsoleWriter } from '../output/console-writer.ts';
import type { JobOptions } from './run.ts';

/** Passes output on without leaving listeners on a stream that is not ours. */
export function writerTo(
  name: 'stdout' | 'stderr',
  { showOutput = true }: Pick<JobOptions, 'showOutput'>,
): ConsoleWriter {
  const stream = process[name];
  if (showOutput && isDenoCell()) return new ConsoleWriter(new CellOutput(name), () => undefined);
  const target = new Writable({
    write(bytes, _encoding, done) {
      let isPassedOn = false;
      const passedOn = () => {
        if (!isPassedOn) done();
        isPassedOn = true;
      };
      // Only a full stream is waited for: in the cells of tslab, whose write() is another function, it never calls back.
      if (!showOutput || stream.write(bytes, passedOn)) passedOn();
    },
  });
  return new ConsoleWriter(target, () => undefined);
}
