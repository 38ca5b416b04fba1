// Starts the user's browser, where there is a display to show it on.

import { spawn } from 'node:child_process';
import { hostname } from 'node:os';

/** Undefined, or why no browser was started. One that cannot be started says nothing: the URL has been printed. */
export function startBrowser(
  url: string,
  environment: NodeJS.ProcessEnv,
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  const command = browserCommand(environment, platform, new URL(url).port);
  if (typeof command === 'string') return command;
  const [program, ...args] = command;
  const child = spawn(program, [...args, url], { detached: true, stdio: 'ignore' });
  child.once('error', () => {});
  child.unref();
  return undefined;
}

/** The words of the command, before the URL, or why there is none. */
export function browserCommand(
  environment: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
  port: string,
): readonly [string, ...string[]] | string {
  if (platform === 'darwin') return ['open'];
  if (platform === 'win32') return ['explorer.exe'];
  const { DISPLAY: x11, WAYLAND_DISPLAY: wayland, SSH_CONNECTION: ssh, BROWSER: browser } = environment;
  if (!x11 && !wayland) {
    const forward = ssh
      ? ` On your own machine, first forward the port: ssh -L ${port}:127.0.0.1:${port} ${hostname()}`
      : '';
    return `there is no display here, so open the URL in a browser.${forward}`;
  }
  // BROWSER is a list of commands, separated by colons.
  const [first] = (browser ?? '').split(':');
  return [first || 'xdg-open'];
}
