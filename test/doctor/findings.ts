// Findings as a table that a test can compare.
import type { Finding } from '../../src/doctor/finding.ts';

export async function all(findings: AsyncIterable<Finding>): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for await (const one of findings) found.push(one);
  return found;
}

/** `put fail`, one for each finding. */
export function levels(findings: readonly Finding[]): readonly string[] {
  return findings.map(({ check, level }) => `${check} ${level}`);
}

/** The finding of a check; fails the test if there is none. */
export function of(findings: readonly Finding[], check: string): Finding {
  const found = findings.find((finding) => finding.check === check);
  if (found === undefined) throw new Error(`no finding of ${check} in ${levels(findings).join(', ')}`);
  return found;
}
