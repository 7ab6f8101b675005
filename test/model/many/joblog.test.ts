import { expect, it } from 'vitest';
import { JOBLOG_HEADER, joblogLine } from '../../../src/model/many/joblog.ts';

it('is as GNU parallel writes it', () => {
  const task = { host: ':', startedAtMs: 1_795_361_974_011, runtimeMs: 17, outputBytes: 0 };
  const log = [
    joblogLine({ ...task, index: 1, status: 3, signal: 0, command: 'sh -c "exit 3"' }),
    joblogLine({
      ...task,
      index: 2,
      status: 0,
      signal: 9,
      outputBytes: 12,
      command: 'a\nb',
      runtimeMs: 86_400_500,
    }),
  ];
  // As `parallel --joblog` of 20221122 wrote them, but for the second's figures.
  expect(JOBLOG_HEADER + log.join('')).toBe(
    'Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n' +
      '1\t:\t1795361974.011\t     0.017\t0\t0\t3\t0\tsh -c "exit 3"\n' +
      '2\t:\t1795361974.011\t 86400.500\t0\t12\t0\t9\ta\0b\n',
  );
});
