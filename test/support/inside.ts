// The way to modules that the package does not export, for the scripts of tests.

/**
 * A module of dist/ that the package does not export: what this process's `import 'horovod'` is made of. `M` is the type
 * of its source, as in `inside<typeof import('../../src/…/tcp-store.ts')>('./…/tcp-store.js')`.
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
