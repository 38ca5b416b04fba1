// The exchange of texts by which groups open, for members that are all in this process.

/** GroupSpec.exchange for members that are all in this process. */
export function makeExchange(members: number): (index: number) => (text: string) => Promise<string[]> {
  const texts: string[] = [];
  let count = 0;
  let tell: (texts: string[]) => void = () => {};
  const told = new Promise<string[]>((resolve) => {
    tell = resolve;
  });
  return (index) => (text) => {
    texts[index] = text;
    if (++count === members) tell(texts);
    return told;
  };
}
