// node:tty: a simulated machine has no terminal.
export function isatty(): boolean {
  return false;
}
