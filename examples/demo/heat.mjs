#!/usr/bin/env node
// A small real computation: two hot bodies on a cold plate (the heat equation in two dimensions, explicit finite
// differences). It reads heat.json, writes a picture frame.NNNN.pgm at intervals, and final.dat at the end. It
// rewrites its checkpoint heat.chk in place, and resumes from it if it exists. It knows nothing about capture.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/** In units of the cell size squared. An explicit scheme is stable up to 0.25. */
const DIFFUSION_PER_STEP = 0.2;
const HOT = 255;

const { cells, steps, frameEvery, checkpointEvery } = JSON.parse(readFileSync('heat.json', 'utf8'));

let { step, heat } = existsSync('heat.chk') ? resume() : { step: 0, heat: twoHotBodies() };
let next = new Float64Array(heat);
console.log(step === 0 ? 'heat: starts at step 0' : `heat: resumes from heat.chk, step ${step}`);

while (step < steps) {
  diffuse();
  step += 1;
  if (step % frameEvery === 0) {
    writeFileSync(`frame.${String(step).padStart(4, '0')}.pgm`, picture());
    console.log(`heat: step ${step} of ${steps}`);
  }
  if (step % checkpointEvery === 0) writeFileSync('heat.chk', checkpoint());
}
writeFileSync('final.dat', bytes(heat));

function diffuse() {
  for (let row = 1; row < cells - 1; row += 1) {
    for (let at = row * cells + 1; at < row * cells + cells - 1; at += 1) {
      const around = heat[at - 1] + heat[at + 1] + heat[at - cells] + heat[at + cells];
      next[at] = heat[at] + DIFFUSION_PER_STEP * (around - 4 * heat[at]);
    }
  }
  [heat, next] = [next, heat];
}

function twoHotBodies() {
  return Float64Array.from({ length: cells * cells }, (_, at) => {
    const x = (at % cells) / cells;
    const y = Math.floor(at / cells) / cells;
    const disc = Math.hypot(x - 0.35, y - 0.4) < 0.15;
    const bar = x > 0.6 && x < 0.85 && y > 0.6 && y < 0.7;
    return disc || bar ? HOT : 0;
  });
}

/** The step and the exact field: a resumed run continues bit for bit. */
function checkpoint() {
  return Buffer.concat([bytes(Float64Array.of(step)), bytes(heat)]);
}

function resume() {
  const saved = new Float64Array(new Uint8Array(readFileSync('heat.chk')).buffer);
  return { step: saved[0], heat: saved.slice(1) };
}

function picture() {
  return Buffer.concat([Buffer.from(`P5 ${cells} ${cells} ${HOT}\n`), Buffer.from(Uint8Array.from(heat))]);
}

function bytes(numbers) {
  return Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}
