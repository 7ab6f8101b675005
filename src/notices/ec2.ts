// EC2's instance metadata, version 2 (IMDSv2, with a session token): is this spot instance to be interrupted? Amazon
// EC2 User Guide, "Spot Instance interruption notices" and "EC2 instance rebalance recommendations".
import * as z from 'zod';
import type { Notice } from '../model/format/notice.ts';
import { type Answer, askAtFirst, baseUrl, jsonOf, poll, type Question, tryAsk } from './metadata.ts';
import { reportAbsent, atInstant, instantMs, type Source, type SourceOptions } from './source.ts';

const TOKEN_PATH = '/latest/api/token';
const ACTION_PATH = '/latest/meta-data/spot/instance-action';
const REBALANCE_PATH = '/latest/meta-data/events/recommendations/rebalance';
const TOKEN_HEADER = 'x-aws-ec2-metadata-token';
const TTL_HEADER = 'x-aws-ec2-metadata-token-ttl-seconds';
/** The maximum of EC2. If a token ends sooner, the service answers 401. */
const TOKEN_TTL_SECONDS = 21_600;
/** The IPv6 address of the service on Nitro instances. */
const IPV6_URL = 'http://[fd00:ec2::254]';

const Action = z.object({ action: z.enum(['terminate', 'stop', 'hibernate']), time: z.string().optional() });
const Rebalance = z.object({ noticeTime: z.string() });
const VERB = { terminate: 'terminates', stop: 'stops', hibernate: 'hibernates' } as const;

/** Both paths are polled every time. `AWS_EC2_METADATA_*` are the variables of the AWS SDKs. */
export class Ec2Source implements Source {
  readonly #options: SourceOptions;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  run(): Promise<void> {
    return listen(this.#options);
  }
}

async function listen(options: SourceOptions): Promise<void> {
  const { env, pace, signal, tell } = options;
  const disabled = env['AWS_EC2_METADATA_DISABLED'] ?? '';
  if (disabled !== '' && disabled !== 'false') {
    reportAbsent(options, 'no notices from EC2: AWS_EC2_METADATA_DISABLED is set');
    return;
  }
  const isIpv6 = env['AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE']?.toLowerCase() === 'ipv6';
  const base = baseUrl(env['AWS_EC2_METADATA_SERVICE_ENDPOINT'] || (isIpv6 ? IPV6_URL : undefined));
  if ('wrong' in base) {
    reportAbsent(options, `no notices from EC2: AWS_EC2_METADATA_SERVICE_ENDPOINT ${base.wrong}`);
    return;
  }
  const first = await askAtFirst(base, tokenQuestion(options), pace);
  let token = tokenOf(first);
  if (token === undefined) {
    const why = 'failed' in first ? first.failed : `http ${first.status}`;
    reportAbsent(
      options,
      `no notices from EC2: its metadata service gives no token (${why})`,
      'in a container, allow a hop: aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2',
    );
    return;
  }
  const get = async (path: string): Promise<Answer | undefined> => {
    token ??= tokenOf(await tryAsk(base, tokenQuestion(options)));
    if (token === undefined) return undefined;
    const headers = { [TOKEN_HEADER]: token };
    const answer = await tryAsk(base, { path, headers, timeoutMs: pace.timeoutMs, signal });
    if ('failed' in answer) return undefined;
    if (answer.status === 401) token = undefined;
    return answer;
  };
  const getWithToken = async (path: string): Promise<Answer | undefined> => {
    const answer = await get(path);
    return answer?.status === 401 ? get(path) : answer;
  };
  const stop = new PolledNotice(
    () => getWithToken(ACTION_PATH),
    (body) => actionNotice(body, options),
  );
  const advice = new PolledNotice(
    () => getWithToken(REBALANCE_PATH),
    (body) => rebalanceNotice(body, options),
  );
  await poll(
    async () => {
      // One after the other: the second may need the token that the first has renewed.
      const heard = [await stop.poll(), await advice.poll()];
      tell([stop.notice, advice.notice].filter((notice) => notice !== undefined));
      return heard.every(Boolean) ? 'heard' : 'failed';
    },
    pace,
    signal,
  );
}

function tokenQuestion({ pace, signal }: SourceOptions): Question {
  return {
    method: 'PUT',
    path: TOKEN_PATH,
    headers: { [TTL_HEADER]: String(TOKEN_TTL_SECONDS) },
    timeoutMs: pace.timeoutMs,
    signal,
  };
}

function tokenOf(answer: Answer | { readonly failed: string }): string | undefined {
  if ('failed' in answer || answer.status !== 200) return undefined;
  return /^[\x21-\x7e]{1,1024}$/.exec(answer.body)?.[0];
}

/** The notice at a path: none after a 404; after no answer, the previous one. */
class PolledNotice {
  readonly #ask: () => Promise<Answer | undefined>;
  readonly #read: (body: string) => Notice | undefined;
  notice: Notice | undefined;

  constructor(ask: () => Promise<Answer | undefined>, read: (body: string) => Notice | undefined) {
    this.#ask = ask;
    this.#read = read;
  }

  /** False if there was no answer. */
  async poll(): Promise<boolean> {
    const answer = await this.#ask();
    if (answer?.status === 404) this.notice = undefined;
    else if (answer?.status === 200) this.notice = this.#read(answer.body) ?? this.notice;
    return answer?.status === 404 || answer?.status === 200;
  }
}

function actionNotice(body: string, { garbage }: SourceOptions): Notice | undefined {
  const read = Action.safeParse(jsonOf(body));
  if (!read.success) {
    garbage('EC2 says something about this instance that makes no sense (spot/instance-action)');
    return undefined;
  }
  const atMs = instantMs(read.data.time);
  const what = `EC2 ${VERB[read.data.action]} this instance${atInstant(atMs)}`;
  return { source: 'ec2', kind: 'stop', atMs, what };
}

/** Its time is when the advice was given, not when anything ends. */
function rebalanceNotice(body: string, { garbage }: SourceOptions): Notice | undefined {
  const read = Rebalance.safeParse(jsonOf(body));
  if (!read.success) {
    garbage('EC2 says something about this instance that makes no sense (recommendations/rebalance)');
    return undefined;
  }
  const what = 'EC2 recommends to leave this instance: it is at a higher risk of being interrupted';
  return { source: 'ec2', kind: 'advice', atMs: undefined, what };
}
