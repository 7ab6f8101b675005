// The first page of `capture queue ui`: the same data as `capture queue status`, with links to the jobs and the report
// of each submission.
import { html } from 'hono/html';
import { stateOfSubmission } from '../../model/many/choose.ts';
import { hindranceTexts, type QueueView, rowTexts, workerText } from './look.ts';
import type { RateOf } from './rate.ts';

type Html = ReturnType<typeof html>;

export const RENEWED_EVERY_S = 10;

/** Path of bull-board's page for a submission, relative to the list. */
export function jobsPath(name: string): string {
  return `board/queue/${name}`;
}

export function reportPath(name: string): string {
  return `report/${name}`;
}

export function listPage(place: string, view: QueueView, rates: ReadonlyMap<string, RateOf>): Html {
  const isEmpty = view.all.length === 0 && view.unreadable.length === 0;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta http-equiv="refresh" content="${RENEWED_EVERY_S}" />
        <link rel="icon" href="data:," />
        <title>capture: ${place}</title>
        ${STYLE}
      </head>
      <body>
        <h1>Queue <span>${place}</span></h1>
        ${isEmpty ? html`<p>the queue is empty</p>` : tableOf(view, rates)}
        ${view.unreadable.map(({ name, why }) => html`<p class="bad">${name}: cannot be read: ${why}</p>`)}
        ${hindranceTexts(view).map((text) => html`<p class="bad">${text}</p>`)} ${workersOf(view)}
        ${failedOf(view)}
        <p class="note">
          as of ${new Date(view.nowMs).toISOString().slice(11, 19)} UTC, refreshed every ${RENEWED_EVERY_S} s
        </p>
      </body>
    </html>`;
}

function tableOf({ all }: QueueView, rates: ReadonlyMap<string, RateOf>): Html {
  const rows = all.map((seen) => {
    const { name, taskName, store } = seen.submission;
    const row = rowTexts(seen, all, rates.get(name));
    return html`<tr>
      <td class="name"><a href="${jobsPath(name)}">${name}</a></td>
      <td><a href="${reportPath(name)}">report</a></td>
      <td data-name="State">${row.state}</td>
      <td data-name="Waiting" class="n">${row.waiting}</td>
      <td data-name="Running" class="n">${row.running}</td>
      <td data-name="Failed" class="n ${seen.counts.failed > 0 ? 'bad' : ''}">${row.failed}</td>
      <td data-name="Done" class="n">${row.done}</td>
      <td data-name="A minute" class="n">${row.perMinute}</td>
      <td data-name="Left" class="n">${row.left}</td>
      <td data-name="Needs">${row.needs}</td>
      <td data-name="Task">${taskName}</td>
      <td data-name="Store">${store.url}</td>
    </tr>`;
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label="submissions">
    <table>
      <thead>
        <tr>
          <th>Submission</th>
          <th></th>
          <th>State</th>
          <th class="n">Waiting</th>
          <th class="n">Running</th>
          <th class="n">Failed</th>
          <th class="n">Done</th>
          <th class="n">A minute</th>
          <th class="n">Left</th>
          <th>Needs</th>
          <th>Task</th>
          <th>Store</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;
}

function workersOf({ workers, running }: QueueView): Html {
  if (workers === undefined) return html`<p>workers: the server does not tell (CLIENT LIST)</p>`;
  if (workers.length === 0) return html`<p class="bad">no worker is here</p>`;
  return html`<h2>Workers</h2>
    <ul>
      ${workers.map((worker) => html`<li>${workerText(worker, running)}</li>`)}
    </ul>`;
}

/** The page changes nothing, so it shows the command to run. */
function failedOf({ all }: QueueView): Html {
  const failed = all.filter(
    (seen) => seen.counts.failed > 0 && stateOfSubmission(seen, all).kind !== 'cancelled',
  );
  if (failed.length === 0) return html``;
  return html`<h2>Failed</h2>
    <ul>
      ${failed.map(
        ({ submission: { name } }) =>
          html`<li>
            <a href="${jobsPath(name)}?status=failed">${name}</a>: tried again by
            <code>capture queue retry ${name}</code>
          </li>`,
      )}
    </ul>`;
}

const STYLE = html`<style>
  :root {
    color-scheme: light dark;
    --bad: #b3261e;
    --line: #8884;
    --faint: #666;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --bad: #ff8a80;
      --faint: #aaa;
    }
  }
  body {
    font:
      16px/1.5 system-ui,
      sans-serif;
    margin: 1.5rem;
  }
  h1 {
    font-size: 1.5rem;
  }
  h1 span {
    color: var(--faint);
    font-size: 1rem;
    font-weight: normal;
    overflow-wrap: anywhere;
  }
  h2 {
    font-size: 1.1rem;
  }
  .scroll {
    overflow-x: auto;
  }
  table {
    border-collapse: collapse;
    white-space: nowrap;
  }
  td,
  th {
    border-bottom: 1px solid var(--line);
    padding: 0.3rem 1rem 0.3rem 0;
    text-align: left;
  }
  .name {
    min-width: 6rem;
    overflow-wrap: anywhere;
    white-space: normal;
  }
  .n {
    font-variant-numeric: tabular-nums;
    text-align: right;
  }
  .bad {
    color: var(--bad);
  }
  .note {
    color: var(--faint);
  }

  /* On a phone, each submission is a list of its names and values. */
  @media (max-width: 40rem) {
    body {
      margin: 1rem;
    }
    thead {
      display: none;
    }
    table,
    tbody,
    tr {
      display: block;
      white-space: normal;
    }
    tr {
      border-bottom: 1px solid var(--line);
      padding: 0.6rem 0;
    }
    td {
      border: 0;
      display: flex;
      gap: 1rem;
      justify-content: space-between;
      overflow-wrap: anywhere;
      padding: 0.1rem 0;
    }
    td:empty {
      display: none;
    }
    td::before {
      color: var(--faint);
      content: attr(data-name);
    }
    li {
      overflow-wrap: anywhere;
    }
  }
</style>`;
