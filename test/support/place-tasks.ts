// A cluster manager of a test: its tasks are processes of this machine, each of which starts an agent that dials back, as a task of
// Spark or Ray does.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { AgentPlaces } from '../../src/launch/places/agent-places.ts';
import type { PlaceGiver } from '../../src/launch/places/place-giver.ts';

export const agentPath: string = fileURLToPath(new URL('../../src/launch/agent/main.js', import.meta.url));

export interface PlaceTasks {
  readonly give: PlaceGiver;
  /** Of the agents that were started, by place. */
  readonly agents: Map<number, ChildProcess>;
  /** Starts a task for this place, again if it has had one. */
  start(place: number): ChildProcess;
  /** Set when places were asked for. */
  places: AgentPlaces | undefined;
  isClosed: boolean;
}

export interface TaskOptions {
  /** Default: as many as are wanted. */
  readonly places?: number;
  /** What the manager says about losses. */
  readonly says?: string;
  readonly timeoutMs?: number;
  readonly environmentOf?: (place: number) => NodeJS.ProcessEnv;
}

export function placeTasks(options: TaskOptions = {}): PlaceTasks {
  const attempts = new Map<number, number>();
  const ends: Promise<unknown>[] = [];
  const tasks: PlaceTasks = {
    agents: new Map(),
    places: undefined,
    isClosed: false,
    start(place) {
      const attempt = attempts.get(place) ?? 0;
      attempts.set(place, attempt + 1);
      const env = { ...process.env, ...options.environmentOf?.(place) };
      const child = spawn(process.execPath, [agentPath, 'dial'], {
        env,
        stdio: ['pipe', 'ignore', 'ignore'],
      });
      ends.push(once(child, 'exit'));
      child.stdin?.on('error', () => undefined);
      child.stdin?.write(`${JSON.stringify(tasks.places?.dialOrder(place, attempt, process.cwd()))}\n`);
      tasks.agents.set(place, child);
      return child;
    },
    async give({ processes = 1, settings, say, signal }) {
      const places = await AgentPlaces.open({
        settings,
        say,
        explain: () => undefined,
        manager: {
          name: 'the test',
          explainLoss: async () => options.says,
          async close() {
            await Promise.all(ends);
            tasks.isClosed = true;
          },
        },
      });
      tasks.places = places;
      for (let place = 0; place < (options.places ?? processes); place++) tasks.start(place);
      try {
        await places.gather({ count: processes, timeoutMs: options.timeoutMs ?? 20_000, signal });
      } catch (error) {
        await places.close();
        throw error;
      }
      return places;
    },
  };
  return tasks;
}
