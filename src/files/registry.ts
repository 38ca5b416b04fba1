// Which file system a location belongs to. A Files object is what a program has of them: the built-in ones, and those it has
// registered for schemes of its own. The default context keeps one; threads and compute workers make theirs from `settings` and
// `registrations`, which are plain data. File systems are made when they are first used.

import { HorovodError } from '../errors.ts';
import type { FileSettings } from '../settings/table.ts';
import { type FileSystem, fileError } from './file-system.ts';
import { LocalFileSystem } from './local.ts';
import { schemeOf } from './location.ts';

/** Modules by scheme, as URLs. */
export type FileSystemRegistrations = Readonly<Record<string, string>>;

/** The default export of a registered module. */
export type FileSystemFactory = (scheme: string) => FileSystem | Promise<FileSystem>;

const builtIn: Readonly<Record<string, (settings: FileSettings) => Promise<FileSystem>>> = {
  file: async () => new LocalFileSystem(),
  http: openHttp,
  https: openHttp,
  hdfs: openWebHdfs,
  webhdfs: openWebHdfs,
  swebhdfs: openWebHdfs,
};

// Loaded by the programs that use them.
async function openHttp(settings: FileSettings): Promise<FileSystem> {
  const { HttpFileSystem } = await import('./http.ts');
  return new HttpFileSystem(settings);
}

async function openWebHdfs(settings: FileSettings): Promise<FileSystem> {
  const { WebHdfsFileSystem } = await import('./webhdfs/client.ts');
  return new WebHdfsFileSystem(settings);
}

export class Files {
  readonly #readSettings: () => FileSettings;
  readonly #modules: Map<string, string>;
  readonly #opened = new Map<string, Promise<FileSystem>>();

  /** Settings are read at the first use. */
  constructor(settings: FileSettings | (() => FileSettings), registrations: FileSystemRegistrations = {}) {
    this.#readSettings = typeof settings === 'function' ? settings : () => settings;
    this.#modules = new Map(Object.entries(registrations));
  }

  /** For other threads and processes: `new Files(files.settings, files.registrations)`. Holds the HDFS token, if there is one. */
  get settings(): FileSettings {
    const { webHdfs, hadoopConfDir, hadoopUser, hdfsToken, hadoopTokenFile, fileTimeoutMs } =
      this.#readSettings();
    return { webHdfs, hadoopConfDir, hadoopUser, hdfsToken, hadoopTokenFile, fileTimeoutMs };
  }

  get registrations(): FileSystemRegistrations {
    return Object.fromEntries(this.#modules);
  }

  /** The module's default export makes the file system. Registering the same again does nothing. */
  register(scheme: string, module: URL): void {
    if (typeof scheme !== 'string' || !/^[a-z][a-z0-9+.-]+$/.test(scheme)) {
      const text = `a scheme has small letters and digits, such as s3, not ${JSON.stringify(scheme)}`;
      throw invalidRegistration(text);
    }
    if (scheme in builtIn) throw invalidRegistration(`${scheme}:// is built in`);
    if (!(module instanceof URL)) {
      throw invalidRegistration("give the module as a URL: new URL('./s3.js', import.meta.url)");
    }
    const registered = this.#modules.get(scheme);
    if (registered === module.href) return;
    if (registered !== undefined) throw invalidRegistration(`${scheme}:// is already ${registered}`);
    this.#modules.set(scheme, module.href);
  }

  /** Whether there is a file system for a scheme. */
  has(scheme: string): boolean {
    return scheme in builtIn || this.#modules.has(scheme);
  }

  fileSystem(location: string): Promise<FileSystem> {
    const scheme = schemeOf(location);
    let opened = this.#opened.get(scheme);
    if (opened === undefined) {
      opened = this.#make(scheme);
      this.#opened.set(scheme, opened);
      // What could not be loaded may be loaded later.
      opened.catch(() => this.#opened.delete(scheme));
    }
    return opened;
  }

  /** Ends idle connections. */
  async close(): Promise<void> {
    const opened = await Promise.allSettled(this.#opened.values());
    this.#opened.clear();
    for (const result of opened) if (result.status === 'fulfilled') result.value.close?.();
  }

  async #make(scheme: string): Promise<FileSystem> {
    const own = builtIn[scheme];
    if (own !== undefined) return own(this.settings);
    const module = this.#modules.get(scheme);
    if (module === undefined) {
      const known = [...Object.keys(builtIn), ...this.#modules.keys()].map((name) => `${name}://`);
      throw fileError(
        `There is no file system for ${scheme}://, only for paths, ${known.join(', ')}. ` +
          `Register one: registerFileSystem('${scheme}', new URL('./${scheme}.js', import.meta.url)).`,
      );
    }
    const { default: factory } = await importModule(scheme, module);
    if (typeof factory !== 'function') {
      throw fileError(`The module of ${scheme}://, ${module}, has no function as its default export.`);
    }
    return (factory as FileSystemFactory)(scheme);
  }
}

async function importModule(scheme: string, module: string): Promise<{ default?: unknown }> {
  try {
    return (await import(module)) as { default?: unknown };
  } catch (cause) {
    const reason = (cause as Error).message;
    throw fileError(`The module of ${scheme}://, ${module}, cannot be loaded: ${reason}`, undefined, cause);
  }
}

function invalidRegistration(text: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `registerFileSystem: ${text}.`);
}
