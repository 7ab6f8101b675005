// No rival: what a start costs that does nothing but begin two processes of Node one after the other, as capture must.
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../lib/two-nodes.cjs', import.meta.url));

export const twoNodes = {
  name: 'two empty processes of Node',
  needs: [],
  // As bin/capture does.
  script: `
  node --version >/dev/null
  exec node --max-old-space-size=128 --max-semi-space-size=1 --inspect-port=192.0.2.1:9229 '${PROGRAM}' "$@"`,
  nameOf: (key) => key,
};
