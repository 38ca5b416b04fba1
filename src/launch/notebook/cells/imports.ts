// The import statements of a notebook's module. Notebooks repeat them, which a module may not: what was imported already is left out.
// The statements are those that the compiler prints, each on a line of its own.

import { notebookError } from './notebook.ts';

interface ImportStatement {
  readonly module: string;
  /** Of `import name from`. */
  readonly whole: string | undefined;
  /** Of `* as name`. */
  readonly namespace: string | undefined;
  readonly named: readonly { readonly imported: string; readonly local: string }[] | undefined;
  /** ` with { type: 'json' }` */
  readonly attributes: string;
}

/** Whose objects exist in cells only. */
const kernelModules = ['tslab'];

/** Undefined for any other text. */
export function parseImport(line: string): ImportStatement | undefined {
  const match =
    /^import (?:(?:([^\s,{}*]+)(?:, )?)?(?:\* as ([^\s,{}*]+)|(\{.*\}))? ?from )?(['"])(.*?)\4( with \{[^}]*\})?;\s*(\/\/.*|\/\*.*\*\/\s*)?$/.exec(
      line,
    );
  if (match === null) return undefined;
  const [, whole, namespace, list, , module = '', attributes = ''] = match;
  const named = list
    ?.slice(1, -1)
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((part) => {
      const [imported = '', local = imported] = part.split(' as ');
      return { imported, local };
    });
  return { module, whole, namespace, named, attributes };
}

/** The names that it declares. */
export function localNames({ whole, namespace, named = [] }: ImportStatement): string[] {
  return [whole, namespace, ...named.map(({ local }) => local)].filter((name) => name !== undefined);
}

/** Takes the names that it was given before out of each statement. */
export class ImportMerger {
  /** What a name was imported as. */
  readonly #known = new Map<string, string>();

  /** The text that replaces it. `where` is for errors. */
  merge(line: string, where: string): string {
    const statement = parseImport(line);
    if (statement === undefined) return line;
    const { module, attributes } = statement;
    if (kernelModules.includes(module)) return '';
    requireKnownScheme(module, where);
    const isNew = (what: string, local: string) => {
      const origin = `${module}${attributes} ${what}`;
      if (this.#known.get(local) === origin) return false;
      if (!this.#known.has(local)) this.#known.set(local, origin);
      return true;
    };
    const { whole, namespace, named } = statement;
    const hasWhole = whole !== undefined && isNew('default', whole);
    const hasNamespace = namespace !== undefined && isNew('*', namespace);
    const left = named?.filter(({ imported, local }) => isNew(imported, local)) ?? [];
    // Nothing was repeated, or it has no names at all.
    if (localNames(statement).length === [hasWhole, hasNamespace, ...left].filter(Boolean).length)
      return line;
    const parts = [
      ...(hasWhole ? [whole] : []),
      ...(hasNamespace ? [`* as ${namespace}`] : []),
      ...(left.length === 0
        ? []
        : [
            `{ ${left.map(({ imported, local }) => (imported === local ? local : `${imported} as ${local}`)).join(', ')} }`,
          ]),
    ];
    return parts.length === 0 ? '' : `import ${parts.join(', ')} from '${module}'${attributes};`;
  }
}

function requireKnownScheme(module: string, where: string): void {
  const [, scheme, rest = ''] = /^(npm|jsr|https?):(.*)$/.exec(module) ?? [];
  if (scheme === undefined) return;
  const name = /^\/?((?:@[^/@]+\/)?[^/@]+)/.exec(rest)?.[1] ?? rest;
  throw notebookError(
    `${where} imports '${module}', which only Deno can load, and ranks run on Node. ` +
      (scheme === 'npm'
        ? `Install ${name} in a node_modules folder beside the notebook, and import '${rest.replace(/^\//, '').replace(/(?<=.)@[^/]*/, '')}': that works in both.`
        : 'Import it from a file or an npm package instead, which works in both.'),
  );
}
