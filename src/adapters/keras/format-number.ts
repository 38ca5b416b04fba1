// Numbers for people: C's %g, which Horovod's messages use, and rates with thousands separators.

/** As printf's %g: six significant digits, no trailing zeros, an exponent where it is below −4 or above 5. */
export function formatGeneral(value: number, digits = 6): string {
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf').replace('NaN', 'nan');
  if (value === 0) return '0';
  const [mantissa = '', exponentText = '0'] = value.toExponential(digits - 1).split('e');
  const exponent = Number(exponentText);
  const withoutZeros = (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (exponent >= -4 && exponent < digits) return withoutZeros(value.toFixed(digits - 1 - exponent));
  const sign = exponent < 0 ? '-' : '+';
  return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

/** 12345.6 → "12,346"; small rates keep a digit. */
export function formatRate(perSecond: number): string {
  if (!Number.isFinite(perSecond)) return '–';
  const digits = perSecond < 10 ? 1 : 0;
  return perSecond.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** 75 → "1:15", 4000 → "1:06:40". */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.max(0, Math.round(seconds));
  const two = (part: number) => String(part).padStart(2, '0');
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
