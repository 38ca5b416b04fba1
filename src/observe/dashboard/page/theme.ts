// Light, dark, or as the system says. The choice is kept by the browser, where it keeps anything. Colours for canvases come from the
// style sheet, too: `colour` resolves them for the theme that holds.

import { setText } from './dom.ts';

type Choice = 'auto' | 'light' | 'dark';

const choices: readonly Choice[] = ['auto', 'light', 'dark'];
const key = 'horovod-theme';

export class Theme {
  readonly #button: HTMLElement;
  readonly #probe: HTMLElement;
  readonly #known = new Map<string, string>();
  readonly #onChange: (() => void)[] = [];
  #choice: Choice;

  constructor(button: HTMLElement) {
    this.#button = button;
    this.#probe = document.createElement('span');
    this.#probe.hidden = true;
    document.body.append(this.#probe);
    this.#choice = kept();
    this.#apply();
    button.addEventListener('click', () => this.next());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#apply());
  }

  next(): void {
    this.#choice = choices[(choices.indexOf(this.#choice) + 1) % choices.length] as Choice;
    try {
      localStorage.setItem(key, this.#choice);
    } catch {
      // A browser that keeps nothing: the choice holds for this page.
    }
    this.#apply();
  }

  onChange(listener: () => void): void {
    this.#onChange.push(listener);
  }

  /** Of a custom property of the style sheet, such as '--waiting'. */
  colour(name: string): string {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    this.#probe.style.color = `var(${name})`;
    const { color } = getComputedStyle(this.#probe);
    this.#known.set(name, color);
    return color;
  }

  #apply(): void {
    document.documentElement.dataset['theme'] = this.#choice;
    setText(this.#button, `Theme: ${this.#choice}`);
    this.#known.clear();
    for (const listener of this.#onChange) listener();
  }
}

function kept(): Choice {
  try {
    const choice = localStorage.getItem(key) as Choice;
    return choices.includes(choice) ? choice : 'auto';
  } catch {
    return 'auto';
  }
}
