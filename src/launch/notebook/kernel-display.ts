// Where a job is shown: in the cell of a notebook, whose box is replaced in place, or as lines of text. Kernels differ: Deno's has a
// function to send messages, which packages can reach; tslab's display exists in cells only, so its user passes one.

import { randomBytes } from 'node:crypto';
import { isDenoCell } from '../output/cell-output.ts';
import type { CellContent } from './progress-box.ts';

/** Of tslab: `tslab.newDisplay()`. Anything with a method that shows HTML in place of what it has shown before. */
export interface HtmlDisplay {
  html(html: string): void;
}

export interface KernelDisplay {
  readonly kind: 'box' | 'text' | 'none';
  /** Shows this in place of what came before. Never rejects: a cell that is gone must not end a job. */
  show(content: CellContent): Promise<void>;
}

interface DenoKernel {
  /** Some versions return no promise. */
  broadcast(type: string, content: object): Promise<void> | undefined;
}

/** `scope`: of this kernel. `print`: a line of text. */
export function openDisplay(
  wanted: 'auto' | 'text' | 'none' | HtmlDisplay,
  print: (text: string) => void,
  scope: object = globalThis,
): KernelDisplay {
  if (typeof wanted === 'object') return htmlDisplay(wanted);
  if (wanted === 'none') return { kind: 'none', show: async () => undefined };
  if (wanted === 'text' || !isDenoCell(scope)) return textDisplay(print);
  return denoDisplay((scope as { Deno: { jupyter: DenoKernel } }).Deno.jupyter);
}

function denoDisplay(kernel: DenoKernel): KernelDisplay {
  const displayId = `horovod-${randomBytes(6).toString('hex')}`;
  let isShown = false;
  return {
    kind: 'box',
    async show({ html, text }) {
      const type = isShown ? 'update_display_data' : 'display_data';
      isShown = true;
      const data = { 'text/html': html, 'text/plain': text };
      try {
        await kernel.broadcast(type, { data, metadata: {}, transient: { display_id: displayId } });
      } catch {
        // The kernel is ending.
      }
    },
  };
}

function htmlDisplay(display: HtmlDisplay): KernelDisplay {
  return {
    kind: 'box',
    async show({ html }) {
      try {
        display.html(html);
      } catch {
        // The cell is gone.
      }
    },
  };
}

function textDisplay(print: (text: string) => void): KernelDisplay {
  let shown = '';
  return {
    kind: 'text',
    async show({ text }) {
      if (text !== shown) print(text);
      shown = text;
    },
  };
}
