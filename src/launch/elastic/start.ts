// Starts an elastic job.

import { ElasticJob } from './elastic-job.ts';
import { type ElasticLaunch, elasticRequest } from './elastic-request.ts';

/** Throws ERR_HVD_SETTING for what cannot be combined. */
export async function startElasticJob(launch: ElasticLaunch): Promise<ElasticJob> {
  return ElasticJob.start(await elasticRequest(launch));
}
