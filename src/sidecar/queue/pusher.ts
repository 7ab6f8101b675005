// What files.ts and those who push for it say to each other.
import type { FileEvent } from '../../model/file/decide.ts';
import type { Evidence } from '../../model/file/evidence.ts';
import type { FileState, FileRole } from '../../model/file/file-state.ts';
import type { Fingerprint } from '../../model/file/fingerprint.ts';
import type { Paths } from '../../model/packed/paths.ts';
import type { RelPath } from '../../model/path.ts';

/** Stands for one file in one role: a number, as there may be very many. */
export type FileKey = number;

/** What a push needs to know of this run, and tells it. */
export interface PushHandle {
  /** It was torn once: copied to the spool first. */
  readonly spoolFirst: boolean;
  /** Aborts when the push is given up, or the sidecar gives everything up. */
  readonly signal: AbortSignal;
  /** The store has so many bytes more. */
  readonly onSent: (bytes: number) => void;
}

/** Carries out one push of a file and says how it ended. It never throws for a state of the file. */
export type Pusher = (fileState: FileState, how: PushHandle) => Promise<FileEvent>;

/** What is known of a close beside its path and time. */
export interface KnownOfClose {
  /** Of the sight of a scan: a state that is known already is no close. */
  readonly fingerprint?: Fingerprint | undefined;
  /** `unknown` when it is left out. */
  readonly evidence?: Evidence;
}

export interface FilesOptions {
  /** Shared with what else is known by path. */
  readonly paths?: Paths;
  readonly push: Pusher;
  readonly rolesOf: (path: RelPath) => readonly FileRole[];
  readonly replaces: (path: RelPath) => boolean;
  /** Bytes of the local file; 0 when it is gone. */
  readonly sizeOf: (path: RelPath) => number;
  readonly now: () => number;
}

/** One change of a file state. */
export interface FileChange {
  readonly fileState: FileState;
  readonly before: FileState;
  /** What has changed it; undefined for what was there before the task started. */
  readonly event: FileEvent | undefined;
}
