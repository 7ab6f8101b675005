// The part of /proc that capture reads: processes, their children, environments and descriptors. Each file is made when
// it is read.
import type { SimProcess } from './process.ts';

/** The part of the kernel that /proc shows. */
export interface ProcSource {
  readonly processes: ReadonlyMap<number, SimProcess>;
  pathOfDescriptor(process: SimProcess, fd: number): string;
}

const PF_EXITING = 0x4;
const PF_ANY = 0x400000;
/** The fields 23 to 51 of stat. */
const ZEROS_TO_51 = '0 '.repeat(29);

/** Undefined if it is no file below /proc, or is gone. */
export function readProcFile(kernel: ProcSource, reader: SimProcess, path: string): string | undefined {
  if (!path.startsWith('/proc/')) return undefined;
  if (path === '/proc/self/mountinfo') return '1 0 8:1 / / rw - ext4 /dev/sda1 rw\n';
  const [, whose = '', rest = ''] = /^\/proc\/(self|\d+)\/(.+)$/.exec(path) ?? [];
  const process = whose === 'self' ? reader : kernel.processes.get(Number(whose));
  if (process === undefined) return undefined;
  if (rest === 'stat') return statOf(process);
  if (rest === 'environ') {
    if (process.isZombie) return '';
    return Object.entries(process.environment)
      .map(([name, value]) => `${name}=${value}\0`)
      .join('');
  }
  if (/^task\/\d+\/children$/.test(rest)) return [...process.children].map(({ pid }) => `${pid} `).join('');
  const [, fd] = /^fdinfo\/(\d+)$/.exec(rest) ?? [];
  const description = fd === undefined ? undefined : process.descriptors.get(Number(fd));
  if (description?.kind === 'file')
    return `pos:\t${description.position}\nflags:\t0${description.flags.toString(8)}\n`;
  return undefined;
}

export function readProcLink(kernel: ProcSource, reader: SimProcess, path: string): string | undefined {
  if (!path.startsWith('/proc/')) return undefined;
  const [, whose, fd] = /^\/proc\/(self|\d+)\/fd\/(\d+)$/.exec(path) ?? [];
  if (whose === undefined) return undefined;
  const process = whose === 'self' ? reader : kernel.processes.get(Number(whose));
  return process === undefined ? undefined : kernel.pathOfDescriptor(process, Number(fd));
}

/** Names in a directory of /proc. */
export function readProcNames(
  kernel: ProcSource,
  reader: SimProcess,
  path: string,
): readonly string[] | undefined {
  if (!path.startsWith('/proc')) return undefined;
  if (path === '/proc') return [...kernel.processes.keys()].map(String);
  const [, whose, what] = /^\/proc\/(self|\d+)\/(fd|task)$/.exec(path) ?? [];
  if (whose === undefined) return undefined;
  const process = whose === 'self' ? reader : kernel.processes.get(Number(whose));
  if (process === undefined) return undefined;
  return what === 'task' ? [String(process.pid)] : [...process.descriptors.keys()].map(String);
}

/** proc_pid_stat(5) */
function statOf(process: SimProcess): string {
  const { pid, name, isZombie, isExiting, parent, childFaults, startMs, status } = process;
  const flags = PF_ANY | (isExiting ? PF_EXITING : 0);
  const to9 = `${isZombie ? 'Z' : 'S'} ${parent?.pid ?? 1} ${pid} 0 0 0 ${flags}`;
  const to22 = `0 ${childFaults} 0 0 0 0 0 0 0 0 1 0 ${Math.floor(startMs / 10)}`;
  return `${pid} (${name}) ${to9} ${to22} ${ZEROS_TO_51}${status}\n`;
}
