// How large a job in Redis is, before anything of it is read: one value may have 512 MiB there, and anybody may have
// written it.
import type { Redis } from 'ioredis';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';

/** The limit of the data of one job or submission, in bytes. */
const MOST_DATA_BYTES = 2 ** 20;
/** The limit of all that is read of one job: BullMQ and workers add to its data. */
const MOST_BYTES = 2 * MOST_DATA_BYTES;

/** Why such a job cannot be read. */
export const TOO_LARGE = 'it is larger than 1 MiB: capture did not write it';

/** More fields than BullMQ gives to a job, and more lines than a worker writes into its log, are too large. */
const SIZE_OF = `local function size(key)
  local bytes = 0
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    if redis.call('HLEN', key) > 100 then return math.huge end
    for _, field in ipairs(redis.call('HKEYS', key)) do
      bytes = bytes + #field + redis.call('HSTRLEN', key, field)
    end
  elseif kind == 'list' then
    if redis.call('LLEN', key) > 1000 then return math.huge end
    for _, line in ipairs(redis.call('LRANGE', key, 0, -1)) do bytes = bytes + #line end
  end
  return bytes
end
local most = tonumber(ARGV[1])
`;

const IS_TOO_LARGE = `${SIZE_OF}
return size(KEYS[1]) > most and 1 or 0`;

/**
 * Of the jobs that BullMQ may take next, those that are too large lose their content. The delayed jobs that are due are
 * among them: their scores are times in ms, times 4096.
 */
const EMPTY_NEXT = `${SIZE_OF}
local next = redis.call('LRANGE', KEYS[1], -1, -1)
local function add(ids) for _, id in ipairs(ids) do next[#next + 1] = id end end
add(redis.call('ZRANGE', KEYS[2], 0, 0))
add(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', (tonumber(ARGV[2]) + 1) * 4096, 'LIMIT', 0, 1000))
for _, id in ipairs(next) do
  local key = ARGV[3] .. id
  if size(key) > most then
    redis.call('DEL', key)
    redis.call('HSET', key, 'data', ARGV[4], 'opts', '{}', 'name', '', 'timestamp', '0')
  end
end`;

/** The key of a job, or of its log. */
export async function isTooLarge(redis: Redis, key: string): Promise<boolean> {
  return (await redis.eval(IS_TOO_LARGE, 1, key, MOST_BYTES)) === 1;
}

/** Call it before BullMQ gives a job to a worker. `toKey` makes keys of one queue. */
export async function emptyLargeJobs(
  redis: Redis,
  toKey: (name: string) => string,
  nowMs: number,
): Promise<void> {
  const lists = ['wait', 'prioritized', 'delayed'].map(toKey);
  await redis.eval(EMPTY_NEXT, lists.length, ...lists, MOST_BYTES, nowMs, toKey(''), TOO_LARGE);
}

/** Throws status 64 if no worker would read it. */
export function refuseTooLarge(what: string, data: object): void {
  if (Buffer.byteLength(JSON.stringify(data)) <= MOST_DATA_BYTES) return;
  throw new CaptureError(EXIT.usage, `${what} is larger than 1 MiB`, {
    hint: 'put what is long into a file, and name it in the command',
  });
}
