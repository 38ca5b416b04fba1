// Numbers for people: three digits that count, and units.

/** '1,024', '3.14' */
export function amountText(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}

/** '31 MiB' */
export function bytesText(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), units.length - 1);
  return `${amountText(value / 1024 ** power)} ${units[power]}`;
}
