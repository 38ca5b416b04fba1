// What a subcommand of `horovod` is; subcommands.ts has the list.

export interface CommandOutput {
  /** Writes text as it is, without adding a newline. */
  out(text: string): void;
  error(text: string): void;
}

export interface Subcommand {
  readonly name: string;
  /** One line for `horovod --help`. */
  readonly about: string;
  /** Resolves to the exit code: 0, 1 (there is nothing to show, or it failed) or 2 (wrong usage). */
  run(argv: readonly string[], output: CommandOutput): Promise<number>;
}
