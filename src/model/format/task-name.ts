// The characters of a task name. It is part of keys, between dots and slashes, and of commands that people copy.

/** Folders below `.capture/` that are not a task's have a tilde in their name (output-keys.ts). */
export function isTaskName(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(text) && text !== '.' && text !== '..';
}
