// How eagerly V8 compiles. Its compiler has threads of its own, which compete with the task: of a run's 2,000 small results
// it took a quarter of the CPU, for code that is hardly run longer than it takes to compile it.
import v8 from 'node:v8';

/** Three times as much is run before a function is compiled, and it takes fewer others into itself. */
const FLAGS = ['--interrupt-budget=400000', '--max-inlined-bytecode-size-cumulative=200'];

let isSet = false;

/**
 * From now on V8 compiles later and less. Not at the start: what Node and the build carry compiled fits only the flags that
 * V8 has by default (native/program.ts). Not on the command line: a flag that a later Node does not know would end it.
 */
export function compileLess(): void {
  // Flags come and go: V8 says on stderr that it knows one no more (Node 24). With that of Node 20 they are measured.
  if (isSet || !process.versions.v8.startsWith('11.')) return;
  isSet = true;
  for (const flag of FLAGS) v8.setFlagsFromString(flag);
}
