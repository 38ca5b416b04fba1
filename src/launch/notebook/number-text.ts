/** '0.312', '1.5e-7', 'NaN': four digits that count. */
export function numberText(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value);
}
