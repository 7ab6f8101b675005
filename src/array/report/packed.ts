// The entries as the page holds them: gzip in base64, a fifth of their JSON text. The page unpacks them with the
// browser's own means (page/unpacked.ts).
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Sink } from './output-file.ts';

/** Writes them as they come: what is in memory is a few chunks. */
export async function writePacked(
  texts: AsyncIterable<string>,
  sink: Sink,
  signal: AbortSignal,
): Promise<void> {
  await pipeline(
    texts,
    createGzip(),
    async (chunks: AsyncIterable<Buffer>) => {
      let rest = Buffer.alloc(0);
      for await (const chunk of chunks) {
        const bytes = Buffer.concat([rest, chunk]);
        // Base64 takes three at a time.
        const whole = bytes.length - (bytes.length % 3);
        await sink.write(bytes.toString('base64', 0, whole));
        rest = bytes.subarray(whole);
      }
      await sink.write(rest.toString('base64'));
    },
    { signal },
  );
}
