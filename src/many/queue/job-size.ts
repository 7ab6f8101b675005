// How large a job in Redis is, before anything of it is read: one value may have 512 MiB there, and anybody may have
// written it.
import type { Redis } from 'ioredis';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';

/** The limit of the data of one job or submission, in bytes. */
const MOST_DATA_BYTES = 2 ** 20;
/** The limit of all that is read of one job: BullMQ and workers add to its data. */
const MOST_BYTES = 2 * MOST_DATA_BYTES;

/** No id of a job is longer: an index, a name, and a few letters. */
const MOST_ID_BYTES = 1024;

/** Most ids that are read at once. */
const MOST_IDS = 100_000;

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

const HAS_FOREIGN_IDS = `
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local range = ({ list = 'LRANGE', zset = 'ZRANGE' })[kind]
  for _, ends in ipairs(range and { { ARGV[2], ARGV[3] }, { -1 - ARGV[3], -1 - ARGV[2] } } or {}) do
    local ids = redis.call(range, key, ends[1], ends[2])
    if #ids > tonumber(ARGV[4]) then return 1 end
    for _, id in ipairs(ids) do
      if #id > tonumber(ARGV[1]) then return 1 end
    end
  end
end
return 0`;

/**
 * Of the jobs that BullMQ may take next, those that are too large lose their content, and ids that are no ids are
 * removed. The delayed jobs that are due are among them: their scores are times in ms, times 4096.
 */
const EMPTY_NEXT = `${SIZE_OF}
local next = {}
local function add(ids, drop)
  local hasLong = false
  for _, id in ipairs(ids) do
    if #id > tonumber(ARGV[5]) then
      drop(id)
      hasLong = true
    else next[#next + 1] = id end
  end
  return hasLong
end
local function dropFrom(key) return function(id) redis.call('ZREM', key, id) end end
while add(redis.call('LRANGE', KEYS[1], -1, -1), function() redis.call('RPOP', KEYS[1]) end) do end
while add(redis.call('ZRANGE', KEYS[2], 0, 0), dropFrom(KEYS[2])) do end
local due = (tonumber(ARGV[2]) + 1) * 4096
add(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', due, 'LIMIT', 0, 1000), dropFrom(KEYS[3]))
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

/**
 * True if these ranges of lists and sorted sets hold ids that are no ids, or more than anybody has submitted. `range`: as
 * in LRANGE, from either end.
 */
export async function hasForeignIds(
  redis: Redis,
  keys: readonly string[],
  range: readonly [first: number, last: number],
): Promise<boolean> {
  return (await redis.eval(HAS_FOREIGN_IDS, keys.length, ...keys, MOST_ID_BYTES, ...range, MOST_IDS)) === 1;
}

/** Call it before BullMQ gives a job to a worker. `toKey` makes keys of one queue. */
export async function emptyLargeJobs(
  redis: Redis,
  toKey: (name: string) => string,
  nowMs: number,
): Promise<void> {
  const lists = ['wait', 'prioritized', 'delayed'].map(toKey);
  const bounds = [MOST_BYTES, nowMs, toKey(''), TOO_LARGE, MOST_ID_BYTES];
  await redis.eval(EMPTY_NEXT, lists.length, ...lists, ...bounds);
}

/** Throws status 64 if no worker would read it. */
export function refuseTooLarge(what: string, data: object): void {
  if (Buffer.byteLength(JSON.stringify(data)) <= MOST_DATA_BYTES) return;
  throw new CaptureError(EXIT.usage, `${what} is larger than 1 MiB`, {
    hint: 'put what is long into a file, and name it in the command',
  });
}
