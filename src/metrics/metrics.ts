// Live numbers of a run in Prometheus' text format: on a port, or in a file that is written whole. A file of its own in
// dist/, loaded only by a run that was asked for numbers. It reads them and changes nothing.
import { Counter, Gauge, Registry } from 'prom-client';
import type { MetricsPlace } from '../model/format/settings.ts';
import { openFile } from './file.ts';
import { listen } from './listen.ts';
import type { LiveNumbers, Metrics, Pushed } from './numbers.ts';

export interface MetricsOptions {
  readonly place: MetricsPlace;
  /** On each line: task, index, attempt. */
  readonly labels: Readonly<Record<string, string>>;
  readonly numbers: () => LiveNumbers;
}

/** Rejects if nobody can listen there, or the file cannot be written. */
export async function openMetrics({ place, labels, numbers }: MetricsOptions): Promise<Metrics> {
  const registry = new Registry();
  registry.setDefaultLabels(labels);
  let live = numbers();
  register(registry, () => live);
  const text = (): Promise<string> => {
    live = numbers();
    return registry.metrics();
  };
  return place.kind === 'listen' ? listen(place, text, registry.contentType) : openFile(place.path, text);
}

interface Row {
  readonly name: string;
  readonly help: string;
  /** Undefined: not known; then it has no line. */
  readonly value: (live: LiveNumbers) => number | undefined;
}

const seconds = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);

/** Named as Prometheus names things: seconds, bytes, and `_total` for what only grows. docs/metrics.md lists them. */
const GAUGES: readonly Row[] = [
  row('lag_seconds', 'Age of the oldest closed content that is not stored', (live) => seconds(live.lagMs)),
  row('waiting_files', 'Closed files that are not stored', (live) => live.waitingFiles),
  row('waiting_bytes', 'Size of the closed files that are not stored', (live) => live.waitingBytes),
  row('newest_checkpoint_timestamp_seconds', 'When the newest checkpoint set was committed', (live) =>
    seconds(live.newestCheckpointAtMs),
  ),
  row('store_outage', '1 while the store does not work', (live) => (live.outage ? 1 : 0)),
  row('task_memory_bytes', 'Memory of the task', ({ now }) => now.taskMemory),
  row('task_peak_memory_bytes', 'Highest memory of the task', ({ used }) => used.task?.peakMemoryBytes),
  row('job_memory_bytes', 'Memory of the cgroup that limits the job', ({ now }) => now.jobMemory),
  row('job_memory_limit_bytes', 'Limit of this cgroup', ({ used }) => used.job?.limitBytes),
  row('own_memory_bytes', 'Memory of capture itself', ({ now }) => now.captureMemory),
  row('work_space_used_bytes', 'In use on the file system of the work directory', ({ now }) => now.space),
];

const COUNTERS: readonly Row[] = [
  row('checkpoints_total', 'Checkpoint sets committed', (live) => live.checkpoints),
  row('task_cpu_seconds_total', 'CPU time of the task', ({ used }) => used.task?.cpuS),
  row('task_read_bytes_total', 'Read by the task', ({ used }) => used.task?.readBytes),
  row('task_written_bytes_total', 'Written by the task', ({ used }) => used.task?.writtenBytes),
  row('own_cpu_seconds_total', 'CPU time of capture itself', ({ used }) => used.capture.cpuS),
];

/** By role. */
const PUSHED: readonly { readonly name: string; readonly help: string; readonly field: keyof Pushed }[] = [
  { name: 'stored_files_total', help: 'Files stored, each time that one was', field: 'files' },
  { name: 'stored_bytes_total', help: 'Bytes stored, before compression', field: 'bytes' },
  { name: 'failures_total', help: 'Tries to store a file that failed', field: 'failures' },
];
const ROLES = ['result', 'checkpoint'] as const;

function row(name: string, help: string, value: Row['value']): Row {
  return { name, help, value };
}

function register(registry: Registry, live: () => LiveNumbers): void {
  const about = ({
    name,
    help,
  }: Pick<Row, 'name' | 'help'>): { name: string; help: string; registers: [] } => ({
    name: `capture_${name}`,
    help: `${help}.`,
    registers: [],
  });
  for (const one of GAUGES) {
    const gauge = new Gauge({
      ...about(one),
      collect() {
        const value = one.value(live());
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
    registry.registerMetric(gauge);
  }
  for (const one of COUNTERS) {
    const counter = new Counter({
      ...about(one),
      collect() {
        const value = one.value(live());
        this.reset();
        if (value === undefined) this.remove();
        else this.inc(value);
      },
    });
    registry.registerMetric(counter);
  }
  for (const { field, ...one } of PUSHED) {
    const counter = new Counter({
      ...about(one),
      labelNames: ['role'],
      collect() {
        this.reset();
        for (const role of ROLES) this.inc({ role }, live().pushed[role][field]);
      },
    });
    registry.registerMetric(counter);
  }
}
