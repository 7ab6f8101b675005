// The pods of examples/kubernetes: their containers, and a program as their task.
import fs from 'node:fs';
import path from 'node:path';
import { parse as parseYaml } from 'yaml';

const STEPS = 40;

/** Counts to 40 from where the checkpoint says; told to end, it writes where it is and exits 85. */
export const SIMULATE = `#!/bin/sh
n=0; [ ! -e state.chk ] || read -r n <state.chk
trap 'echo $n >last.new; cp last.new last; mv last.new state.chk; exit 85' TERM
while [ $n -lt ${STEPS} ]; do
  n=$((n + 1))
  [ $((n % 10)) != 0 ] || echo "frame $n by $(id -u)" >frame.$n.dat
  [ $((n % 4)) != 0 ] || { echo $n >state.new; mv state.new state.chk; }
  sleep 0.05
done
`;

export interface Spec {
  readonly name: string;
  readonly args?: readonly string[];
  readonly command?: readonly string[];
  readonly startupProbe?: { readonly exec: { readonly command: readonly string[] } };
}

interface Manifest {
  readonly spec: {
    readonly template: { readonly spec: Record<'initContainers' | 'containers', readonly Spec[]> };
  };
}

/** The containers of a manifest by name; `here` replaces the names of the cluster in each argument. */
export function containersIn(name: string, here: (word: string) => string): Readonly<Record<string, Spec>> {
  const file = path.resolve(import.meta.dirname, '../../examples/kubernetes', name);
  const { spec } = parseYaml(fs.readFileSync(file, 'utf8')) as Manifest;
  const { initContainers, containers } = spec.template.spec;
  return Object.fromEntries(
    [...initContainers, ...containers].map((one) => [one.name, { ...one, args: (one.args ?? []).map(here) }]),
  );
}
