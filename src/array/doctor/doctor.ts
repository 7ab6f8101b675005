// `capture doctor [url]`: would a run work on this node, and with this store? What is looked at, and how, stands in
// src/doctor, a file of the program of its own; here is only its command line.
import { LOCAL } from '../../cli/options/local.ts';
import { realOutside } from '../../cli/options/outside.ts';
import { SENDING } from '../../cli/options/sending.ts';
import { group } from '../../cli/options/spec.ts';
import type { Finding } from '../../doctor/finding.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import type { StoreOptions } from '../../doctor/doctor.ts';
import { openStore } from '../../store/open.ts';
import { type ArrayCommand, type CarryOut, type Line, refuseOperands, type Tools } from '../command.ts';
import { readPlace, STORE_OPTIONS } from '../place.ts';
import { hasFailed, jsonOf, summaryOf, textOf } from './lines.ts';

const OPTIONS = group('Doctor:', {
  json: { flags: '--json', kind: 'flag', help: 'one JSON object, with the figures' },
});

export const doctorCommand: ArrayCommand = {
  help: {
    about:
      'Says before the first job whether capture will work on this node and, with a <url>, with this store: each ' +
      'thing OK, WARN (it works, but slower, later or with less room) or FAIL, and what mends it. It uses the store ' +
      'as a run does, and leaves nothing there. Run it in a job, where your tasks will run.',
    statuses: `    0  nothing fails; there may be warnings
    1  something fails`,
    examples: [
      'capture doctor',
      'capture doctor s3://lab/run7',
      'capture doctor s3://lab/run7 --workdir /scratch --json',
    ],
  },
  options: Object.values(OPTIONS),
  shared: [LOCAL.workdir, SENDING.spool, SENDING['spool-limit'], ...STORE_OPTIONS],
  read: (line) => readDoctor(line),
};

/** What was asked for. */
interface Asked {
  readonly store: StoreSettings | undefined;
  readonly workdir: string;
  readonly spoolDir: string | undefined;
  readonly spoolLimitBytes: number;
  readonly json: boolean;
}

function readDoctor(line: Line): CarryOut {
  const { values, cwd, url } = line;
  // Without a store it looks at the node alone.
  const store = url === undefined ? undefined : readPlace(line)?.settings;
  refuseOperands(line);
  const asked: Asked = {
    store,
    workdir: values.path(LOCAL.workdir) ?? cwd,
    spoolDir: values.path(SENDING.spool),
    spoolLimitBytes: values.of(SENDING['spool-limit']),
    json: values.has(OPTIONS.json),
  };
  return (tools) => doctor(asked, tools);
}

async function doctor(asked: Asked, { out, signal }: Tools): Promise<ExitStatus> {
  const found: Finding[] = [];
  for await (const finding of findings(asked, signal)) {
    found.push(finding);
    // Some take seconds: each is said as soon as it is known.
    if (!asked.json) await out.write(textOf(finding, out.paint));
  }
  await out.write(asked.json ? jsonOf(found) : summaryOf(found));
  return hasFailed(found) ? FAILED : EXIT.ok;
}

const FAILED = 1;
/** An exam waits less patiently than a run. */
const BUDGET_MS = 5000;

async function* findings({ store, ...places }: Asked, signal: AbortSignal): AsyncGenerator<Finding> {
  const { examineNode, examineStoreAt, thisNode } = await import('../../doctor/doctor.ts');
  const node = thisNode({ ...places, env: process.env, outside: realOutside, signal });
  yield* examineNode(node);
  if (store === undefined) return;
  const open: StoreOptions['open'] = (told) => openStore(store, { budgetMs: BUDGET_MS, warn: told });
  yield* examineStoreAt({ open, url: store.url, job: node.job, signal });
}
