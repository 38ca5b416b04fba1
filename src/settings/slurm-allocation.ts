// The nodes of a Slurm allocation as hosts for horovodrun, from the variables that sbatch and salloc set.

import { expandHostList, expandTaskCounts } from './slurm-lists.ts';

/**
 * Undefined outside of an allocation, and in one of a single node: that is this machine, and any number of ranks may
 * be started there. Slots are the tasks of each node.
 */
export function slurmAllocation(
  env: NodeJS.ProcessEnv,
): { readonly name: string; readonly slots: number }[] | undefined {
  const { SLURM_JOB_NODELIST: nodes, SLURM_TASKS_PER_NODE: tasks } = env;
  if (nodes === undefined || nodes === '') return undefined;
  const names = expandHostList(nodes, 'SLURM_JOB_NODELIST');
  if (names.length < 2) return undefined;
  const counts = tasks === undefined || tasks === '' ? [] : expandTaskCounts(tasks, 'SLURM_TASKS_PER_NODE');
  return names.map((name, node) => ({ name, slots: counts[node] ?? 1 }));
}
