// Pages in a real browser, for tests of what we draw: Debian's chromium without a screen, driven by playwright-core. Each browser has
// a profile of its own, which is deleted with it, and reaches this machine only.

import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';

export interface TestBrowser extends AsyncDisposable {
  /** A page of this URL in a window of this size, as soon as it has loaded. */
  open(url: string, size: WindowSize): Promise<OpenPage>;
}

export interface WindowSize {
  readonly width: number;
  readonly height: number;
}

export interface OpenPage {
  readonly page: Page;
  /** Errors that the page has thrown or logged, and what it wanted from other machines, so far. */
  readonly problems: readonly string[];
}

const names = ['chromium', 'chromium-browser', 'google-chrome'];
const timeoutMs = 60_000;

/** The browser's program, or why there is none. HVD_TEST_BROWSER names one. */
export function findBrowser(): { readonly path: string } | { readonly reason: string } {
  const given = process.env['HVD_TEST_BROWSER'];
  if (given !== undefined) return { path: given };
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const path = names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
  return path === undefined ? { reason: 'no chromium on PATH (Debian: apt-get install chromium)' } : { path };
}

export async function startBrowser(path: string): Promise<TestBrowser> {
  const profile = mkdtempSync(join(tmpdir(), 'hvd-browser-'));
  let context: BrowserContext;
  try {
    context = await chromium.launchPersistentContext(profile, {
      executablePath: path,
      headless: true,
      timeout: timeoutMs,
      args: [
        // Containers, where tests often run as root, have no namespaces to build a sandbox with.
        '--no-sandbox',
        '--disable-gpu',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
  } catch (error) {
    rmSync(profile, { recursive: true, force: true });
    throw error;
  }
  context.setDefaultTimeout(timeoutMs);
  const problemsOf = new WeakMap<Page, string[]>();
  await context.route(
    (url) => !isHere(url),
    async (route) => {
      problemsOf.get(route.request().frame().page())?.push(`asks for ${route.request().url()}`);
      await route.abort();
    },
  );
  return {
    async open(url, size) {
      const page = await context.newPage();
      const problems: string[] = [];
      problemsOf.set(page, problems);
      page.on('pageerror', (error) => problems.push(String(error)));
      page.on('console', (message) => {
        if (message.type() === 'error') problems.push(message.text());
      });
      await page.setViewportSize(size);
      await page.goto(url, { waitUntil: 'load' });
      return { page, problems };
    },
    async [Symbol.asyncDispose]() {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    },
  };
}

function isHere({ protocol, hostname }: URL): boolean {
  return !/^(https?|wss?):$/.test(protocol) || ['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
