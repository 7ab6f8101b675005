// The first file of each process and thread, as dist/<name>.cjs: loads the program dist/<name>.code, which is its source
// and, behind that, what V8 has made of it before (build.mjs). Of
// another V8 than that of the build it is no use: V8 sees that, and compiles the source.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import v8 from 'node:v8';
import vm from 'node:vm';

/** At the end of a file stands the length of its source, in bytes and in ASCII, as the source itself is. */
const LENGTH_DIGITS = 12;

/** As require() runs a CommonJS module. */
type Program = (
  ...scope: [exports: object, require: typeof requireFrom, module: object, file: string, dir: string]
) => void;

const dir = path.dirname(import.meta.filename);
const outside = createRequire(import.meta.filename);
const loaded = new Map<string, { exports: object }>();

takeHeapFlagsBack();
// What V8 has compiled fits only the flags that it had then: here they stay what they are at a start.
if (CAPTURE_KEEPS_CODE) v8.setFlagsFromString = () => undefined;
load(`${path.basename(import.meta.filename, '.cjs')}.code`);

/**
 * Node carries its own modules compiled, for the flags that V8 has by default: with any other flag each of them is
 * compiled anew when it is loaded, for 25 ms of a start. The sizes of the heap count only while it is made, and that
 * is done. Threads have theirs from resourceLimits.
 */
function takeHeapFlagsBack(): void {
  for (const flag of process.execArgv) {
    const [name = ''] = flag.split('=');
    if (/^--(max|initial)-.*-space-size$/.test(name)) v8.setFlagsFromString(`${name}=0`);
  }
}

/** What a program asks for: another one of ours, a package that carries a binary, or a module of Node. */
function requireFrom(id: string): unknown {
  return id.endsWith('.code') ? load(path.basename(id)) : outside(id);
}

function load(name: string): object {
  const known = loaded.get(name);
  if (known !== undefined) return known.exports;
  const file = path.join(dir, name);
  const bytes = fs.readFileSync(file);
  const end = bytes.length - LENGTH_DIGITS;
  const length = Number(bytes.toString('latin1', end));
  const cachedData = bytes.subarray(length, end);
  const script = new vm.Script(bytes.toString('latin1', 0, length), {
    filename: file,
    ...(cachedData.length === 0 ? {} : { cachedData }),
  });
  if (CAPTURE_KEEPS_CODE)
    process.once('exit', () => fs.writeFileSync(`${file}.v8`, script.createCachedData()));
  const module = { exports: {} };
  loaded.set(name, module);
  (script.runInThisContext() as Program)(module.exports, requireFrom, module, file, dir);
  return module.exports;
}
