// The last seconds: a task with unsaved files gets SIGTERM and writes a last checkpoint; when the window is over the
// machine is gone. How much of what the link could have carried is stored, and is the newest checkpoint?
import { setTimeout as pause } from 'node:timers/promises';
import { MiB } from '../lib/content.mjs';
import { run } from '../lib/run.mjs';

const LINK_MIB = 8;
/** From many small files to few large ones, by turns. */
const SIZES_MIB = [1 / 16, 1, 1 / 4, 4, 1 / 16, 1 / 2, 8, 2];

export const lastSeconds = {
  name: 'last-seconds',
  title: `SIGTERM, over a link of ${LINK_MIB} MiB/s: what is stored of what the link carries until the end`,
  rounds: 1,
  tools: ['capture', 'aws-at-end', 'rclone-at-end'],
  columns: [
    { key: 'ofLinkPercent', title: 'stored, of what the link carries', unit: '%' },
    { key: 'newest', title: 'newest checkpoint' },
    { key: 'newestS', title: 'stored after', unit: 's' },
    { key: 'allS', title: 'all stored after', unit: 's', ratio: true },
  ],
  cases: (size) => {
    const windowS = size === 'tiny' ? 4 : size === 'large' ? 120 : 30;
    const of = (share) => windowS * LINK_MIB * share;
    return [
      {
        name: `window of ${windowS} s, twice as much to send`,
        windowS,
        backlogMiB: of(2),
        checkpointMiB: of(0.13),
      },
      {
        name: `window of ${windowS} s, half as much to send`,
        windowS,
        backlogMiB: of(0.37),
        checkpointMiB: of(0.13),
      },
    ];
  },
  measure: async ({ server, tool, item }) => {
    const { windowS, backlogMiB, checkpointMiB } = item;
    const task = { does: 'backlog', backlogMiB, checkpointMiB, sizesMiB: SIZES_MIB };
    let noticeMs;
    let carriedBefore;
    const during = async ({ state, happened }) => {
      await happened('ready');
      carriedBefore = await server.ask('carriedBytes');
      noticeMs = Number(process.hrtime.bigint()) / 1e6;
      process.kill(state.toolPid, 'SIGTERM');
      await pause(windowS * 1000);
      return true;
    };
    const options = ['--grace', `${windowS}s`];
    const job = { task, options, during, bytesPerSecond: LINK_MIB * MiB, capS: windowS };
    const { stored, files, storedMs, storedBytes } = await run({ server, tool }, job);
    // What was on its way before the notice is nobody's merit.
    const inWindow = Math.max(0, storedBytes - carriedBefore);
    const newestMs = storedMs.get('k.chk');
    const could = Math.min(windowS * LINK_MIB, backlogMiB + checkpointMiB) * MiB;
    return {
      ofLinkPercent: backlogMiB > windowS * LINK_MIB ? (100 * inWindow) / could : undefined,
      newest: newestMs === undefined ? 'LOST' : 'stored',
      newestS: newestMs && (newestMs - noticeMs) / 1000,
      allS: stored === files ? (Math.max(...storedMs.values()) - noticeMs) / 1000 : undefined,
    };
  },
};
