// bull-board behind `capture queue ui`: the jobs of each submission, to look at. It may change nothing: what it can do to a
// job or a queue, such as to add, edit, pause or drop, goes past the store, which decides what is done.
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Hono } from 'hono';
import { openBullQueue } from './bull-queue.ts';
import type { Connection } from './connect.ts';
import { reportPath } from './list-page.ts';

/** Each poll asks for the counts of all queues. */
const POLLED_EVERY_S = 5;

export interface BullBoard {
  readonly app: Hono;
  /** Shows these, and no others. */
  show(submissions: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** `root` is the path above all pages; `files` are those of @bull-board/ui. */
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
        // Our workers wait at no single queue: it would say that there are none.
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
  // In its menu and its addresses, too, a submission has the name that people gave it.
  adapter.getName = () => name;
  return adapter;
}
