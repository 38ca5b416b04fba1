// How a launch comes to places: a function that asks a cluster manager for them, and waits until an agent is in each.

import { settingError } from '../../settings/setting.ts';
import type { ElasticLaunch } from '../elastic/elastic-request.ts';
import { elasticLimits } from '../elastic/elastic-request.ts';
import { type Launch, planPlaces } from '../job-request.ts';
import type { AgentPlaces } from './agent-places.ts';

export interface PlacesWanted
  extends Pick<Launch, 'settings' | 'environment' | 'driverEnvironment' | 'say' | 'command' | 'node'> {
  /** Undefined: as many as the cluster manager has. */
  readonly processes: number | undefined;
  /** An elastic job: places may come and go, and there are at most so many. */
  readonly elastic?: { readonly max: number | undefined } | undefined;
  readonly isVerbose: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Resolves when `processes` agents are there, or as many as the manager has. Rejects, with nothing left behind, if it cannot be done. */
export type PlaceGiver = (wanted: PlacesWanted) => Promise<AgentPlaces>;

export type PlannedInPlaces =
  | { readonly kind: 'elastic'; readonly launch: ElasticLaunch }
  | { readonly kind: 'fixed'; readonly launch: Launch };

/** Asks for the places of a job. */
export async function planInPlaces(
  launch: Omit<Launch, 'plan' | 'places'>,
  isElastic: boolean,
  give: PlaceGiver,
): Promise<PlannedInPlaces> {
  const { options, settings, environment, driverEnvironment, say, command, node } = launch;
  if (settings.transport === 'mpi')
    throw settingError(
      '--mpi needs hosts that mpirun can reach, and these are places of a cluster manager. Leave it out.',
    );
  const limits = isElastic ? elasticLimits(settings, options) : undefined;
  const processes = options.processes ?? limits?.np;
  const about = { settings, environment, driverEnvironment, say, command, node };
  const places = await give({
    ...about,
    processes,
    elastic: limits && { max: limits.max },
    isVerbose: options.verbose,
  });
  if (isElastic) return { kind: 'elastic', launch: { ...launch, places } };
  const count = processes ?? places.size;
  return {
    kind: 'fixed',
    launch: {
      ...launch,
      options: { ...options, processes: count },
      places,
      plan: planPlaces(count, places),
    },
  };
}
