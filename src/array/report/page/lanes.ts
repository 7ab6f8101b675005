// The attempts of a few indices over time, with a lane for each index. Work that is kept is solid. Work after the
// newest checkpoint is hatched in the colour of the attempt's end. Nothing is drawn after the last sign of life. For
// more indices, timeline.ts shows the counts.
import type { AttemptRow, End, IndexEntry } from '../data.ts';
import { stateText } from '../../state.ts';
import { dot, el } from './dom.ts';
import { spanOf } from './in-time.ts';
import { type Asks, linkTo } from './summary.ts';
import { durationText, timeText } from './words.ts';

/** Nobody compares more lanes. */
const MOST = 40;

const COLOURS: Readonly<Record<End, string>> = {
  failed: 'failed',
  killed: 'stale',
  preempted: 'preempted',
  ended: 'ended',
  running: 'running',
  done: 'done',
};

/** Undefined if there are too many indices, or none has started. `now`: when the report was made, s since the epoch. */
export function lanes(entries: readonly IndexEntry[], now: number, { open }: Asks): HTMLElement | undefined {
  // A silence up to now is seen as one.
  const span = entries.length > MOST ? undefined : spanOf(entries, now);
  if (span === undefined) return undefined;
  const { first, last } = span;
  const attempts = entries.flatMap((entry) => entry.attempts);
  const ends = new Set(attempts.filter(isHatched).map(({ end }) => end));
  const rows = entries.map((entry) =>
    el(
      'li',
      {},
      linkTo(entry.index, open),
      el(
        'span',
        { class: 'lane', role: 'img', 'aria-label': wordsOf(entry) },
        ...entry.attempts.flatMap((one) => barsOf(one, { first, length: last - first || 1 })),
      ),
    ),
  );
  return el(
    'div',
    { class: 'chart' },
    el('h3', {}, 'Attempts of each index'),
    el('ol', { class: 'lanes' }, ...rows),
    el('p', { class: 'lane-times' }, el('span', {}, timeText(first)), el('span', {}, timeText(last))),
    el(
      'p',
      { class: 'note legend' },
      attempts.some(isSolid) ? el('span', {}, dot('kept'), 'kept') : undefined,
      ...[...ends].map((end) =>
        el(
          'span',
          {},
          dot(COLOURS[end], 'hatched'),
          end === 'running' ? 'since the newest checkpoint' : `lost: ${end}`,
        ),
      ),
    ),
  );
}

function isSolid({ kept, end }: AttemptRow): boolean {
  return kept > 0 || end === 'done';
}

/** An attempt with no record but its start is visible, too. */
function isHatched({ ran, kept, end }: AttemptRow): boolean {
  return ran > kept || (ran === 0 && end !== 'done');
}

function barsOf(
  one: AttemptRow,
  { first, length }: { readonly first: number; readonly length: number },
): readonly HTMLElement[] {
  const { from, ran, kept, end, attempt } = one;
  const bar = (kind: string, colour: string, start: number, seconds: number): HTMLElement => {
    const made = el('i', {
      class: kind,
      title: `attempt ${attempt}: kept ${durationText(kept)} of ${durationText(ran)}, ${end}`,
    });
    made.style.left = `${(100 * (start - first)) / length}%`;
    made.style.width = `max(2px, ${(100 * seconds) / length}%)`;
    made.style.setProperty('--colour', `var(--${colour})`);
    return made;
  };
  return [
    ...(isSolid(one) ? [bar('solid', 'kept', from, kept)] : []),
    ...(isHatched(one) ? [bar('hatched', COLOURS[end], from + kept, ran - kept)] : []),
  ];
}

function wordsOf(entry: IndexEntry): string {
  const attempts = entry.attempts.map(
    ({ attempt, from, ran, end }) =>
      `attempt ${attempt} from ${timeText(from)} for ${durationText(ran)}, ${end}`,
  );
  return [stateText(entry), ...attempts].join('; ');
}
