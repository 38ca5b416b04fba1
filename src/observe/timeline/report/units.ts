// Times and bytes as the report writes them. The page of the report has this code, too.

/** '1.24 s', '350 ms', '12 µs', '0' */
export function inTime(us: number): string {
  if (us < 0.0005) return '0';
  if (us < 1) return `${Math.ceil(us * 1e3)} ns`;
  if (us >= 1e6) return `${(us / 1e6).toFixed(us >= 1e8 ? 0 : 2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(us >= 1e5 ? 0 : 1)} ms`;
  return `${us.toFixed(us >= 10 ? 0 : 1)} µs`;
}

export function inBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(value < 10 && unit > 0 ? 1 : 0))} ${units[unit]}`;
}
