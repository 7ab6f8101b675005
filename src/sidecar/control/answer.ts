// Answers the questions that come over the control socket, for this run. A question changes nothing about the run but
// the order of its work.
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { type ControlAnswer, type ControlRequest, flushedAnswer } from '../../model/format/control.ts';
import { whileLinked } from '../../model/waiting.ts';
import type { Needs } from '../run/context.ts';
import { type Control, openControl, type Serve } from './control.ts';
import type { Flush } from './flush.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'log' | 'runToken' | 'signal'>;

/**
 * Listens from now on. Undefined if there is no place for the socket: the run goes on without it, and says so.
 *
 * @throws CaptureError with status 64 if the place that the user named cannot be used.
 */
export async function openAnswers(context: Uses, flush: Flush): Promise<Control | undefined> {
  const { settings, runToken, log } = context;
  const serve: Serve = (request, signal) => answer(request, flush, signal, context.signal);
  try {
    return await openControl({ workdir: settings.workdir, runToken, path: settings.control, serve });
  } catch (error) {
    if (error instanceof CaptureError) throw error;
    log.warn(`there is no control socket, so that capture flush cannot work: ${reasonOf(error)}`, {
      hint: 'let TMPDIR name a directory with a short path that can be written',
    });
    return undefined;
  }
}

async function answer(
  request: ControlRequest,
  flush: Flush,
  signal: AbortSignal,
  fenced: AbortSignal,
): Promise<ControlAnswer> {
  if (fenced.aborted) return { kind: 'refused', why: reasonOf(fenced.reason) };
  if (request.kind === 'ping') return { kind: 'watching' };
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), request.timeoutMs);
  try {
    return flushedAnswer(await whileLinked([signal, late.signal, fenced], flush));
  } finally {
    clearTimeout(timer);
  }
}
