// The user's side of the stack: which of its frames are not of this package, and an error's stack without the frames of this
// package on top. Looking at a stack takes microseconds, so it is done for errors and where it is rare.

import { fileURLToPath } from 'node:url';

/** Frames of this package and of a framework may lie above the user's. */
const deepest = 64;

/** Whose code a frame is. 'package': something else in node_modules. */
export type Owner = 'own' | 'node' | 'package' | 'user';

/** `ownRoot`: the URL of the folder whose files are this package. */
export function ownerOfFile(ownRoot: string = new URL('.', import.meta.url).href): (file: string) => Owner {
  const ownPath = ownRoot.startsWith('file:') ? fileURLToPath(ownRoot) : ownRoot;
  return (file) => {
    if (file === '' || file.startsWith('node:')) return 'node';
    if (file.startsWith(ownRoot) || file.startsWith(ownPath)) return 'own';
    return file.includes('/node_modules/') ? 'package' : 'user';
  };
}

/** The frames below the call of `above`, with the lines of the code that runs: source maps are not applied. */
export function framesBelow(above: (...args: never[]) => unknown, limit: number): readonly NodeJS.CallSite[] {
  const { stackTraceLimit, prepareStackTrace } = Error;
  const holder: { stack?: unknown } = {};
  try {
    Error.stackTraceLimit = limit;
    Error.prepareStackTrace = (_, sites) => sites;
    Error.captureStackTrace(holder, above);
    return Array.isArray(holder.stack) ? (holder.stack as NodeJS.CallSite[]) : [];
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    if (prepareStackTrace === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace');
    else Error.prepareStackTrace = prepareStackTrace;
  }
}

/**
 * Makes the stack of the error begin at the call into this package, without frames of Node, and reach the first line outside of
 * node_modules. In the catch of an async function that is the line that awaits it. Returns false, and leaves the stack alone,
 * if no such line is known. The stack is that of now: errors are often made by a timer or a socket, far from who waits for them.
 */
export function showCaller(error: Error, owner: (file: string) => Owner = ownerOfFile()): boolean {
  const { stackTraceLimit } = Error;
  // Users may have turned stacks off.
  if (!(stackTraceLimit > 0)) return false;
  const owners = framesBelow(showCaller, deepest).map((site) => owner(site.getFileName() ?? ''));
  const first = owners.findIndex((each) => each === 'user' || each === 'package');
  if (first < 0) return false;
  const last = Math.max(first + stackTraceLimit, owners.indexOf('user') + 1);
  const shown = Math.min(last, owners.length);
  try {
    Error.stackTraceLimit = last;
    Error.captureStackTrace(error, showCaller);
    // Formatted by Node, which applies source maps if the user has turned them on. A frame is a line.
    const lines = String(error.stack).split('\n');
    const top = lines.length - shown;
    const frames = lines.slice(top).filter((_, i) => i >= first && owners[i] !== 'node');
    error.stack = [...lines.slice(0, top), ...frames].join('\n');
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return true;
}
