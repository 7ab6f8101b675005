// Runs a command in a user and mount namespace of its own (user_namespaces(7)): it can have small file systems and
// kernel limits without root, and they end with the command.

export interface NamespaceOptions {
  /** Mount points of new tmpfs file systems, with sizes as in tmpfs(5): `1m`. */
  readonly tmpfs?: Readonly<Record<string, string>>;
  /** Bind mounts: from the mount point to the directory that is shown there. */
  readonly binds?: Readonly<Record<string, string>>;
  /** Mount points that are made read-only, after all others. */
  readonly readOnly?: readonly string[];
  /** `max_inotify_watches` and such, below /proc/sys/user. */
  readonly limits?: Readonly<Record<string, number>>;
  /** Open files (ulimit -n). */
  readonly openFiles?: number;
  /** Shell text that runs before the command, to fill what was mounted. */
  readonly before?: string;
  /** Shell text that runs after it, to show what is left: its output comes last. */
  readonly after?: string;
}

/** The command line that runs `command` in the namespace, with the exit status of `command`. */
export function inNamespace(
  options: NamespaceOptions,
  command: readonly string[],
  cwd: string,
): readonly string[] {
  const {
    tmpfs = {},
    binds = {},
    readOnly = [],
    limits = {},
    openFiles,
    before = ':',
    after = ':',
  } = options;
  const script = [
    'set -e',
    ...Object.entries(tmpfs).map(([dir, size]) => `mount -t tmpfs -o size=${size} none ${quote(dir)}`),
    ...Object.entries(binds).map(([place, dir]) => `mount --bind ${quote(dir)} ${quote(place)}`),
    ...readOnly.map((dir) => `mount -o remount,ro,bind ${quote(dir)} || mount -o remount,ro ${quote(dir)}`),
    ...Object.entries(limits).map(([name, value]) => `echo ${value} > /proc/sys/user/${name}`),
    `cd ${quote(cwd)}`,
    before,
    ...(openFiles === undefined ? [] : [`ulimit -n ${openFiles}`]),
    'set +e',
    command.map(quote).join(' '),
    'status=$?',
    after,
    'exit $status',
  ];
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script.join('\n')];
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
