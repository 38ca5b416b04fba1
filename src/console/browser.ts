// Starts the user's browser, where there is a display to show it on.

import { spawn } from 'node:child_process';

/** `onProblem` gets why no browser comes up, as a sentence of its own without capital. */
export function startBrowser(
  url: string,
  environment: NodeJS.ProcessEnv,
  onProblem: (reason: string) => void,
  platform: NodeJS.Platform = process.platform,
): void {
  const program = browserProgram(environment, platform);
  if (program === undefined) {
    onProblem('there is no display here (DISPLAY and WAYLAND_DISPLAY are not set)');
    return;
  }
  // It outlives this process.
  const child = spawn(program, [url], { detached: true, stdio: 'ignore', env: environment });
  child.once('error', (error) => onProblem(`${program} cannot be run (${error.message})`));
  child.unref();
}

/** What opens a URL; undefined: there is no display. */
export function browserProgram(
  { DISPLAY: x11, WAYLAND_DISPLAY: wayland, BROWSER: browser = '' }: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
): string | undefined {
  if (platform === 'darwin') return 'open';
  if (platform === 'win32') return 'explorer.exe';
  if (!x11 && !wayland) return undefined;
  // A list of commands, separated by colons.
  return browser.split(':')[0] || 'xdg-open';
}
