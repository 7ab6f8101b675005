// Live numbers of a run in Prometheus' text format: on a port, or in a file. A separate file in dist/, loaded only if
// a run was asked for numbers. It reads them and changes nothing.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Counter, Gauge, Registry } from 'prom-client';
import type { MetricsPlace } from '../model/format/settings.ts';
import { encodePath, showPath } from '../model/path.ts';
import type { LiveNumbers, Metrics, Pushed } from './numbers.ts';

export interface MetricsOptions {
  readonly place: MetricsPlace;
  /** Labels of each line: task, index, attempt. */
  readonly labels: Readonly<Record<string, string>>;
  readonly numbers: () => LiveNumbers;
}

/** Rejects if the address cannot be used, or the file cannot be written. */
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

/** Concurrent connections; a scraper has one. */
const MOST_CONNECTIONS = 16;
/** A request has no body and arrives at once. */
const REQUEST_WITHIN_MS = 5000;

/**
 * Serves the numbers at GET /metrics to everybody who can reach the address. Only the path of a request is used. Rejects
 * if the address cannot be used: it is taken, or not of this machine.
 */
async function listen(
  { host, port }: Extract<MetricsPlace, { kind: 'listen' }>,
  text: () => Promise<string>,
  contentType: string,
): Promise<Metrics> {
  const limits = { requestTimeout: REQUEST_WITHIN_MS, headersTimeout: REQUEST_WITHIN_MS };
  const server = http.createServer(limits, (request, response) => {
    const { url = '', method = '' } = request;
    const asked = url.replace(/\?.*/, '');
    if (asked !== '/metrics') return void response.writeHead(404).end('look at /metrics\n');
    if (method !== 'GET' && method !== 'HEAD') return void response.writeHead(405, { allow: 'GET' }).end();
    text().then(
      (body) => response.writeHead(200, { 'content-type': contentType }).end(body),
      () => response.writeHead(500).end(),
    );
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.listen(port, host);
  await once(server, 'listening');
  // The server does not keep the process alive.
  server.unref();
  const { address, port: bound, family } = server.address() as AddressInfo;
  const shown = family === 'IPv6' ? `[${address}]` : address;
  return {
    where: `http://${shown}:${bound}/metrics`,
    look: async () => undefined,
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/**
 * Writes the numbers into a file, for instance for the textfile collector of Prometheus' node exporter. It writes the
 * whole file and renames it, so nobody reads half of it. Rejects if the file cannot be written.
 */
async function openFile(file: string, text: () => Promise<string>): Promise<Metrics> {
  // A name that a collector of *.prom ignores.
  const temporary = path.join(path.dirname(file), `.${path.basename(file)}.${randomUUID()}.tmp`);
  const write = async (): Promise<void> => {
    try {
      // Exclusive create: it never writes through a file or link of somebody else.
      await fs.writeFile(encodePath(temporary), await text(), { flag: 'wx' });
      await fs.rename(encodePath(temporary), encodePath(file));
    } catch (error) {
      await fs.rm(encodePath(temporary), { force: true }).catch(() => undefined);
      throw error;
    }
  };
  await write();
  let last = Promise.resolve();
  return {
    where: showPath(file),
    look: () => {
      // One after the other, even if the disk is slower than the interval.
      last = last.catch(() => undefined).then(write);
      return last;
    },
    close: async () => {
      await last.catch(() => undefined);
      // A file that cannot be removed stays, and never ends the run.
      await fs.rm(encodePath(file), { force: true }).catch(() => undefined);
    },
  };
}

interface Row {
  readonly name: string;
  readonly help: string;
  /** Undefined: unknown, so the line is left out. */
  readonly value: (live: LiveNumbers) => number | undefined;
}

const seconds = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);

/** Named by Prometheus' conventions: seconds, bytes, and `_total` for counters. docs/metrics.md lists them. */
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

/** One line for each role. */
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
