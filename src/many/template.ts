// `capture template`: prints a commented job file, or a scheduler's job script, to start from. The texts are examples
// of the project that tests run; the build embeds them.
import type { Command } from '../cli/command.ts';
import { EXIT } from '../model/exit-status.ts';
import { nearestWord } from '../model/nearest.ts';
import { showPath } from '../model/path.ts';

/** Keys are the names of the templates. */
export const TEMPLATES = {
  array: 'a job file: all tasks on this machine (capture array), or one of them (capture run)',
  queue: 'a job file for several machines (capture submit)',
  slurm: 'a batch script for an array of Slurm',
  gridengine: 'a job script for an array of Grid Engine',
  pbs: 'a job script for an array of PBS Pro or OpenPBS',
  lsf: 'a job script for an array of LSF',
  htcondor: 'a submit file for jobs of HTCondor',
  flux: 'a script that submits an array to Flux',
  'gnu-parallel': 'a script that runs an array with GNU parallel',
  apptainer: 'a batch script of Slurm whose program is in a container of Apptainer',
  kubernetes: 'an Indexed Job of Kubernetes, with capture as its sidecar',
  'aws-batch': 'a job definition for an array on AWS Batch',
  'google-batch': 'a job of Google Batch',
  'azure-batch': 'a script that creates a job of Azure Batch',
} as const;

const NAMES = Object.keys(TEMPLATES);
const WIDEST = Math.max(...NAMES.map((name) => name.length));

export const templateCommand: Command<string> = {
  name: 'template',
  help: {
    about: 'Prints a job file with comments, or what a scheduler takes in its place. Without a name: array.',
    notes: [
      `Templates:\n${Object.entries(TEMPLATES)
        .map(([name, what]) => `  ${name.padEnd(WIDEST)}  ${what}\n`)
        .join('')}`,
    ],
    statuses: { 0: 'it is printed' },
    examples: ['capture template > job.yaml', 'capture template slurm > job.sbatch'],
  },
  options: [],
  isLight: true,
  needsNoDirectory: true,
  read: ({ operands: { name = 'array' }, values }) => {
    if (Object.hasOwn(TEMPLATES, name)) return name;
    const message = `capture template has no '${showPath(name)}': there is ${NAMES.join(', ')}`;
    values.refuse(message, `capture template ${nearestWord(name, NAMES) ?? 'array'}`);
    return undefined;
  },
  act: async (name, { out, env }) => {
    const texts = JSON.parse(JOB_TEMPLATES) as Readonly<Record<string, string>>;
    await out.write(textOf(texts[name] ?? '', env));
    return EXIT.ok;
  },
};

/** The placeholder for the user's name. */
const SOMEBODY = 'your-name';

/** The template's text, with the user's name in place of the placeholder. It may become a namespace. */
export function textOf(template: string, { USER = '' }: NodeJS.ProcessEnv): string {
  return template.replaceAll(SOMEBODY, /^[A-Za-z0-9][\w.-]{0,30}$/.test(USER) ? USER : SOMEBODY);
}
