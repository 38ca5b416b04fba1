// Modules of a page as one script, so that a page can be a single file. It is not a bundler: the modules are ours, so their imports and
// exports have the form in which tsc writes them, and their names at the top level differ.

import { readFileSync } from 'node:fs';

const importLine = /^import (?:.*?) from '(\.[^']+)';$/gm;
const multiLineImport = /^import \{\n([^}]*)\} from '/gm;
const topLevelName = /^(?:async )?(?:function\*?|class|const|let) ([\w$]+)/gm;

/** The text of a compiled module, after all that it imports. */
export function inlineModules(entry: URL): string {
  const seen = new Map<string, string>();
  visit(entry, seen);
  const script = [...seen.values()].join('\n');
  const left = /^(?:import|export)\b.*$/m.exec(script);
  if (left !== null) throw new Error(`a page cannot have this line: ${left[0]}`);
  const names = [...script.matchAll(topLevelName)].map(([, name]) => name as string);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`two modules of a page have a top-level ${twice}`);
  return script;
}

function visit(module: URL, seen: Map<string, string>): void {
  if (seen.has(module.href)) return;
  // Modules that import each other would have no order; the rule against import cycles keeps that from happening.
  seen.set(module.href, '');
  const text = readFileSync(module, 'utf8').replace(multiLineImport, (_, names: string) => {
    return `import { ${names.split('\n').join(' ').trim()} } from '`;
  });
  for (const [, path] of text.matchAll(importLine)) visit(new URL(path as string, module), seen);
  seen.delete(module.href);
  seen.set(
    module.href,
    text
      .replace(importLine, '')
      .replace(/^export \{\};?$/gm, '')
      .replace(/^export (?=async |function|class|const|let)/gm, '')
      .replace(/^\/\/# sourceMappingURL=.*$/gm, '')
      .trim(),
  );
}
