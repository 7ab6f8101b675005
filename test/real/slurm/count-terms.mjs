// count-terms.mjs: counts the SIGTERMs that reach it. 2 s after the first it says how many came and ends with 1;
// when it is started again it ends at once.
import fs from 'node:fs';

if (process.env.CAPTURED_ATTEMPT !== '1') process.exit(0);
let terms = 0;
process.on('SIGTERM', () => {
  terms += 1;
  if (terms > 1) return;
  setTimeout(() => {
    fs.writeSync(1, `TERM: ${terms} times\n`);
    process.exit(1);
  }, 2000);
});
setInterval(() => undefined, 1000);
fs.writeSync(1, 'up\n');
