// Users of this machine, by their numbers (credentials(7)).

export const ROOT_UID = 0;

/** The user that we act as, or root, who can do all that we can. */
export function isOursOrRoots(uid: number): boolean {
  return uid === ROOT_UID || uid === process.geteuid?.();
}
