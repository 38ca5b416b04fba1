// Splits mpirun's output by rank: `[1,0]<stdout>:` in front of a piece says which rank wrote it (the second number). A tag
// may be in the middle of a line if a rank has written a piece without a newline. Text before any tag is from mpirun.

export interface TaggedPiece {
  /** Undefined: mpirun itself. */
  readonly rank: number | undefined;
  readonly text: string;
}

const tag = /\[\d+,(\d+)\]<(?:stdout|stderr|stddiag|hvd)>:/g;
/** The start of a tag at the end of a piece. */
const halfTag = /\[(?:\d+(?:,(?:\d+(?:\](?:<[a-z]*>?)?)?)?)?)?$/;

export class TagReader {
  #rest = '';
  #rank: number | undefined;

  /** Takes whole characters; a decoder before this joins the bytes. */
  push(text: string): TaggedPiece[] {
    const input = this.#rest + text;
    const cut = halfTag.exec(input)?.index ?? input.length;
    this.#rest = input.slice(cut);
    return this.#split(input.slice(0, cut));
  }

  flush(): TaggedPiece[] {
    const rest = this.#rest;
    this.#rest = '';
    return this.#split(rest);
  }

  #split(text: string): TaggedPiece[] {
    const pieces: TaggedPiece[] = [];
    const add = (piece: string) => {
      if (piece !== '') pieces.push({ rank: this.#rank, text: piece });
    };
    // After a newline, only a tag assigns the text to a rank.
    for (const line of text.split(/(?<=\n)/)) {
      let at = 0;
      for (const match of line.matchAll(tag)) {
        add(line.slice(at, match.index));
        this.#rank = Number(match[1]);
        at = match.index + match[0].length;
      }
      add(line.slice(at));
      if (line.endsWith('\n')) this.#rank = undefined;
    }
    return pieces;
  }
}
