// The task's default name: the base name of the program or script that the user sees as the task. Pure. Object keys
// contain the name, so it must be the same at every attempt.
import { isTaskName } from '../../model/format/task-name.ts';
import { WRAPPERS, type Wrapper } from '../../model/wrappers.ts';

const LONGEST = 64;

/** The name of a task without a known command (`capture watch`, `capture restore`). */
export const DEFAULT_TASK_NAME = 'task';

/**
 * The base name of the command, or of the script or program after an interpreter or wrapper: `srun -n 4 python3 -u
 * fit.py` is `fit.py`. Bytes that a key does not allow become `_`.
 */
export function taskNameOf(argv: readonly string[]): string {
  return keySafe(baseName(programOf(argv)));
}

/** The word that names the program. If a wrapper runs nothing with a name, it is the wrapper itself. */
function programOf(argv: readonly string[]): string {
  const [command = ''] = argv;
  const wrapper = wrapperOf(command);
  if (wrapper === undefined) return command;
  const inner = unwrap(wrapper, argv.slice(1));
  return inner.length === 0 || inner[0] === '' ? command : programOf(inner);
}

function wrapperOf(command: string): Wrapper | undefined {
  const name = baseName(command);
  return WRAPPERS.get(name) ?? WRAPPERS.get(name.replace(/[\d.]+$/, ''));
}

/** A wrapper's arguments from the program on. Empty if it runs no program with a name. */
function unwrap(wrapper: Wrapper, args: readonly string[]): readonly string[] {
  let at = 0;
  if (wrapper.commands !== undefined) {
    if (!wrapper.commands.includes(args[0] ?? '')) return [];
    at = 1;
  }
  for (; at < args.length; at += 1) {
    const arg = args[at] ?? '';
    if (arg === '--') {
      at += 1;
      break;
    }
    if (!isOption(arg)) break;
    if (isCode(wrapper, arg)) return [];
    if (wrapper.named?.includes(arg) === true) return args.slice(at + 1);
    at += wrapper.values?.[arg] ?? 0;
  }
  if (wrapper.assignments === true) while (/^\w+=/.test(args[at] ?? '')) at += 1;
  return args.slice(at + (wrapper.operands ?? 0));
}

function isOption(arg: string): boolean {
  return arg.length > 1 && (arg.startsWith('-') || arg.startsWith('+'));
}

/** `-c`, and also `-lc`: one-letter options of a shell may be combined. */
function isCode(wrapper: Wrapper, arg: string): boolean {
  return (wrapper.code ?? []).some(
    (option) =>
      arg === option || (option.length === 2 && /^-[a-z]+$/i.test(arg) && arg.endsWith(option.slice(1))),
  );
}

function baseName(path: string): string {
  return /([^/]*)\/*$/.exec(path)?.[1] ?? '';
}

function keySafe(name: string): string {
  const safe = name.replaceAll(/[^A-Za-z0-9._-]/gu, '_').slice(0, LONGEST);
  return isTaskName(safe) ? safe : DEFAULT_TASK_NAME;
}
