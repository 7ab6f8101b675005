// What a pod's containers do with capture, one process each: `capture restore --handoff`, `capture watch`, and a
// task that is the test itself, writing into the shared work directory.
import fs from 'node:fs';
import { BIN, until, type Place, type Run } from './support.ts';

export interface Pod {
  readonly control: string;
  /** `capture restore --handoff`, to its end. */
  handOff(options?: readonly string[]): Promise<Run>;
  /** `capture watch`; resolves when the probe says that it watches. */
  watch(options?: readonly string[]): Promise<Run>;
  /** `capture watch` that is not waited for. */
  begin(options?: readonly string[]): Run;
  /** As an exec probe of the sidecar's container does it: the exit status. */
  probe(): Promise<number>;
}

export const DECLARED = ['-r', '*.dat', '-k', 'a.chk', '-k', 'b.chk', '--checkpoint-settle', '100ms'];

export function openPod(place: Place, declared: readonly string[] = DECLARED): Pod {
  const control = `${place.dir}/control`;
  const common = ['--to', place.store, '--task-name', 'pod'];
  const settle = declared.indexOf('--checkpoint-settle');
  const files = settle === -1 ? declared : declared.toSpliced(settle, 2);
  const begin = (options: readonly string[] = []): Run =>
    place.capture(['watch', ...common, ...declared, '--control', control, ...options]);
  return {
    control,
    handOff: async (options = []) => {
      const run = place.capture(['restore', '--handoff', ...common, ...files, ...options]);
      await run.status;
      return run;
    },
    begin,
    watch: async (options) => {
      fs.rmSync(control, { force: true });
      const run = begin(options);
      await run.says(/task pod|nothing is left to watch/);
      return run;
    },
    probe: () => place.exec([BIN, 'flush', '--ping', '--control', control]).status,
  };
}

/** Attempt, kind and content of the records, in short: `1 started`. */
export function told(place: Place): readonly string[] {
  return place.records().map(({ record }) => `${record.attempt} ${record.kind}`);
}

/** Waits until a checkpoint set of this attempt is committed, and gives its members: path to key. */
export async function committed(place: Place, attempt: number): Promise<Readonly<Record<string, string>>> {
  const find = (): Readonly<Record<string, string>> | undefined => {
    const { record } =
      place.records().findLast(({ record: one }) => one.attempt === attempt && one.kind === 'checkpoint') ??
      {};
    const members = record?.generations[0]?.members;
    return members === undefined ? undefined : Object.fromEntries(members.map((one) => [one.path, one.key]));
  };
  await until(() => find() !== undefined, `a checkpoint set of attempt ${attempt}`);
  return find() ?? {};
}
