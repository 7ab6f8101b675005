// `capture put <file>... <url>`: brings inputs into the store, under their plain names. An object that has the same
// bytes is left alone, so an interrupted put goes on where it stopped. Another object of that name is never replaced
// unawares.
import pLimit from 'p-limit';
import type { Command, Line, Tools } from '../../cli/command.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { MIN_PART_BYTES } from '../../model/file/part-size.ts';
import { showPath } from '../../model/path.ts';
import { formatBytes, formatMs, plural } from '../../model/units.ts';
import { forEachAtOnce, whileLinked } from '../../model/waiting.ts';
import { ignoreLeaseBreaks } from '../../native/files.ts';
import { variablesNote } from '../command.ts';
import { openProgress } from '../progress.ts';
import { type ArrayAddress, openHeard, readAddress, WRITING_OPTIONS } from '../stored-array.ts';
import { type LocalFile, localFiles } from './local-files.ts';
import { type Put, type Putting, putFile } from './put-file.ts';

const OPTIONS = group('Put:', {
  replace: { flags: '--replace', help: 'replace objects of these names that hold other bytes' },
  dryRun: { flags: '--dry-run', help: 'say what would be sent, and send nothing' },
});

interface PutRequest extends ValuesOf<typeof OPTIONS> {
  readonly address: ArrayAddress;
  readonly names: readonly string[];
}

export const putCommand: Command<PutRequest> = {
  name: 'put',
  help: {
    about:
      'Brings inputs into the store: each file under its own name, a directory with all files in it, as cp -r does. ' +
      'Each object is checked against the md5 of its file. What is there already is not sent again; a different ' +
      'object of the same name is never replaced without --replace. A task gets them by --inputs, from --to or --from.',
    notes: [variablesNote(WRITING_OPTIONS)],
    statuses: {
      0: 'all of it is stored, whole',
      1: 'something is not: another object has its name, it changed while it was read, it cannot be read, or is no file',
      64: 'an option or the <url> is wrong',
      66: 'a file does not exist',
      69: 'the store cannot be used, or there are more files than fit into memory',
    },
    examples: [
      'capture put in.melt s3://lab/melt',
      'capture put in.melt potentials mesh.*.dat s3://lab/melt',
      'capture put --replace in.melt s3://lab/melt',
    ],
  },
  options: [...Object.values(OPTIONS), ...WRITING_OPTIONS],
  variables: WRITING_OPTIONS,
  wordsBehind: true,
  read: readPut,
  act: put,
};

function readPut(line: Line): PutRequest | undefined {
  const options = line.values.all(OPTIONS);
  // The last word is the store. A file in its place would be taken for the directory of a store.
  if (line.operands['url'] === undefined)
    line.values.refuse(
      'the last word is the store, and there is none',
      `${line.title} in.melt s3://lab/melt`,
    );
  const address = line.operands['url'] === undefined ? undefined : readAddress(line);
  return address === undefined ? undefined : { ...options, address, names: line.repeated };
}

const AT_ONCE = 8;
/** Files of several parts: each part takes 8 MiB of memory. */
const LARGE_AT_ONCE = 2;
const INCOMPLETE: ExitStatus = 1;

async function put(request: PutRequest, tools: Tools): Promise<ExitStatus> {
  const { log, signal } = tools;
  ignoreLeaseBreaks();
  const { files, leftOut } = localFiles(request.names, log);
  const { store, close } = await openHeard(request.address, tools);
  const tally = new Tally(files, leftOut);
  const progress = openProgress(log, (elapsedMs) => tally.line(elapsedMs));
  const large = pLimit(LARGE_AT_ONCE);
  const stop = new AbortController();
  try {
    await whileLinked([signal, stop.signal], async (either) => {
      const putting: Putting = { store, ...request, signal: either, onSent: (bytes) => tally.sent(bytes) };
      await forEachAtOnce(files, AT_ONCE, async (file) => {
        const putOne = (): ReturnType<typeof putFile> => putFile(putting, file);
        try {
          const how = await (file.sizeBytes > MIN_PART_BYTES ? large(putOne) : putOne());
          tally.add(how, file);
          if (typeof how === 'string') return;
          log.warn(`${showPath(file.path)}: ${how.why}`, {
            event: 'not-stored',
            path: file.name,
            hint: how.hint,
          });
        } catch (error) {
          stop.abort(error);
          throw error;
        }
      });
    });
  } finally {
    progress.close();
    await close();
  }
  log.info(`${tally.summary(request.dryRun)} under ${store.url}`, { event: 'summary' });
  return tally.isComplete ? EXIT.ok : INCOMPLETE;
}

/** How far it is. */
class Tally {
  readonly #files: number;
  readonly #bytes: number;
  #stored = 0;
  #storedBytes = 0;
  #present = 0;
  #passed = 0;
  #sent = 0;
  #missing: number;

  constructor(files: readonly LocalFile[], leftOut: number) {
    this.#missing = leftOut;
    this.#files = files.length;
    this.#bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }

  sent(bytes: number): void {
    this.#sent += bytes;
  }

  add(how: Put, { sizeBytes }: LocalFile): void {
    this.#passed += sizeBytes;
    if (how === 'present') this.#present += 1;
    else if (how === 'stored') {
      this.#stored += 1;
      this.#storedBytes += sizeBytes;
    } else this.#missing += 1;
  }

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  /** `3 of 12 files, 1.2 GiB of 3.4 GiB, 85.0 MiB/s, 26 s left` */
  line(elapsedMs: number): string {
    const perMs = this.#sent / Math.max(1, elapsedMs);
    const left = Math.max(0, this.#bytes - Math.max(this.#passed, this.#sent));
    return [
      `${this.#stored + this.#present} of ${plural(this.#files, 'file')}`,
      `${formatBytes(this.#bytes - left)} of ${formatBytes(this.#bytes)}`,
      `${formatBytes(Math.round(perMs * 1000))}/s`,
      ...(perMs > 0 && left > 0 ? [`${formatMs(left / perMs)} left`] : []),
    ].join(', ');
  }

  summary(isDry: boolean): string {
    const present = this.#present === 0 ? '' : `, ${plural(this.#present, 'file')} there already`;
    const missing = this.isComplete ? '' : `, ${this.#missing} not stored`;
    const what = `${plural(this.#stored, 'file')} (${formatBytes(this.#storedBytes)})`;
    return `${isDry ? 'would put' : 'put'} ${what}${present}${missing}`;
  }
}
