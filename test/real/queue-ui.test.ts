// The pages of `capture queue ui` in a real Chromium, about a queue in a real Redis: what people see of submissions, of what
// failed and why; at any size, in the dark, without a request to anybody else, and without a button that changes something.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Run, until } from '../e2e/support.ts';
import { CHROMIUM, type Chromium, type Look, type Page, startChromium } from './chromium.ts';
import { type Lab, openLab } from './lab.ts';

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
const LOOKS: readonly (readonly [string, Look])[] = [
  ['a desktop', DESKTOP],
  ['a desktop in the dark', { ...DESKTOP, dark: true }],
  ['a phone', PHONE],
  ['a phone in the dark', { ...PHONE, dark: true }],
];

let lab: Lab;
let ui: Run;
let chromium: Chromium;
let address: string;

const has = (text: string): string => `document.body.innerText.includes(${JSON.stringify(text)})`;
/** Below the address, which ends in `/arrays`. */
const at = (where: string): string => new URL(where, address).href;

/** What asks for more than this machine, or is no page at all. */
const foreign = ({ asked }: Page): readonly string[] =>
  asked.filter((url) => !url.startsWith('data:') && new URL(url).origin !== new URL(address).origin);

describe.skipIf(CHROMIUM === undefined)('capture queue ui in Chromium', () => {
  beforeAll(async () => {
    lab = await openLab();
    const fails = [
      'sh',
      '-c',
      'echo {index} >r; echo first; echo "no mesh for {index}" >&2; exit $(({index} % 2))',
    ];
    await lab.submit('melt', ['--array', '0-3', '-r', 'r'], fails);
    await lab.submit('mesh', ['--array', '0-9', '-r', 'r', '--needs', 'gpu'], ['sh', '-c', 'echo >r']);
    await lab.submit('sweep', ['--array', '0-4999', '-r', 'r', '--after', 'melt'], ['sh', '-c', 'echo >r']);
    const machine = lab.startMachine();
    await lab.untilOne('melt', ({ state }) => state === 'failed');
    await machine.shutDown();
    ui = lab.place.capture(['queue', 'ui', ...lab.queue]);
    await until(() => ui.stdout().includes('/arrays'), 'the address is printed');
    address = ui.stdout().trim();
    chromium = await startChromium();
  }, 180_000);
  afterAll(async () => {
    await chromium.close();
    ui.child.kill('SIGKILL');
    await lab.close();
  });

  it.each(LOOKS)('lists all submissions on %s', async (_, look) => {
    const page = await chromium.open(at('arrays'), look);
    for (const text of [
      '5,000',
      'after melt',
      'no worker has gpu: mesh cannot begin',
      'capture queue retry melt',
    ])
      await page.until(has(text));
    // A wide table scrolls alone; on a phone, nothing is wider than the screen.
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width);
    if (look.width === PHONE.width)
      expect(
        await page.evaluate(
          "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.scroll'))",
        ),
      ).toBe(0);
    expect({ said: page.said, foreign: foreign(page) }).toEqual({ said: [], foreign: [] });
  });

  it.each(LOOKS)('shows on %s what failed, and why, in lines', async (_, look) => {
    const page = await chromium.open(at('board/queue/melt?status=failed'), look);
    await page.until(has('no mesh for 3'));
    expect({ said: page.said, foreign: foreign(page) }).toEqual({ said: [], foreign: [] });
    expect(await page.evaluate('document.body.innerText')).toMatch(/\nfirst\nno mesh for 3\n/);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width);
  });

  it('offers nothing that changes a job or a queue', async () => {
    const page = await chromium.open(at('board/queue/melt?status=failed'), DESKTOP);
    await page.until(has('no mesh for 3'));
    expect(await page.evaluate('document.body.innerText')).not.toMatch(/retry all|clean all/i);
    const asked = `fetch('${at('board/api/queues')}').then((answer) => answer.json())`;
    const { queues } = await page.evaluate<{ queues: readonly object[] }>(asked);
    expect(queues).toMatchObject(
      Array.from({ length: 3 }, () => ({ readOnlyMode: true, allowRetries: false })),
    );
  });

  it('leads from a job to the report of its index', async () => {
    const page = await chromium.open(at('board/queue/melt/i3?status=failed'), DESKTOP);
    await page.until(has('no mesh for 3'));
    const link = await page.evaluate<string>(
      "[...document.querySelectorAll('a')].find((one) => one.textContent === 'report').href",
    );
    expect(link).toBe(at('report/melt#index=3'));
    const report = await chromium.open(link, DESKTOP);
    await report.until("document.querySelector('#one').open");
    expect(await report.evaluate("document.querySelector('#one-title').textContent")).toBe(
      'Index 3: failed 1',
    );
    expect({ said: report.said, foreign: foreign(report) }).toEqual({ said: [], foreign: [] });
  });

  it('shows a submission that comes, and no longer one that is gone', async () => {
    const page = await chromium.open(at('board'), DESKTOP);
    await page.until(has('mesh'));
    await lab.submit('late', ['--array', '0-1', '-r', 'r', '--needs', 'gpu'], ['sh', '-c', 'echo >r']);
    await lab.command('cancel', 'mesh');
    await lab.command('cancel', 'mesh');
    const again = await chromium.open(at('board'), DESKTOP);
    await again.until(has('late'));
    expect(await again.evaluate(has('mesh'))).toBe(false);
  });

  it('shows nothing to a browser that has not the token', async () => {
    const other = await startChromium();
    try {
      const page = await other.open(`${new URL(address).origin}/board/queue/melt`, DESKTOP);
      expect(await page.evaluate('document.body.innerText')).toBe(
        'use the address that capture queue ui has printed',
      );
    } finally {
      await other.close();
    }
  });

  it('ends with Ctrl-C, also while a browser holds its connections', async () => {
    await chromium.open(at('board'), DESKTOP);
    ui.child.kill('SIGINT');
    expect(await ui.status, ui.stderr()).toBe(130);
  });
});
