// Numbers of several rounds to one, and one number to words.

/** Undefined without numbers. */
export function quantile(numbers, share) {
  const sorted = numbers.filter((one) => Number.isFinite(one)).toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/** Between the middle two of an even number. */
export function median(numbers) {
  const sorted = numbers.filter((one) => Number.isFinite(one)).toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[middle - 0.5] : mean(sorted.slice(middle - 1, middle + 1));
}

/** Three digits that count, two below a tenth; and the unit. */
export function worded(value, unit = '') {
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  const whole = size >= 100 || (unit === '' && Number.isInteger(value));
  const digits = whole ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: size < 0.1 ? 2 : 3 };
  return `${value.toLocaleString('en', digits)} ${unit}`.trimEnd();
}

function mean(numbers) {
  return numbers.length === 0 ? undefined : numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
