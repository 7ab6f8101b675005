// `capture report <url>`: one page that shows the whole array and needs no network. The listing gives the indices,
// their records the attempts. The page's code is a separate file of the program.
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Tools } from '../../cli/command.ts';
import { filePath } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { formatBytes } from '../../model/units.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { numberText } from '../columns.ts';
import { onArray } from '../command.ts';
import { detailsOf, READS_AT_ONCE } from '../details.ts';
import { isWorthAsking, lastOutput } from '../last-output.ts';
import { ARRAY_OPTION, STALE_OPTION } from '../options.ts';
import { sayOthers } from '../others.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { indicesDone, openProgress } from '../progress.ts';
import { listStates } from '../list-states.ts';
import type { IndexState } from '../state.ts';
import { SlurmJobs } from '../slurm-jobs.ts';
import { survey, type Survey } from '../survey.ts';
import type { IndexEntry, ReportHead } from './data.ts';
import { entryOf, type Page, saidOf, Texts } from './entry.ts';
import { openOutputFile, type OutputFile, type Sink } from './output-file.ts';
import { stepsFor } from './used.ts';

const OPTIONS = group('Report:', {
  set: { ...ARRAY_OPTION, help: 'the indices of the array, as the scheduler has them: 0-9999' },
  output: {
    flags: '-o, --output <file>',
    help: 'where the page is written; - is stdout',
    read: filePath,
    default: 'report.html',
  },
  staleAfterMs: STALE_OPTION,
});

interface ReportRequest extends Pick<ValuesOf<typeof OPTIONS>, 'set' | 'staleAfterMs'> {
  /** Undefined: stdout. */
  readonly file: string | undefined;
}

export const reportCommand = onArray({
  name: 'report',
  opens: true,
  help: {
    about:
      'Writes one page for a browser that shows the whole array: the state of each index, the attempts in time, what ' +
      'checkpoints have saved and kills have cost, and what each index has used. It needs no network.',
    statuses: { 0: 'the page is written' },
    examples: [
      'capture report s3://lab/run7 --array 0-9999 -o report.html',
      'capture report /shared/store/12 --task-name lmp -o - --log-level warn',
    ],
  },
  options: OPTIONS,
  read: ({ output, ...options }, { cwd }): ReportRequest => ({
    ...options,
    file: output === '-' ? undefined : path.resolve(cwd, output),
  }),
  act: report,
});

async function report(array: StoredArray, request: ReportRequest, tools: Tools): Promise<ExitStatus> {
  const { file: name } = request;
  if (name === undefined) {
    await writeReport(array, request, { ...tools, sink: () => tools.out });
    return EXIT.ok;
  }
  let file: OutputFile | undefined;
  try {
    const sink = (): Sink => (file = openOutputFile(name));
    const size = await writeReport(array, request, { ...tools, sink });
    file?.keep();
    const count = `${numberText(size)} ${size === 1 ? 'index' : 'indices'}`;
    tools.log.info(`wrote ${name}: ${count}, ${formatBytes(file?.bytes ?? 0)}`);
    return EXIT.ok;
  } finally {
    file?.close();
  }
}

export interface ReportTools extends Pick<Tools, 'log' | 'signal' | 'env'> {
  /** Opens the output; called once the store has answered. */
  readonly sink: () => Sink;
}

/** Writes the page of the array. Resolves to the number of its indices. Throws status 66 if nothing is stored. */
export async function writeReport(
  array: StoredArray,
  { set, staleAfterMs }: Omit<ReportRequest, 'file'>,
  tools: ReportTools,
): Promise<number> {
  const { sink, log, signal } = tools;
  const look = (): Promise<Survey> => survey(array, clockMs(), signal);
  const found = await new SlurmJobs(tools).mark({ array, staleAfterMs, all: false }, look);
  if (found.rows.length === 0) throw nothingThere(array.store, array.taskName);
  sayOthers(found, set, { log });
  const states = listStates(found, staleAfterMs, set);
  const attempts = states.reduce((sum, { row }) => sum + (row?.attempts ?? 0), 0);
  const page: Page = { texts: new Texts(), nowMs: found.nowMs, mostSteps: stepsFor(attempts) };
  await writePage(array, { states, page }, { log, signal, sink: sink() });
  return states.length;
}

/** For so many failed indices the page has the last lines of their output: each may be 6 KiB. */
const MOST_ASKED = 1000;

/** Writes entry by entry: only the indices that are being read are in memory. */
async function writePage(
  array: StoredArray,
  { states, page }: { readonly states: readonly IndexState[]; readonly page: Page },
  { sink, log, signal }: Pick<Tools, 'log' | 'signal'> & { readonly sink: Sink },
): Promise<void> {
  const { pageParts, jsonInPage } = await import('./template.ts');
  const parts = pageParts(array.taskName);
  let done = 0;
  let asked = 0;
  const saidBy = async ({ index, state, row }: IndexState): Promise<IndexEntry['said']> => {
    if (row === undefined || !isWorthAsking(state) || (asked += 1) > MOST_ASKED) return undefined;
    return saidOf(await lastOutput(array, { index, attempt: row.newest.attempt }, { log, signal }));
  };
  const progress = openProgress(log, (elapsedMs) => {
    const { bar, left } = indicesDone({ done, of: states.length }, elapsedMs);
    return [`${bar} read`, ...left].join(', ');
  });
  try {
    await sink.write(parts.start);
    const read = async (one: IndexState): Promise<string> => {
      const details = one.row === undefined ? undefined : await detailsOf(array, one.row, signal);
      for (const problem of details?.problems ?? [])
        log.warn(problem, { event: 'damaged', index: one.index });
      return JSON.stringify({ ...entryOf(one, details, page), said: await saidBy(one) });
    };
    const entries = async function* entries(): AsyncGenerator<string> {
      yield '[';
      for await (const entry of readAhead(states, READS_AT_ONCE, read)) {
        yield done === 0 ? entry : `,\n${entry}`;
        done += 1;
      }
      yield ']';
    };
    await writePacked(entries(), sink, signal);
    await sink.write(parts.end(jsonInPage(headOf(array, page))));
  } finally {
    progress.close();
  }
}

/**
 * Writes the packed entries: gzip in base64, a fifth of their JSON text (`unpacked` in page/main.ts). It streams, so
 * only a few chunks are in memory.
 */
async function writePacked(texts: AsyncIterable<string>, sink: Sink, signal: AbortSignal): Promise<void> {
  await pipeline(
    texts,
    createGzip(),
    async (chunks: AsyncIterable<Buffer>) => {
      let rest = Buffer.alloc(0);
      for await (const chunk of chunks) {
        const bytes = Buffer.concat([rest, chunk]);
        // Base64 encodes groups of three bytes.
        const whole = bytes.length - (bytes.length % 3);
        await sink.write(bytes.toString('base64', 0, whole));
        rest = bytes.subarray(whole);
      }
      await sink.write(rest.toString('base64'));
    },
    { signal },
  );
}

function headOf({ store, taskName }: StoredArray, { texts, nowMs }: Page): ReportHead {
  return {
    format: 1,
    store: store.url,
    task: taskName,
    now: Math.round(nowMs) / 1000,
    capture: CAPTURE_VERSION,
    texts: texts.all,
  };
}
