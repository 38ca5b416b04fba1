// The name under which a job is shown and leaves its files: the same on all hosts, for ranks and launcher. Tells nothing
// of the job's id, which may be a word of the user's.

import { createHash } from 'node:crypto';

export function shortJobId(jobId: string): string {
  return createHash('sha256').update(jobId).digest('hex').slice(0, 8);
}
