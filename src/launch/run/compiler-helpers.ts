// run() sends a function as source text, as the compiler of its caller wrote it. That text may call helper functions which the
// compiler put elsewhere in the file; ranks get them as globals. Only names that are not defined yet are added.
//
// `__name` is of esbuild and tsx. The others are of TypeScript: import() compiled to CommonJS calls `__importStar` or
// `__importDefault` (tslab does this in every cell), and async functions for old targets call `__awaiter`.

import { createRequire } from 'node:module';
import { join } from 'node:path';

type Exports = Record<PropertyKey, unknown>;

const helpers = {
  __name: (fn: unknown) => fn,
  __importStar: importStar,
  __importDefault: importDefault,
  __rest: rest,
  __spreadArray: spreadArray,
  __awaiter: awaiter,
};

/** Adds to `target`, the global object, what `code` may call. `folder`: where its require() looks for packages. */
export function defineCompilerHelpers(target: object, code: string, folder: string = process.cwd()): void {
  const add = (name: string, value: unknown) => {
    if (!(name in target)) Object.assign(target, { [name]: value });
  };
  for (const [name, value] of Object.entries(helpers)) add(name, value);
  // Only for code compiled to CommonJS: packages may take a global `require` as a sign of another environment.
  if (/\brequire\s*\(/.test(code)) add('require', createRequire(join(folder, 'hvd.run')));
}

function importStar(module: Exports | null | undefined): unknown {
  if (module?.['__esModule'] === true) return module;
  return { ...module, default: module };
}

function importDefault(module: Exports | null | undefined): unknown {
  return module?.['__esModule'] === true ? module : { default: module };
}

/** `{ a, ...others } = source` */
function rest(source: Exports, names: readonly PropertyKey[]): Exports {
  const others = { ...source };
  for (const name of names) delete others[name];
  return others;
}

/** `[...to, ...from]` */
function spreadArray(to: readonly unknown[], from: ArrayLike<unknown>): unknown[] {
  return [...to, ...Array.from(from)];
}

/** An async function written as a generator. */
function awaiter(
  thisArg: unknown,
  args: readonly unknown[] | undefined,
  _promise: unknown,
  body: (...args: readonly unknown[]) => Generator<unknown, unknown, unknown>,
): Promise<unknown> {
  const steps = body.apply(thisArg, [...(args ?? [])]);
  const goOn = async (turn: IteratorResult<unknown, unknown>): Promise<unknown> => {
    let result = turn;
    while (result.done !== true) {
      let value: unknown;
      try {
        value = await result.value;
      } catch (error) {
        result = steps.throw(error);
        continue;
      }
      result = steps.next(value);
    }
    return result.value;
  };
  return Promise.resolve().then(() => goOn(steps.next()));
}
