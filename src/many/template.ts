// `capture template`: a commented job file, or the job script of a scheduler, to begin with. The texts are examples of the
// project, which tests run; the build puts them in.
import { showPath } from '../model/path.ts';
import { nearestWord } from '../model/nearest.ts';
import type { ParsedLine } from './line.ts';

/** By name what it is for. */
export const TEMPLATES = {
  array: 'a job file: all tasks on this machine (capture array), or one of them (capture run)',
  queue: 'a job file for several machines (capture submit)',
  slurm: 'a batch script for an array of Slurm',
  kubernetes: 'an Indexed Job of Kubernetes, with capture as its sidecar',
  'aws-batch': 'a job definition for an array on AWS Batch',
} as const;

const WIDEST = Math.max(...Object.keys(TEMPLATES).map((name) => name.length));
export const TEMPLATE_HELP = `Usage: capture template [name]

Prints a job file with comments, or what a scheduler takes in its place:

${Object.entries(TEMPLATES)
  .map(([name, what]) => `  ${name.padEnd(WIDEST)}  ${what}\n`)
  .join('')}
Without a name: array.

Examples:
  capture template > job.yaml
  capture template slurm > job.sbatch
`;

/** Who stands in a template until somebody asks for it. */
const SOMEBODY = 'your-name';

/** `args` stand behind the command's name; `texts` are the templates. */
export function parseTemplateLine(
  args: readonly string[],
  texts: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv,
): Extract<ParsedLine, { kind: 'help' | 'version' | 'mistakes' }> {
  const [name = 'array', ...more] = args;
  if (args.some((word) => word === '-h' || word === '--help')) return { kind: 'help', text: TEMPLATE_HELP };
  if (args.some((word) => word === '-V' || word === '--version'))
    return { kind: 'version', text: `${CAPTURE_VERSION}\n` };
  const text = Object.hasOwn(TEMPLATES, name) ? texts[name] : undefined;
  if (text !== undefined && more.length === 0)
    return { kind: 'help', text: text.replaceAll(SOMEBODY, userOf(env)) };
  const [wrong = name] = more;
  const names = Object.keys(TEMPLATES);
  const message = `capture template has no '${showPath(wrong)}': there is ${names.join(', ')}`;
  const hint = `capture template ${nearestWord(wrong, names) ?? 'array'}`;
  const log = { level: 'info', format: 'text', file: undefined } as const;
  return { kind: 'mistakes', mistakes: [{ message, hint }], log };
}

/** As a namespace has it. */
function userOf({ USER = '' }: NodeJS.ProcessEnv): string {
  return /^[A-Za-z0-9][\w.-]{0,30}$/.test(USER) ? USER : SOMEBODY;
}
