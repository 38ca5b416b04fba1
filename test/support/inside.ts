// For scripts of tests: access to modules that the package does not export.

/**
 * A module of dist/ that the package does not export, in the same instance that `import 'horovod'` uses. `M` is the type of its
 * source, as in `inside<typeof import('../../src/…/tcp-store.ts')>('./…/tcp-store.js')`.
 */
export async function inside<M>(path: string): Promise<M> {
  return (await import(new URL(path, import.meta.resolve('horovod')).href)) as M;
}

/** The context behind `horovod`. */
export async function defaultContextInside(): Promise<
  typeof import('../../src/context/default/default-context.ts')
> {
  return inside('./context/default/default-context.js');
}
