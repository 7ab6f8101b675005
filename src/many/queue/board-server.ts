// The server behind `capture queue ui`: the list of submissions, bull-board, and a report of each submission. It only
// shows, changes nothing, and listens on loopback only. It requires a token, because other users of this machine, and
// any page in a browser, can reach the port.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { reasonOf } from '../../model/errors.ts';
import type { Submission } from '../../model/many/submission.ts';
import { awayText, type BrokerAway } from '../broker.ts';
import { openBullBoard } from './bull-board.ts';
import type { Connection } from './connect.ts';
import { listPage, RENEWED_EVERY_S } from './list-page.ts';
import { look, type Showable } from './look.ts';
import { addLook, type RateOf } from './rate.ts';

const LOOPBACK = '127.0.0.1';
const TOKEN_BYTES = 24;
/**
 * Loads nothing from other hosts: cluster nodes often have no Internet access, and no other host should learn about the
 * jobs.
 */
const POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export interface BoardServer {
  /** With the token in its path. */
  readonly url: string;
  close(): Promise<void>;
}

export interface BoardServerOptions {
  readonly connection: Connection;
  readonly broker: Showable;
  readonly port: number;
  /** The directory of bull-board's files for the browser. */
  readonly boardFiles: string;
  /** Renders the report of one submission. */
  readonly report: (submission: Submission) => Promise<string>;
}

export async function openBoardServer(options: BoardServerOptions): Promise<BoardServer> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const board = openBullBoard(options.connection, `/${token}`, options.boardFiles);
  const app = new Hono();
  app.use('*', async (context, next) => {
    const refused = refuse(context, token);
    if (refused !== undefined) return refused;
    await next();
    context.header('referrer-policy', 'no-referrer');
    context.header('x-frame-options', 'DENY');
    context.header('x-content-type-options', 'nosniff');
    return undefined;
  });
  app.onError((error, context) => {
    // Compared by name, because the program that opened the queue has its own copy of the class (build.mjs makes two
    // bundles).
    if (error.name !== 'BrokerAway') return context.text(reasonOf(error), 500);
    context.header('refresh', String(RENEWED_EVERY_S));
    return context.text(awayText(error as BrokerAway), 503);
  });
  const pages = pagesOf(options);
  pages.use('/board/*', async (context, next) => {
    context.header('content-security-policy', POLICY);
    // Adds new submissions and drops those that were removed.
    if (context.req.path.startsWith(`/${token}/board/api/`)) await board.show(await namesIn(options.broker));
    await next();
  });
  pages.route('/board', board.app);
  app.route(`/${token}`, pages);
  const server = await listen(app, options.port);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${LOOPBACK}:${port}/${token}/arrays`,
    close: async () => {
      await new Promise((resolve) => {
        server.close(resolve);
        // A browser keeps its connections open, so close() alone would not end.
        if ('closeAllConnections' in server) server.closeAllConnections();
      });
      await board.close();
    },
  };
}

function listen(app: Hono, port: number): Promise<ReturnType<typeof serve>> {
  return new Promise((resolve, reject) => {
    const listening = serve({ fetch: app.fetch, hostname: LOOPBACK, port }, () => resolve(listening));
    listening.once('error', reject);
  });
}

/** The list, and a report of each submission. */
function pagesOf({ broker, report }: BoardServerOptions): Hono {
  const pages = new Hono();
  const rates = new Map<string, RateOf>();
  pages.get('/arrays', async (context) => {
    const view = await look(broker, undefined);
    addLook(rates, view.nowMs, view.all);
    context.header('content-security-policy', POLICY);
    return context.html(listPage(broker.place, view, rates));
  });
  // The report has a Content-Security-Policy of its own.
  pages.get('/report/:name', async (context) => {
    const name = context.req.param('name');
    const found = (await broker.list()).find(
      (one) => one.kind === 'submission' && one.submission.name === name,
    );
    if (found?.kind !== 'submission') return context.text('no such submission', 404);
    try {
      return context.html(await report(found.submission));
    } catch (error) {
      return context.text(`no report: ${reasonOf(error)}`, 502);
    }
  });
  return pages;
}

async function namesIn(broker: Showable): Promise<readonly string[]> {
  const listed = await broker.list();
  return listed.flatMap((one) => (one.kind === 'submission' ? [one.submission.name] : []));
}

/**
 * The token is the first part of each path. A cookie would not do: a browser sends cookies to all ports of a host (RFC
 * 6265, 8.5), and so to another user's server on this machine.
 */
function refuse({ req, text }: Context, token: string): Response | undefined {
  // Refuses foreign host names that resolve to this address (DNS rebinding).
  const [, host] = /^(.*?)(?::\d+)?$/.exec(req.header('host') ?? '') ?? [];
  if (host !== LOOPBACK && host !== 'localhost') return text('wrong host', 403);
  if (!isSame(req.path.split('/')[1] ?? '', token))
    return text('use the address that capture queue ui has printed', 403);
  if (!['GET', 'HEAD'].includes(req.method))
    return text('it only shows: capture queue retry and cancel change', 405);
  return undefined;
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
