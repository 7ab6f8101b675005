// HTCondor puts no index into the environment: it leaves the job's ClassAd in a file that $_CONDOR_JOB_AD
// names. Only reads that file.

/** `ProcId`, `ClusterId`, `NumJobStarts`, `JobBatchName` of the job, as far as the ad has them. */
export function readCondorAd(
  env: NodeJS.ProcessEnv,
  readText: (file: string) => string,
): Readonly<Record<string, string>> {
  const file = env['_CONDOR_JOB_AD'];
  if (file === undefined || file === '') return {};
  const found: Record<string, string> = {};
  for (const line of textOf(file, readText).split('\n')) {
    // One `Name = value` a line; strings stand in quotes (HTCondor manual, "ClassAd file").
    const match = /^\s*(ProcId|ClusterId|NumJobStarts|JobBatchName)\s*=\s*"?([^"]*?)"?\s*$/i.exec(line);
    const name = NAMES.find((known) => known.toLowerCase() === match?.[1]?.toLowerCase());
    if (name !== undefined && match?.[2] !== undefined) found[name] = match[2];
  }
  return found;
}

/** Attribute names are case-insensitive. */
const NAMES = ['ProcId', 'ClusterId', 'NumJobStarts', 'JobBatchName'] as const;

/** A job that cannot read its own ad is a job without an index. */
function textOf(file: string, readText: (file: string) => string): string {
  try {
    return readText(file);
  } catch {
    return '';
  }
}
