// node:tty: nobody sits before a simulated machine.
export function isatty(): boolean {
  return false;
}
