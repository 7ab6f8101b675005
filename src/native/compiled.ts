// Loads the programs that each task waits for, the launcher's and the sidecar's, with a code cache of V8: this saves a
// fifth of each start (docs/dev/adr/0018). dist/<name>.cjs is an ordinary CommonJS module. Beside it, the build writes the
// cache, dist/<name>.v8: one line of JSON, then V8's code. A cache that another Node made, that belongs to another
// source, or that is damaged is never run: V8 compiles the source instead.
// bootstrap.ts must stay the first import: see there.
import { besideUs, damaged, exitDamaged, mainOf } from './bootstrap.ts';
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import zlib from 'node:zlib';
import { CaptureError } from '../model/errors.ts';

/** The first line of a cache file. */
interface Header {
  /** `process.version` and `process.arch`. */
  readonly compiledBy: string;
  /** Of the source, and of the code after this line. */
  readonly crc32: readonly [number, number];
}

/** A CommonJS module, called as Node does it. */
type Program = (
  ...scope: [exports: object, require: typeof requireFrom, module: object, file: string, dir: string]
) => void;

const loaded = new Map<string, { readonly exports: object }>();

/** The export `main` of the program `name`. If its file is missing or damaged, says so and ends the process. */
export function loadCompiled<Main>(name: string): Main {
  const file = besideUs(`${name}.cjs`);
  try {
    return mainOf(load(file) as { readonly main?: Main });
  } catch (error) {
    return exitDamaged(error instanceof CaptureError ? error : damaged(file, error));
  }
}

function load(file: string): object {
  const known = loaded.get(file);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  const program = scriptOf(file).runInThisContext() as Program;
  program(module.exports, requireFrom, module, file, path.dirname(file));
  loaded.set(file, module);
  return module.exports;
}

/**
 * Loads another file of dist/ or a module of Node. A program requires nothing else: its packages are bundled
 * (build.mjs).
 */
function requireFrom(id: string): unknown {
  return id.startsWith('./') ? load(besideUs(path.basename(id))) : process.getBuiltinModule(id);
}

function scriptOf(file: string): vm.Script {
  try {
    const source = fs.readFileSync(file);
    const cachedData = compiledFrom(source, file.replace(/cjs$/, 'v8'));
    // On the first line of the source, so that its line numbers stay the same.
    const text = `(function (exports, require, module, __filename, __dirname) {${source.toString()}\n})`;
    return new vm.Script(text, { filename: file, cachedData });
  } catch (error) {
    throw damaged(file, error);
  }
}

/**
 * V8 itself compares only its version, its flags and the length of the source, and Node patches V8 without a new
 * version.
 */
function compiledFrom(source: Buffer, file: string): Buffer | undefined {
  try {
    const bytes = fs.readFileSync(file);
    const end = bytes.indexOf('\n') + 1;
    const { compiledBy, crc32 } = JSON.parse(bytes.toString('latin1', 0, end)) as Header;
    const code = bytes.subarray(end);
    const isOurs = compiledBy === `${process.version} ${process.arch}`;
    return isOurs && zlib.crc32(source) === crc32[0] && zlib.crc32(code) === crc32[1] ? code : undefined;
  } catch {
    return undefined; // missing, or damaged
  }
}
