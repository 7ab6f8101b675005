// `capture doctor [url]`: would a run work on this node, and with this store? Only the command line is here. The checks
// are in src/doctor, a separate file of the program.
import type { Command, Line, Tools } from '../../cli/command.ts';
import { LOCAL } from '../../cli/options/local.ts';
import type { Colour, Output } from '../../cli/output.ts';
import { realOutside } from '../../cli/options/outside.ts';
import { SENDING } from '../../cli/options/sending.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { type Finding, type Level, LEVELS } from '../../doctor/finding.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import type { StoreOptions } from '../../doctor/doctor.ts';
import { safeJson, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { openStore } from '../../store/open.ts';
import { variablesNote } from '../command.ts';
import { readAddress, STORE_OPTIONS } from '../stored-array.ts';

const OPTIONS = group('Doctor:', {
  json: { flags: '--json', help: 'one JSON object, with the figures' },
});

/** They mean the same as for a run. */
const OF_A_RUN = [LOCAL.workdir, SENDING.spoolDir, SENDING.spoolLimitBytes, ...STORE_OPTIONS];

interface DoctorRequest extends Pick<ValuesOf<typeof SENDING>, 'spoolDir' | 'spoolLimitBytes'> {
  /** Undefined: only the node is checked. */
  readonly store: StoreSettings | undefined;
  readonly workdir: string;
  readonly json: boolean;
}

export const doctorCommand: Command<DoctorRequest> = {
  name: 'doctor',
  help: {
    about:
      'Says before the first job whether capture will work on this node and, with a <url>, with this store: each ' +
      'thing OK, WARN (it works, but slower, later or with less room) or FAIL, and how to fix it. It uses the store ' +
      'as a run does, and leaves nothing there. Run it in a job, where your tasks will run.',
    notes: [variablesNote(OF_A_RUN)],
    statuses: {
      0: 'nothing fails; there may be warnings',
      1: 'something fails',
      64: 'an option or the <url> is wrong',
    },
    examples: [
      'capture doctor',
      'capture doctor s3://lab/run7',
      'capture doctor s3://lab/run7 --workdir /scratch --json',
    ],
  },
  options: [...Object.values(OPTIONS), ...OF_A_RUN],
  variables: OF_A_RUN,
  wordsBehind: true,
  read: readDoctor,
  act: doctor,
};

function readDoctor(line: Line): DoctorRequest {
  const { values, operands, env, cwd } = line;
  const isNamed = operands.url !== undefined || (env['CAPTURE_TO'] ?? '') !== '';
  return {
    store: isNamed ? readAddress(line)?.settings : undefined,
    workdir: values.of(LOCAL.workdir) ?? cwd,
    spoolDir: values.of(SENDING.spoolDir),
    spoolLimitBytes: values.of(SENDING.spoolLimitBytes),
    json: values.has(OPTIONS.json),
  };
}

async function doctor(request: DoctorRequest, { out, signal }: Tools): Promise<ExitStatus> {
  const found: Finding[] = [];
  for await (const finding of findings(request, signal)) {
    found.push(finding);
    // Some checks take seconds, so each finding is printed as soon as it is known.
    if (!request.json) await out.write(textOf(finding, out.paint));
  }
  await out.write(request.json ? jsonOf(found) : summaryOf(found));
  return hasFailed(found) ? FAILED : EXIT.ok;
}

const FAILED = 1;
/** A check waits less long than a run. */
const BUDGET_MS = 5000;

async function* findings({ store, ...places }: DoctorRequest, signal: AbortSignal): AsyncGenerator<Finding> {
  const { examineNode, examineStoreAt, thisNode } = await import('../../doctor/doctor.ts');
  const node = thisNode({ ...places, env: process.env, outside: realOutside, signal });
  yield* examineNode(node);
  if (store === undefined) return;
  const open: StoreOptions['open'] = (told) => openStore(store, { budgetMs: BUDGET_MS, warn: told });
  yield* examineStoreAt({ open, url: store.url, job: node.job, signal });
}

const COLOURS: Readonly<Record<Level, Colour>> = { ok: 'green', warn: 'yellow', fail: 'red' };

/** `OK   zstd: ...`, and `     try: ...` if something can be fixed. */
function textOf({ check, level, says, mend }: Finding, paint: Output['paint']): string {
  const word = paint(COLOURS[level], level.toUpperCase().padEnd(4));
  const line = `${word} ${check}: ${showPath(says)}\n`;
  return mend === undefined ? line : `${line}     try: ${showPath(mend)}\n`;
}

/** `17 ok, 1 warning, 0 failures` */
function summaryOf(findings: readonly Finding[]): string {
  const [good = 0, warnings = 0, failures = 0] = LEVELS.map((level) => countOf(findings, level));
  return `${good} ok, ${plural(warnings, 'warning')}, ${plural(failures, 'failure')}\n`;
}

function jsonOf(findings: readonly Finding[]): string {
  return `${safeJson(JSON.stringify({ ok: !hasFailed(findings), findings }, undefined, 2))}\n`;
}

function hasFailed(findings: readonly Finding[]): boolean {
  return countOf(findings, 'fail') > 0;
}

function countOf(findings: readonly Finding[], level: Level): number {
  return findings.filter((finding) => finding.level === level).length;
}
