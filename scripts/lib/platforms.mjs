// The platforms for which the addon is built beforehand, and the npm package of each. zig compiles for all of them on any of them: it
// brings the headers and stubs of glibc and musl, and its own C++ runtime, which it links statically.

/** The oldest glibc that the packages must run with: that of RHEL 8, Debian 10 and Ubuntu 20.04 is 2.28 or newer. */
export const glibcFloor = '2.28';

export const platforms = ['x64', 'arm64'].flatMap((cpu) =>
  ['gnu', 'musl'].map((libc) => ({
    name: `linux-${cpu}-${libc}`,
    cpu,
    libc,
    target: `${{ x64: 'x86_64', arm64: 'aarch64' }[cpu]}-linux-${libc === 'gnu' ? `gnu.${glibcFloor}` : 'musl'}`,
  })),
);

/** The name of the npm package with the addon for a platform. */
export const packageOf = ({ name }) => `horovod-${name}`;

/** package.json of that package. npm installs it only where `os`, `cpu` and `libc` are those of the machine. */
export function manifestOf(platform, main) {
  return {
    name: packageOf(platform),
    version: main.version,
    description: `The native addon of horovod for Linux, ${platform.cpu}, ${platform.libc === 'gnu' ? `glibc ${glibcFloor} or later` : 'musl'}.`,
    license: main.license,
    ...(main.repository === undefined ? {} : { repository: main.repository }),
    os: ['linux'],
    cpu: [platform.cpu],
    libc: [platform.libc === 'gnu' ? 'glibc' : 'musl'],
    main: 'horovod.node',
    files: ['horovod.node'],
    engines: main.engines,
  };
}

/** The newest version of glibc that a shared object asks for, such as [2, 27]; undefined if it asks for none. */
export function glibcNeededBy(bytes) {
  // The versions are strings in the object's table of dynamic strings.
  const found = [...bytes.toString('latin1').matchAll(/GLIBC_(\d+)\.(\d+)/g)];
  const versions = found.map(([, major, minor]) => [Number(major), Number(minor)]);
  return versions.sort((a, b) => a[0] - b[0] || a[1] - b[1]).at(-1);
}
