// Sets the time of day back by an hour for the processes that load it, as soon as the file $STEP_CLOCK exists.
const fs = require('node:fs');

const { now } = Date;
let steppedMs = 0;
Date.now = () => {
  if (steppedMs === 0 && fs.existsSync(process.env.STEP_CLOCK)) steppedMs = 3_600_000;
  return now() - steppedMs;
};
