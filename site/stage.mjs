// Copies the pages of the repository into a folder in the same places, so that their links to each other stay right. A README becomes the
// index of its folder. Links to files that are no pages (sources, scripts) become plain text; examples are copied as they are.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'bench/README.md',
  'examples/README.md',
];

/** Fills `staged` from `repository`. Links to what does not exist in the repository throw. */
export function stage(repository, staged) {
  rmSync(staged, { recursive: true, force: true });
  const all = new Set(pages.filter((page) => existsSync(join(repository, page))));
  for (const path of readdirSync(join(repository, 'docs'), { recursive: true })) {
    if (path.endsWith('.md')) all.add(posix.join('docs', path.replaceAll('\\', '/')));
  }
  all.add('docs/api/index.md');
  for (const page of all) {
    if (!existsSync(join(repository, page))) continue;
    const target = join(staged, nameOf(page));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, rewrite(readFileSync(join(repository, page), 'utf8'), page, all, repository));
  }
  cpSync(join(repository, 'docs/images'), join(staged, 'docs/images'), { recursive: true });
  // What is served as it is.
  cpSync(join(repository, 'examples'), join(staged, 'public/examples'), {
    recursive: true,
    filter: (path) => !path.endsWith('.md'),
  });
}

const nameOf = (page) => page.replace(/(^|\/)README\.md$/, '$1index.md');

/** Only outside of code. */
function rewrite(text, page, all, repository) {
  let isCode = false;
  const lines = text.split('\n').map((line) => {
    if (/^\s*```/.test(line)) isCode = !isCode;
    if (isCode) return line;
    return line.replace(/(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g, (whole, picture, label, link) => {
      if (/^(https?:|mailto:|#)/.test(link)) return whole;
      const [path, fragment] = link.split('#');
      const target = posix.normalize(posix.join(posix.dirname(page), path));
      if (picture === '!') return whole;
      const hash = fragment === undefined ? '' : `#${fragment}`;
      if (all.has(target)) return `[${label}](${relative(page, nameOf(target))}${hash})`;
      if (all.has(posix.join(target, 'README.md')))
        return `[${label}](${relative(page, posix.join(target, 'index.md'))}${hash})`;
      if (!existsSync(join(repository, target)))
        throw new Error(`${page} links to ${link}, which does not exist`);
      if (/^examples\/.*\.\w+$/.test(target)) return `[${label}](/${target}){target="_self"}`;
      return label;
    });
  });
  return lines.join('\n');
}

function relative(from, to) {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
}
