// What the name of a task may be made of. It stands in keys, between dots and slashes, and in commands that people copy.

/** What is no task's below `.capture/` has a name with a tilde (output-keys.ts). */
export function isTaskName(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(text) && text !== '.' && text !== '..';
}
