// Hosts in a box for the benchmarks that need some.

/** Calls `use` with a box of so many hosts, or with undefined if one is enough. */
export async function withBox(hosts, use) {
  if (hosts < 2) return await use(undefined);
  const { canUseBox, startBox } = await import('../../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new Error(`${reason} (Use --topics to leave out those with hosts.)`);
  const box = await startBox({ hosts });
  try {
    return await use(box);
  } finally {
    await box.close();
  }
}
