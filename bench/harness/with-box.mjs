// Hosts in a box for the benchmarks that need some.

/**
 * Calls `use` with a box of so many hosts, or with undefined if one is enough.
 * @param advice what to do where there can be no box.
 */
export async function withBox(hosts, use, advice = 'Use --topics to leave out those with hosts.') {
  if (hosts < 2) return await use(undefined);
  const { canUseBox, startBox } = await import('../../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new Error(`${reason.replace(/\.$/, '')}. ${advice}`);
  const box = await startBox({ hosts });
  try {
    return await use(box);
  } finally {
    await box.close();
  }
}
