// The WASM backend's module installs listeners for uncaught errors that rethrow them. With them a failed rank exits with code 7
// instead of 1, its stack names the listener's line, and the user's listeners may be skipped. They are for exit() of C programs,
// which a backend never calls, so they are removed.

const events = ['uncaughtException', 'unhandledRejection'] as const;

export function removeRethrowingListeners(): void {
  for (const event of events) {
    for (const listener of process.rawListeners(event)) {
      if (isRethrowing(String(listener))) process.removeListener(event, listener as () => void);
    }
  }
}

/** As Emscripten writes them, whether minified or not. */
function isRethrowing(source: string): boolean {
  const text = source.replaceAll(/\s+/g, '');
  return (
    text === 'function(reason){throwreason;}' ||
    text === 'function(reason){throwreason}' ||
    /^function\(ex\)\{if\(!\(exinstanceofExitStatus\)\)\{throwex;?\}\}$/.test(text)
  );
}
