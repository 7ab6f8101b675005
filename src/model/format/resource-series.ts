// Measurements of a run of any length, as a series of bounded size: steps of equal length, each with the mean and the
// maximum of its samples. If there are too many steps, every two are merged. Pure: times are arguments.
import { type Metric, METRICS, type Resources } from './resources.ts';

/** The interval between samples. */
export const SAMPLE_EVERY_MS = 10_000;
/** An hour is 45 steps of 80 s. */
const MOST_STEPS = 48;
/** Three digits are exact enough for any drawing, and short. */
const MOST_DIGITS = 999;
/** Cores and load are counted in 1/1024, everything else in whole numbers. */
const FINEST: Partial<Record<Metric, number>> = { taskCpu: 2 ** -10, captureCpu: 2 ** -10, load: 2 ** -10 };

/** `undefined`: not measured. */
export type Sample = { readonly [one in Metric]?: number | undefined };

interface Cell {
  count: number;
  sum: number;
  max: number;
}
type Step = Map<Metric, Cell>;

export class ResourceSeries {
  readonly #fromMs: number;
  #stepMs = SAMPLE_EVERY_MS;
  #steps: Step[] = [];

  /** `before`: the series of the sidecar that this one replaces. */
  constructor(nowMs: number, before?: Pick<Resources, 'from' | 'stepS' | 'series'>) {
    this.#fromMs = before === undefined ? nowMs : Date.parse(before.from);
    if (before !== undefined) this.#continue(before);
  }

  /** `highs`: the maximum since the last sample, for metrics that know it. */
  add(atMs: number, sample: Sample, highs: Sample = {}): void {
    const step = this.#stepAt(atMs);
    for (const metric of METRICS) {
      const { [metric]: value } = sample;
      if (value === undefined) continue;
      merge(step, metric, { count: 1, sum: value, max: Math.max(value, highs[metric] ?? 0) });
    }
  }

  /** Merges every two steps into one. */
  halve(): void {
    const halved: Step[] = [];
    this.#steps.forEach((step, at) => {
      const into = (halved[Math.floor(at / 2)] ??= new Map());
      for (const [metric, cell] of step) merge(into, metric, cell);
    });
    this.#steps = halved;
    this.#stepMs *= 2;
  }

  /** The fields for a record. */
  get fields(): Pick<Resources, 'from' | 'stepS' | 'series'> {
    const series: Resources['series'] = {};
    for (const metric of METRICS) {
      const cells = this.#steps.map((step) => step.get(metric));
      const highest = Math.max(-1, ...cells.map((cell) => cell?.max ?? -1));
      if (highest < 0) continue;
      const unit = unitFor(highest, FINEST[metric] ?? 1);
      series[metric] = {
        unit,
        mean: cells.map((cell) => (cell === undefined ? null : Math.round(cell.sum / cell.count / unit))),
        // Rounded up: never below a measured value.
        max: cells.map((cell) => (cell === undefined ? null : Math.ceil(cell.max / unit))),
      };
    }
    return { from: new Date(this.#fromMs).toISOString(), stepS: this.#stepMs / 1000, series };
  }

  #stepAt(atMs: number): Step {
    // If the clock was set back, later samples go into the first step.
    const at = (): number => Math.max(0, Math.floor((atMs - this.#fromMs) / this.#stepMs));
    while (at() >= MOST_STEPS) this.halve();
    // No gaps: a step without samples is empty.
    while (this.#steps.length <= at()) this.#steps.push(new Map());
    return this.#steps[at()] ?? new Map();
  }

  #continue({ stepS, series }: Pick<Resources, 'stepS' | 'series'>): void {
    this.#stepMs = stepS * 1000;
    const count = Math.max(1, Math.round(this.#stepMs / SAMPLE_EVERY_MS));
    for (const metric of METRICS) {
      const { [metric]: line } = series;
      line?.mean.forEach((mean, at) => {
        const max = line.max[at] ?? mean;
        const step = this.#stepAt(this.#fromMs + at * this.#stepMs);
        if (mean === null || max === null) return;
        merge(step, metric, { count, sum: mean * line.unit * count, max: max * line.unit });
      });
    }
  }
}

function merge(step: Step, metric: Metric, { count, sum, max }: Cell): void {
  const cell = step.get(metric);
  if (cell === undefined) {
    step.set(metric, { count, sum, max });
    return;
  }
  cell.count += count;
  cell.sum += sum;
  cell.max = Math.max(cell.max, max);
}

/** A power of two, so that multiples of the unit are exact. */
function unitFor(highest: number, finest: number): number {
  let unit = finest;
  while (Math.ceil(highest / unit) > MOST_DIGITS) unit *= 2;
  return unit;
}
