// The sources of notices, queried once for all lives of this process that chose the same ones. Each life gets the
// notices that stand when it begins, and all later ones. Time since the start of a run (`after:30s`) counts for each
// life separately.
import type { Log } from '../log/log.ts';
import { type Notice, type NoticeChoice, sameNotice } from '../model/format/notice.ts';
import { type Share, Shares } from '../model/shares.ts';
import { type Notices, openNotices } from '../notices/notices.ts';

export interface NoticeListener {
  readonly log: Log;
  readonly onNotice: (notice: Notice) => void;
  /** Gets the notice as it was given. */
  readonly onWithdrawn: (notice: Notice) => void;
}

export class SharedNotices {
  readonly #env: NodeJS.ProcessEnv;
  readonly #sources = new Shares<Source>((source) => source.close());

  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
  }

  listen(choices: readonly NoticeChoice[], listener: NoticeListener): Notices {
    if (choices.some(({ kind }) => kind === 'after'))
      return openNotices({ ...listener, choices, env: this.#env });
    const share = this.#sources.take(JSON.stringify(choices), () => new Source(choices, this.#env));
    share.value.add(listener);
    return noticesOf(share, listener);
  }
}

function noticesOf({ value: source, release }: Share<Source>, listener: NoticeListener): Notices {
  return {
    // While others are running the platform has to wait for them.
    done: async () => (source.isAlone(listener) ? source.done() : undefined),
    close: () => {
      source.remove(listener);
      void release();
    },
  };
}

class Source {
  readonly #listeners = new Set<NoticeListener>();
  readonly #notices: Notices;
  #standing: readonly Notice[] = [];

  constructor(choices: readonly NoticeChoice[], env: NodeJS.ProcessEnv) {
    const each = (act: (listener: NoticeListener) => void): void => {
      for (const listener of this.#listeners) act(listener);
    };
    this.#notices = openNotices({
      choices,
      env,
      log: {
        debug: (message, fields) => each(({ log }) => log.debug(message, fields)),
        info: (message, fields) => each(({ log }) => log.info(message, fields)),
        warn: (message, fields) => each(({ log }) => log.warn(message, fields)),
      },
      onNotice: (notice) => {
        this.#standing = [...this.#standing, notice];
        each(({ onNotice }) => onNotice(notice));
      },
      onWithdrawn: (notice) => {
        this.#standing = this.#standing.filter((one) => !sameNotice(one, notice));
        each(({ onWithdrawn }) => onWithdrawn(notice));
      },
    });
  }

  add(listener: NoticeListener): void {
    this.#listeners.add(listener);
    for (const notice of this.#standing) listener.onNotice(notice);
  }

  remove(listener: NoticeListener): void {
    this.#listeners.delete(listener);
  }

  isAlone(listener: NoticeListener): boolean {
    return this.#listeners.size === 1 && this.#listeners.has(listener);
  }

  done(): Promise<void> {
    return this.#notices.done();
  }

  close(): void {
    this.#notices.close();
  }
}
