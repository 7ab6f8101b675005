// The network between a process and the store: how long each way takes, and what goes wrong. A request may arrive after
// its sender has given up, or has died.
import type { Random } from '../machine/random.ts';
import type { Request } from './s3-server.ts';

export interface Fate {
  /** The time until the server has the whole request, ms; undefined: it never arrives. */
  readonly thereMs: number | undefined;
  /** It arrives a second time, this long after it left, ms; the answer to that reaches nobody. */
  readonly againMs?: number;
  /** The time of the answer from the server to the client, ms; undefined: it is lost. */
  readonly backMs: number | undefined;
  /** The connection breaks after this time, ms. The client notices, unless it has the answer by then. */
  readonly breaksMs?: number;
  /** The server refuses it. */
  readonly refusal?: { readonly status: number; readonly code: string };
}

/** Instead of the name of a file: all records. */
export const RECORDS = '.capture';

interface Deaf {
  readonly file: string;
  readonly fromMs: number;
  readonly untilMs: number;
  /** `late`: they arrive when their sender has given up; `stored`: at once; `lost`, or undefined: never. */
  readonly put?: 'lost' | 'late' | 'stored';
}

export interface Weather {
  readonly lostAnswers: number;
  readonly lateArrivals: number;
  /** A proxy sends a request again. */
  readonly repeats: number;
  readonly refusals: number;
  readonly silences: number;
  /** Times during which nothing gets through. */
  readonly outages: readonly { readonly fromMs: number; readonly untilMs: number }[];
  /** Puts of these keys get no answer for a while, although other requests do. */
  readonly deaf: readonly Deaf[];
  /** The usual latency, ms. */
  readonly latencyMs: number;
  readonly bytesPerS: number;
}

export const CALM: Weather = {
  lostAnswers: 0,
  lateArrivals: 0,
  repeats: 0,
  refusals: 0,
  silences: 0,
  outages: [],
  deaf: [],
  latencyMs: 5,
  bytesPerS: 1e9,
};

/** True if every request is answered soon. */
export function isCalm(weather: Weather): boolean {
  const { lostAnswers, lateArrivals, repeats, refusals, silences, outages, deaf, latencyMs, bytesPerS } =
    weather;
  return (
    lostAnswers + lateArrivals + repeats + refusals + silences + outages.length + deaf.length === 0 &&
    latencyMs <= 300 &&
    bytesPerS >= 1e6
  );
}

/** Decides what happens to a request that leaves at `nowMs`. */
export function fateOf(
  request: Request,
  weather: Weather,
  nowMs: number,
  random: Random,
): Fate & { readonly event: string } {
  const { latencyMs, bytesPerS } = weather;
  const way = (): number => latencyMs * (0.3 + 1.4 * random.next());
  const thereMs = way() + (request.body.length / bytesPerS) * 1000;
  if (weather.outages.some(({ fromMs, untilMs }) => nowMs >= fromMs && nowMs < untilMs))
    return { event: 'outage', thereMs: undefined, backMs: undefined, breaksMs: random.ms(1, 2000) };
  const deaf = weather.deaf.find(
    ({ file, fromMs, untilMs }) =>
      nowMs >= fromMs &&
      nowMs < untilMs &&
      request.method === 'PUT' &&
      request.path.includes(file === RECORDS ? `/${RECORDS}/` : `/${file}.`),
  );
  if (deaf?.put === 'late') return { event: 'no answer for this key, arrives late', ...lateArrival(random) };
  if (deaf?.put === 'stored') return { event: 'no answer for this key, stored', thereMs, backMs: undefined };
  if (deaf !== undefined) return { event: 'no answer for this key', thereMs: undefined, backMs: undefined };
  if (random.chance(weather.lostAnswers))
    return { event: 'answer lost', thereMs, backMs: undefined, breaksMs: thereMs + random.ms(1, 3000) };
  if (random.chance(weather.lateArrivals)) return { event: 'request arrives late', ...lateArrival(random) };
  if (random.chance(weather.refusals)) {
    const refusal = random.pick([
      { status: 503, code: 'SlowDown' },
      { status: 500, code: 'InternalError' },
      { status: 409, code: 'OperationAborted' },
    ]);
    return { event: `refused with ${refusal.status}`, thereMs, backMs: way(), refusal };
  }
  if (random.chance(weather.silences)) {
    const isRead = random.chance(0.5);
    return { event: 'silence', thereMs: isRead ? thereMs : undefined, backMs: undefined };
  }
  if (random.chance(weather.repeats)) {
    const againMs = thereMs + random.ms(1, 60_000);
    return { event: 'request arrives twice', thereMs, backMs: way(), againMs };
  }
  return { event: 'answered', thereMs, backMs: way() };
}

function lateArrival(random: Random): Fate {
  const breaksMs = random.ms(1, 5000);
  return { thereMs: breaksMs + random.ms(10, 60_000), backMs: undefined, breaksMs };
}
