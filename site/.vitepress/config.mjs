// VitePress over the staged pages (stage.mjs). The sidebar is the list of the guide's index, so that both have one order.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitepress';
import { sidebarOf } from '../sidebar.mjs';

const staged = process.env['HVD_SITE_STAGED'];
const index = readFileSync(join(staged, 'docs/guide/index.md'), 'utf8');

export default defineConfig({
  title: 'Horovod for TypeScript',
  description: 'Distributed training for Node.js',
  srcDir: staged,
  outDir: process.env['HVD_SITE_OUT'],
  cacheDir: join(staged, '../.vitepress/cache'),
  cleanUrls: false,
  // `<…>` in a text is text, not a tag.
  markdown: { html: false },
  // Dead links fail the build.
  ignoreDeadLinks: false,
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/docs/guide/' },
      { text: 'API', link: '/docs/api/' },
      { text: 'Settings', link: '/docs/reference/settings' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: [
      ...sidebarOf(index, '/docs/guide/'),
      {
        text: 'Project',
        items: [
          { text: 'Architecture', link: '/ARCHITECTURE' },
          { text: 'Contributing', link: '/CONTRIBUTING' },
          { text: 'Changelog', link: '/CHANGELOG' },
        ],
      },
    ],
  },
});
