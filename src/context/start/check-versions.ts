// Do all ranks run the same build? Ranks that differ must not share memory or talk to each other: its layout and their
// messages change between versions. A pure function of what the ranks have told each other, so that all of them fail alike.

import { layoutVersion } from '../../control/layout-version.ts';
import { HorovodError } from '../../errors.ts';
import { packageVersion } from '../../settings/package.ts';

export interface Build {
  /** Of the package. */
  readonly version: string;
  /** Of the layout of shared memory. */
  readonly layout: number;
}

export function ownBuild(): Build {
  return { version: packageVersion(), layout: layoutVersion };
}

/** Throws ERR_HVD_VERSION with both versions and hosts. `ranks[i]` is the number of the rank that builds[i] is from. */
export function checkVersions(
  builds: readonly (Build & { readonly hostname: string })[],
  ranks: readonly number[],
): void {
  const [first] = builds;
  if (first === undefined) return;
  const place = builds.findIndex(
    ({ version, layout }) => version !== first.version || layout !== first.layout,
  );
  if (place < 0) return;
  const describe = (each: number) => {
    const { hostname, version, layout } = builds[each] as (typeof builds)[number];
    return `rank ${ranks[each]} on ${hostname} runs horovod ${version} (memory layout ${layout})`;
  };
  throw new HorovodError(
    'ERR_HVD_VERSION',
    `${describe(0)}, but ${describe(place)}. Install the same version on all hosts, and look for a second copy of the ` +
      'package: npm ls horovod shows it.',
    { rank: ranks[place] },
  );
}
