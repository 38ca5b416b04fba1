// Figures as people read them: short, with a unit, and of the same width as the ones before where possible.

const none = '–';

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

export function milliseconds(ms: number | undefined): string {
  if (ms === undefined) return none;
  if (ms < 0.005) return '0 ms';
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 100 ? Math.round(ms) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

export function bytes(count: number | undefined): string {
  if (count === undefined) return none;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function percent(share: number | undefined): string {
  if (share === undefined) return none;
  return `${Math.round(share * 100)} %`;
}

/** A whole number with thin spaces: 12 345. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function rate(perSecond: number): string {
  if (perSecond === 0) return none;
  return perSecond >= 100 ? count(perSecond) : perSecond >= 10 ? perSecond.toFixed(1) : perSecond.toFixed(2);
}

export function cores(busy: number | undefined): string {
  return busy === undefined ? none : busy.toFixed(busy < 10 ? 2 : 1);
}

/** A metric, with about four digits that say something. */
export function metric(value: number | string): string {
  if (typeof value === 'string') return value;
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  if (Number.isInteger(value)) return count(value);
  return value.toFixed(size >= 1000 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

/** A number of an axis whose neighbours are `gap` apart. */
export function tick(value: number, gap: number): string {
  if (value === 0) return '0';
  if (Math.abs(value) >= 1e6 || gap < 1e-5) return value.toExponential(1);
  const decimals = Math.max(0, Math.ceil(-Math.log10(gap) - 1e-9));
  // 0.25 has one more than 0.1 of the same size.
  const isExact = Math.abs(gap * 10 ** decimals - Math.round(gap * 10 ** decimals)) < 1e-6;
  return value.toFixed(isExact ? decimals : decimals + 1);
}

/** A number of a logarithmic axis: 0.002, 1e-5. */
export function logTick(value: number): string {
  return value < 0.001 || value >= 1e6 ? value.toExponential(0) : String(Number(value.toPrecision(1)));
}

/** The time of day where the browser is: 14:03:09. */
export function clock(at: number): string {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** 'rank 3', or the launcher. */
export function rankName(rank: number): string {
  return rank < 0 ? 'launcher' : `rank ${rank}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
