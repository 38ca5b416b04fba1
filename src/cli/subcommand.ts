// What a subcommand of `horovod` is: main.ts has the list.

export interface CommandOutput {
  /** Writes text as it is, without adding a newline. */
  out(text: string): void;
  error(text: string): void;
}

export interface Subcommand {
  readonly name: string;
  /** One line for `horovod --help`. */
  readonly about: string;
  /** Resolves to the exit code: 0, 1 (the thing asked about is not well, or not there) or 2 (a wrong call). */
  run(argv: readonly string[], output: CommandOutput): Promise<number>;
}
