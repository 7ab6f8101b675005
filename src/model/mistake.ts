// One thing that is wrong with what the user asked for. Plain data: mistakes are collected and shown together, so
// that nobody has to correct a command line one error at a time.

export interface Mistake {
  /** What is wrong, and why: one line. */
  readonly message: string;
  /** What to write instead; shown after `try:`. */
  readonly hint: string;
}

/** Tells a mistake from the value that was hoped for. */
export function isMistake(value: unknown): value is Mistake {
  return typeof value === 'object' && value !== null && 'message' in value && 'hint' in value;
}
