// How eagerly V8 compiles. Its compiler has threads of its own, which compete with the task: in a run with 2,000 small
// results they took a quarter of the CPU, for code that hardly runs longer than it takes to compile.
import v8 from 'node:v8';

/** A function runs three times as long before it is compiled, and fewer others are inlined into it. */
const FLAGS = ['--interrupt-budget=400000', '--max-inlined-bytecode-size-cumulative=200'];

let isSet = false;

/**
 * From now on V8 compiles later and less. Not from the start of the process: the code caches of Node and of the build
 * fit only V8's default flags (native/bootstrap.ts). Not on the command line: a later Node may not know a flag, and
 * would exit.
 */
export function compileLess(): void {
  // Flags come and go: V8 prints to stderr that it does not know one (Node 24). They were measured with the V8 of Node
  // 20.
  if (isSet || !process.versions.v8.startsWith('11.')) return;
  isSet = true;
  for (const flag of FLAGS) v8.setFlagsFromString(flag);
}
