// Hosts with their processors, memory and GPUs, and the facts of the job: command, settings, versions, links.

import type { HostUse } from '../../hosts/host-use.ts';
import { element, find } from './dom.ts';
import { bytes, clock, percent } from './figures.ts';
import type { History } from './history.ts';
import { safeHref } from './links.ts';

/** Memory that is nearly used up. */
const fullShare = 0.92;

export class HostsView {
  #shown = '';

  render({ latest, job }: History): void {
    const uses = latest?.hosts ?? [];
    const known = new Set(uses.map(({ host }) => host));
    const silent = (job?.hosts ?? []).filter(({ host }) => !known.has(host));
    find('hosts-list').replaceChildren(
      ...uses.map((use) => hostBox(use, job?.hosts.find(({ host }) => host === use.host)?.slots)),
      ...silent.map(({ host, slots }) =>
        element(
          'article',
          { class: 'host' },
          title(host, slots),
          element('p', { class: 'note', text: 'Nothing known yet.' }),
        ),
      ),
    );
    const text = JSON.stringify(job ?? null);
    if (text === this.#shown || job === undefined) return;
    this.#shown = text;
    const facts = [
      { name: 'command', value: job.command },
      { name: 'job', value: job.id },
      { name: 'started', value: `${new Date(job.startedAt).toLocaleDateString()} ${clock(job.startedAt)}` },
    ];
    fill(
      'job-facts',
      facts.filter(({ value }) => value !== ''),
    );
    fill('settings', job.settings, 'all as by default');
    fill('versions', job.versions);
    const links = job.links.flatMap(({ title, url }) => {
      const href = safeHref(url);
      if (href === undefined) return [];
      return [
        element(
          'li',
          {},
          element('a', { text: title, attributes: { href, target: '_blank', rel: 'noopener noreferrer' } }),
        ),
      ];
    });
    find('links').replaceChildren(...links);
    find('links-place').hidden = links.length === 0;
  }
}

/** Short gauges for a line of text. */
export function hostGauges({ processors, memory, gpus, warning }: HostUse): HTMLElement[] {
  const gauges: HTMLElement[] = [];
  if (processors?.busyCores !== undefined) {
    const { busyCores, cores } = processors;
    gauges.push(gauge('CPU', busyCores / cores, `${busyCores.toFixed(1)} of ${round(cores)} cores`));
  }
  if (memory !== undefined) {
    const used = memory.totalBytes - memory.availableBytes;
    const share = used / memory.totalBytes;
    gauges.push(gauge('memory', share, `${bytes(used)} of ${bytes(memory.totalBytes)}`, share > fullShare));
  }
  for (const { index, name, busyShare, usedBytes, totalBytes } of gpus) {
    const use = busyShare === undefined ? '' : percent(busyShare);
    const held =
      usedBytes === undefined || totalBytes === undefined
        ? ''
        : `${bytes(usedBytes)} of ${bytes(totalBytes)}`;
    const made = gauge(`GPU ${index}`, busyShare ?? 0, [use, held].filter((part) => part !== '').join(', '));
    made.title = name;
    gauges.push(made);
  }
  if (warning !== undefined) gauges.push(element('span', { class: 'warning', text: `◆ ${warning}` }));
  return gauges;
}

function gauge(name: string, share: number, text: string, isFull = false): HTMLElement {
  const done = element('i');
  done.style.width = `${Math.round(Math.max(0, Math.min(1, share)) * 100)}%`;
  const bar = element(
    'span',
    { class: isFull ? 'meter full' : 'meter', attributes: { 'aria-hidden': 'true' } },
    done,
  );
  return element(
    'span',
    { class: 'gauge' },
    element('span', { class: 'soft', text: name }),
    bar,
    element('span', { text }),
  );
}

function hostBox(use: HostUse, slots: number | undefined): HTMLElement {
  return element('article', { class: 'host' }, title(use.host, slots), ...hostGauges(use));
}

function title(host: string, slots: number | undefined): HTMLElement {
  const own =
    slots === undefined
      ? []
      : [element('span', { class: 'soft', text: ` ${slots} ${slots === 1 ? 'slot' : 'slots'}` })];
  return element('h3', { text: host }, ...own);
}

function fill(
  id: string,
  facts: readonly { readonly name: string; readonly value: string }[],
  otherwise = 'not known',
): void {
  const shown = facts.length > 0 ? facts : [{ name: '', value: otherwise }];
  find(id).replaceChildren(
    ...shown.map(({ name, value }) =>
      element('div', {}, element('dt', { text: name }), element('dd', { text: value })),
    ),
  );
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
