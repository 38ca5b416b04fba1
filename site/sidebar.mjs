// The sections and pages of docs/guide/index.md as a sidebar.

/** `base` is where the index lies. Lists outside of sections, and links to other things than pages, are left out. */
export function sidebarOf(index, base) {
  const groups = [];
  for (const line of index.split('\n')) {
    const heading = /^## (.+)$/.exec(line);
    if (heading !== null) groups.push({ text: heading[1], collapsed: false, items: [] });
    for (const [, text, path] of line.matchAll(/\[([^\]]+)\]\(([^)#]+)\.md\)/g)) {
      if (groups.length === 0 || line.startsWith('If ')) continue;
      const { pathname } = new URL(path, `http://site${base}`);
      groups.at(-1).items.push({ text, link: pathname.replace(/\/README$/, '/') });
    }
  }
  return groups.filter(({ items }) => items.length > 0);
}
