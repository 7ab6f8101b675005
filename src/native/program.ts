// Loads the programs of dist/: for the first file of each process and of each worker. A program, dist/<name>.code, is one
// line of JSON, the source, and what V8 made of that source in the build (build.mjs), which saves each start the compiling.
// It must never run what another Node has compiled, or what is damaged: then V8 compiles the source.
import fs from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import v8 from 'node:v8';
import vm from 'node:vm';
import zlib from 'node:zlib';

/** The first line of a program. */
interface Header {
  /** As ASCII. */
  readonly sourceBytes: number;
  /** `process.version` and `process.arch`. */
  readonly compiledBy: string;
  /** Of the source and what was compiled. */
  readonly crc32: number;
}

/** A source is a function, as require() makes one of a CommonJS module. */
type Program = (
  ...scope: [exports: object, require: typeof requireFrom, module: object, file: string, dir: string]
) => void;

/** There is no program in this file. */
class Damaged extends Error {
  constructor(file: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`${file} is damaged: ${why} (try: install capture again)`, { cause });
  }
}

/** As Node says it of a package that is not installed. */
class NotOurs extends Error {
  readonly code = 'MODULE_NOT_FOUND';

  constructor(id: string) {
    super(`${id} is no part of capture`);
  }
}

const EXIT_INTERNAL = 70;
const dir = path.dirname(import.meta.filename);
const loaded = new Map<string, { exports: object }>();

takeHeapFlagsBack();
leaveWarningToUs();
// What V8 compiles carries the flags of that moment, and the program may change them.
if (CAPTURE_KEEPS_CODE) v8.setFlagsFromString = () => undefined;

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

/** Of certificates that are not checked we say ourselves (cli/warnings): Node would say it in each process, past the log. */
function leaveWarningToUs(): void {
  if (process.env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return;
  const printers = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    if (warning.message.includes('NODE_TLS_REJECT_UNAUTHORIZED')) return;
    for (const print of printers) print.call(process, warning);
  });
}

/** What the program exports. If the file holds none it exits, and not with 1: that may be the task's own status. */
export function loadProgram(name: string): object {
  try {
    return load(`${name}.code`);
  } catch (error) {
    if (!(error instanceof Damaged)) throw error;
    fs.writeSync(2, `capture: ${error.message}\n`);
    process.exit(EXIT_INTERNAL);
  }
}

/** The path of a file in the directory of our own. */
export function besideUs(name: string): string {
  return path.join(dir, name);
}

function load(name: string): object {
  const known = loaded.get(name);
  if (known !== undefined) return known.exports;
  const file = path.join(dir, name);
  const script = scriptOf(file);
  if (CAPTURE_KEEPS_CODE)
    process.once('exit', () => fs.writeFileSync(`${file}.v8`, script.createCachedData()));
  const module = { exports: {} };
  loaded.set(name, module);
  (script.runInThisContext() as Program)(module.exports, requireFrom, module, file, dir);
  return module.exports;
}

/**
 * What a program asks for: another one of ours, or a module of Node. Nothing else, which Node would look for in directories
 * that are not ours (native/binary.ts): what a bundled package can do without, it does without.
 */
function requireFrom(id: string): unknown {
  if (id.endsWith('.code')) return load(path.basename(id));
  if (!isBuiltin(id)) throw new NotOurs(id);
  // It would make another require.
  return /^(node:)?module$/.test(id) ? { createRequire: () => requireFrom } : process.getBuiltinModule(id);
}

function scriptOf(file: string): vm.Script {
  try {
    const { source, compiled } = read(file);
    // Not where it stands: V8 keeps the name along with what it has compiled, and the build stands elsewhere.
    return new vm.Script(source, { filename: path.basename(file), cachedData: compiled });
  } catch (cause) {
    throw new Damaged(file, cause);
  }
}

function read(file: string): { readonly source: string; readonly compiled: Buffer | undefined } {
  const bytes = fs.readFileSync(file);
  const start = bytes.indexOf('\n') + 1;
  const header = headerOf(bytes.toString('latin1', 0, start));
  const end = start + (header?.sourceBytes ?? Infinity);
  if (header === undefined || end > bytes.length) throw new Error('it was cut off');
  return {
    source: bytes.toString('latin1', start, end),
    compiled: isWhole(bytes.subarray(start), header) ? bytes.subarray(end) : undefined,
  };
}

function headerOf(line: string): Header | undefined {
  try {
    return JSON.parse(line) as Header;
  } catch {
    return undefined;
  }
}

/** V8 compares only its version, which Node patches without a new one, its flags, and the lengths of both parts. */
function isWhole(both: Buffer, { compiledBy, crc32 }: Header): boolean {
  return compiledBy === `${process.version} ${process.arch}` && zlib.crc32(both) === crc32;
}
