// bull-board behind `capture queue ui`: the jobs of each submission, read-only. Its actions on a job or queue (add,
// edit, pause, drop) would bypass the store, which decides what is done.
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Hono } from 'hono';
import { openBullQueue } from './bull-queue.ts';
import type { Connection } from './connect.ts';
import { reportPath } from './list-page.ts';

/** Each poll requests the counts of all queues. */
const POLLED_EVERY_S = 5;

export interface BullBoard {
  readonly app: Hono;
  /** Shows exactly these submissions. */
  show(submissions: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** `root` is the URL path above all pages; `files` is the directory of the files of @bull-board/ui. */
export function openBullBoard(connection: Connection, root: string, files: string): BullBoard {
  const adapter = new HonoAdapter(serveStatic);
  adapter.setBasePath(`${root}/board`);
  const { addQueue, removeQueue } = createBullBoard({
    queues: [],
    serverAdapter: adapter,
    options: {
      uiBasePath: files,
      uiConfig: {
        boardTitle: 'capture',
        miscLinks: [{ text: 'All submissions', url: `${root}/arrays` }],
        hideDocsLink: true,
        // Our workers block on no single queue, so bull-board would show none.
        showWorkers: false,
        pollingInterval: { showSetting: true, forceInterval: POLLED_EVERY_S },
      },
    },
  });
  const shown = new Map<string, ReturnType<typeof openBullQueue>>();
  return {
    app: adapter.registerPlugin(),
    show: async (submissions) => {
      const names = new Set(submissions);
      for (const [name, queue] of shown) {
        if (names.has(name)) continue;
        shown.delete(name);
        removeQueue(name);
        await queue.close();
      }
      for (const name of names) {
        if (shown.has(name)) continue;
        const queue = openBullQueue(connection, name);
        shown.set(name, queue);
        addQueue(adapterOf(queue, root, name));
      }
    },
    close: async () => {
      for (const queue of shown.values()) await queue.close();
    },
  };
}

function adapterOf(queue: ReturnType<typeof openBullQueue>, root: string, name: string): BullMQAdapter {
  const adapter = new BullMQAdapter(queue, {
    readOnlyMode: true,
    externalJobUrl: ({ id }) => ({
      href: `${root}/${reportPath(name)}#index=${String(id).slice(1)}`,
      displayText: 'report',
    }),
  });
  // Menu and addresses of bull-board show the submission's own name, too.
  adapter.getName = () => name;
  return adapter;
}
