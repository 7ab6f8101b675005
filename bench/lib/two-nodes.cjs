// The least that two processes of Node cost at a start: an empty launcher starts this file once more as its sidecar, waits
// for the first message, and starts the task. V8's flags are taken back as capture does (src/native/bootstrap.ts).
'use strict';
const v8 = require('node:v8');

for (const flag of process.execArgv)
  if (flag.includes('-space-size=')) v8.setFlagsFromString(`${flag.split('=')[0]}=0`);

if (process.send === undefined) launch(process.argv.slice(2));
else {
  process.send('ready');
  process.on('message', () => undefined); // as long as the channel is there
}

function launch([command, ...args]) {
  const { spawn } = require('node:child_process');
  const flags = ['--max-old-space-size=256', '--initial-old-space-size=16', '--max-semi-space-size=2'];
  const sidecar = spawn(process.execPath, [...flags, __filename], { stdio: ['ignore', 'ignore', 2, 'ipc'] });
  sidecar.once('message', () => {
    spawn(command, args, { stdio: 'inherit' }).once('close', () => sidecar.disconnect());
  });
}
