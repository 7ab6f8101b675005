// The page of `capture report` in a real Chromium: it opens at any size without an error and without a network, and
// can be worked with keys, with links and on a phone. Skipped where there is no Chromium.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fillArray } from '../array/report/array-of.ts';
import { run } from '../array/ran.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../array/store-of-records.ts';
import { CHROMIUM, type Chromium, type Page, startChromium } from './chromium.ts';

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };

let dir: string;
let chromium: Chromium;

/** The URL of the page about what `fill` stores. */
async function reportOn(fill: (store: StoreOfRecords) => void, ...args: readonly string[]): Promise<string> {
  const stored = await openStoreOfRecords('a directory', '/dev/shm');
  const out = path.join(fs.mkdtempSync(path.join(dir, 'page-')), 'report.html');
  fill(stored);
  const { status, stderr } = await run('report', stored, '-o', out, ...args);
  await stored.close();
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('wrote') as string });
  return pathToFileURL(out).href;
}

/** The page, once it has unpacked its data. */
async function opened(...of: Parameters<Chromium['open']>): Promise<Page> {
  const page = await chromium.open(...of);
  await page.until("document.querySelector('#title').textContent !== ''");
  return page;
}

const rows = (page: Page): Promise<number> =>
  page.evaluate("document.querySelectorAll('#table tbody tr').length");
/** How far the tables reach beyond their boxes, px. */
const BEYOND = `Math.max(...[...document.querySelectorAll('.scroll')].map(
  ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`;
const isOpen = "document.querySelector('#one').open";
const title = (page: Page): Promise<string> =>
  page.evaluate("document.querySelector('#one-title').textContent");
const hash = (page: Page): Promise<string> => page.evaluate('location.hash');
const text = (page: Page, selector: string): Promise<string> =>
  page.evaluate(`document.querySelector(${JSON.stringify(selector)}).textContent`);

describe.skipIf(CHROMIUM === undefined)('the page of a report in Chromium', () => {
  beforeAll(async () => {
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-report-'));
    chromium = await startChromium();
  });
  afterAll(async () => {
    await chromium.close();
    fs.rmSync(dir, { recursive: true, force: true });
  });

  describe.each([10, 1000, 10_000])('of %i indices', (indices) => {
    let url: string;
    beforeAll(async () => {
      url = await reportOn(
        (store) => fillArray(store, { indices, nowMs: Date.now() }),
        '--array',
        `0-${indices - 1}`,
      );
    });

    it.each([
      ['a desktop', DESKTOP],
      ['a desktop in the dark', { ...DESKTOP, dark: true }],
      ['a phone', PHONE],
      ['a phone in the dark', { ...PHONE, dark: true }],
    ])('opens on %s with all that it shows, and without an error or a request', async (_, look) => {
      const page = await opened(url, look);
      expect(await rows(page)).toBe(Math.min(indices, 50));
      expect(await text(page, '#title')).toBe(`t: ${indices.toLocaleString('en-US')} indices`);
      expect(await page.evaluate("document.querySelectorAll('#timeline .uplot canvas').length")).toBe(2);
      // Wide tables scroll alone; on a phone they are not wide.
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width);
      if (look.width === PHONE.width) expect(await page.evaluate(BEYOND)).toBe(0);
      const [paper, ink] = await page.evaluate<[string, string]>(
        '(({ backgroundColor, color }) => [backgroundColor, color])(getComputedStyle(document.body))',
      );
      expect(paper === 'rgb(255, 255, 255)').toBe(!('dark' in look));
      expect(ink).not.toBe(paper);
      expect(page.said).toEqual([]);
      expect(page.asked).toEqual([url]);
    });

    it('draws each index in the colour of its state', async () => {
      const page = await opened(url, DESKTOP);
      const colours = await page.evaluate<string[]>(`(() => {
        const { width, height } = document.querySelector('#map');
        const { data } = document.querySelector('#map').getContext('2d').getImageData(0, 0, width, height);
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
        return [...seen];
      })()`);
      // done, failed and missing
      for (const colour of ['154,208,165', '194,47,47', '180,188,198']) expect(colours).toContain(colour);
    });

    it('is worked with the keyboard alone: map, index, and back', async () => {
      const page = await opened(url, DESKTOP);
      await page.evaluate("document.querySelector('#map').focus()");
      await page.press('ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft');
      expect(await text(page, '#here')).toMatch(/^index 2: \w+, \d attempts?, ran /);
      await page.press('Enter');
      await page.until(isOpen);
      expect(await title(page)).toMatch(/^Index 2: /);
      expect(await hash(page)).toBe('#index=2');
      await page.press('Escape');
      await page.until(`!${isOpen} && location.hash === ''`);
      expect(await page.evaluate("document.activeElement === document.querySelector('#map')")).toBe(true);
      await page.press('End', 'Home', 'ArrowRight');
      expect(await text(page, '#here')).toMatch(/^index 1: /);
      expect(page.said).toEqual([]);
    });

    it('opens the index of a link, with its attempts and what it has used', async () => {
      const page = await opened(`${url}#index=7&state=failed`, DESKTOP);
      await page.until(isOpen);
      expect(await title(page)).toBe('Index 7: failed 137');
      expect(await text(page, '#one-body table')).toContain('the task was ended by SIGKILL');
      // All of it is seen without scrolling.
      const beyond =
        "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('#one .scroll'))";
      expect(await page.evaluate(beyond)).toBe(0);
      expect(await page.evaluate("document.querySelectorAll('#one .uplot canvas').length")).toBe(4);
      expect(await rows(page)).toBe(Math.min(50, Math.ceil((indices - 7) / 100)));
      expect(page.said).toEqual([]);
    });

    it('filters as one types, and the URL leads back to it', async () => {
      const page = await opened(url, DESKTOP);
      await page.evaluate("document.querySelector('#query').focus()");
      await page.press('3', ',', '5', '-', '7');
      await page.until("document.querySelectorAll('#table tbody tr').length === 4");
      expect(await text(page, '#shown')).toBe(`4 of ${indices.toLocaleString('en-US')} shown`);
      const again = await opened(`${url}${await hash(page)}`, DESKTOP);
      expect(await rows(again)).toBe(4);
      expect(await again.evaluate("document.querySelector('#query').value")).toBe('3,5-7');
    });
  });

  it('orders its table by what is asked for, up and down', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 100, nowMs: Date.now() }));
    const page = await opened(url, DESKTOP);
    const column = (at: number): Promise<string[]> =>
      page.evaluate(
        `[...document.querySelectorAll('#table tbody tr')].map((row) => row.cells[${at}].textContent)`,
      );
    const clickOn = (title: string): Promise<void> =>
      page.evaluate(`document.querySelector('#table [data-column="${title}"]').click()`);
    expect((await column(1)).slice(0, 3)).toEqual(['failed 137', 'stale', 'done']);
    await clickOn('index');
    expect((await column(0)).slice(0, 3)).toEqual(['0', '1', '2']);
    await clickOn('index');
    expect((await column(0)).slice(0, 3)).toEqual(['98', '97', '96']);
    await clickOn('attempts');
    expect((await column(2)).slice(0, 2)).toEqual(['3', '3']);
    expect(await page.evaluate("document.querySelector('#table [aria-sort]').ariaSort")).toBe('descending');
    await page.evaluate("document.querySelector('#next-page').click()");
    expect(await text(page, '#page')).toBe('page 2 of 2');
    expect(await rows(page)).toBe(49);
  });

  it('shows the indices of a reason when it is clicked, each with its attempts in time', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 1000, nowMs: Date.now() }));
    const page = await opened(url, DESKTOP);
    expect(await page.evaluate("document.querySelectorAll('.lane').length")).toBe(0);
    await page.evaluate("document.querySelectorAll('#why td button')[1].click()");
    expect(await rows(page)).toBe(5);
    const lanes = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.lane')].map((one) => one.ariaLabel)",
    );
    expect(lanes).toHaveLength(5);
    for (const lane of lanes) expect(lane).toMatch(/^failed 137; (attempt \d from .*)+, failed$/);
    expect(page.said).toEqual([]);
  });

  it('draws an attempt as kept up to its newest checkpoint, as hatched up to its last sign of life, then nothing', async () => {
    const nowMs = Date.now();
    const iso = (minutesAgo: number): string => new Date(nowMs - minutesAgo * 60_000).toISOString();
    const generation = { attempt: 1, generation: 1, at: iso(70), members: [], companions: [] };
    const url = await reportOn((store) => {
      const given = { index: '0', attempt: 1, startedAt: iso(100), generations: [generation] };
      store.record({ ...given, seq: 5, kind: 'checkpoint', at: iso(50) } as never, nowMs - 50 * 60_000);
    });
    const page = await opened(url, DESKTOP);
    expect(await text(page, '#table tbody tr')).toContain(iso(50).slice(0, 16).replace('T', ' '));
    const bars = await page.evaluate<readonly (readonly [string, number, number])[]>(
      `[...document.querySelectorAll('.lane i')].map(({ className, style }) =>
        [className, Math.round(parseFloat(style.left)), Math.round(parseFloat(style.width.replace('max(2px, ', '')))])`,
    );
    expect(bars).toEqual([
      ['solid', 0, 30],
      ['hatched', 30, 20],
    ]);
    // Without a cursor, a legend has values, too.
    const legends = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.u-legend .u-value')].map((one) => one.textContent)",
    );
    expect(legends.length).toBeGreaterThan(0);
    for (const legend of legends) expect(legend).toMatch(/^(highest sample \d|20\S+ \S+Z to 20)/);
  });

  it('names each mark of the attempts in a legend, and counts them in whole numbers', async () => {
    const nowMs = Date.now();
    const iso = (minutesAgo: number): string => new Date(nowMs - minutesAgo * 60_000).toISOString();
    const url = await reportOn((store) => {
      const first = { index: '0', attempt: 1, startedAt: iso(100) };
      store.record({ ...first, seq: 0, kind: 'started', at: iso(100) });
      const second = { index: '0', attempt: 2, startedAt: iso(90) };
      store.record({ ...second, seq: 3, kind: 'done', at: iso(50) });
    });
    const page = await opened(url, DESKTOP);
    const colours = (of: string): Promise<string[]> =>
      page.evaluate(
        `[...document.querySelectorAll('${of}')].map(({ style }) => style.getPropertyValue('--colour')).toSorted()`,
      );
    expect(await colours('.lane i')).toEqual(['var(--kept)', 'var(--stale)']);
    expect(await colours('#timeline .legend .dot')).toEqual(await colours('.lane i'));
    // What the charts write when they are drawn again.
    await page.evaluate(`(() => {
      window.written = [];
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        written.push(text);
        fillText.call(this, text, ...where);
      };
      const query = document.querySelector('#query');
      query.value = 'done';
      query.dispatchEvent(new Event('input'));
    })()`);
    await page.until("written.includes('0')");
    const numbers = await page.evaluate<string[]>('written.filter((text) => /^[\\d.,]+$/.test(text))');
    expect(numbers).toContain('1');
    expect(numbers.filter((text) => text.includes('.'))).toEqual([]);
  });

  it('draws no charts of what was sampled once, and says so', async () => {
    const url = await reportOn((store) => {
      const at = '2026-11-22T12:00:00.000Z';
      const line = (samples: number): object => ({
        unit: 1,
        mean: [7, 8].slice(0, samples),
        max: [7, 8].slice(0, samples),
      });
      for (const [index, samples] of [
        ['0', 1],
        ['1', 2],
      ] as const) {
        const series = { taskMemory: line(samples), taskCpu: line(samples) };
        const resources = { capture: { cpuS: 1, peakMemoryBytes: 1 }, from: at, stepS: 10, series };
        store.record({ index, attempt: 1, seq: 3, kind: 'done', startedAt: at, resources } as never);
      }
    });
    const charts = async (index: string): Promise<readonly [number, boolean]> => {
      const page = await opened(`${url}#index=${index}`, PHONE);
      await page.until(isOpen);
      expect(await page.evaluate(BEYOND)).toBe(0);
      const drawn = await page.evaluate<number>("document.querySelectorAll('#one .uplot canvas').length");
      return [drawn, (await text(page, '#one-body')).includes('There are no charts')];
    };
    expect(await charts('0')).toEqual([0, true]);
    expect(await charts('1')).toEqual([2, false]);
  });

  it('goes back to what was shown before, as any page does', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 10, nowMs: Date.now() }));
    const page = await opened(`${url}#q=3-7`, DESKTOP);
    await page.evaluate("document.querySelector('#table a').click()");
    await page.until(isOpen);
    expect(await hash(page)).toBe('#index=7&q=3-7');
    await page.evaluate('history.back()');
    await page.until(`!${isOpen}`);
    expect(await hash(page)).toBe('#q=3-7');
    expect(await rows(page)).toBe(5);
  });

  it('opens the cell that is clicked', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 10, nowMs: Date.now() }));
    const page = await opened(url, DESKTOP);
    const { left, top } = await page.evaluate<{ left: number; top: number }>(
      "document.querySelector('#map').getBoundingClientRect().toJSON()",
    );
    await page.click(left + 5 * 34 + 10, top + 10);
    await page.until(isOpen);
    expect(await title(page)).toBe('Index 5: done');
  });

  it('tells a screen reader what pictures show, and has a table behind each', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 10, nowMs: Date.now() }));
    const page = await opened(`${url}#index=1`, DESKTOP);
    await page.until(isOpen);
    const labels = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.chart > [role=img]')].map((one) => one.ariaLabel)",
    );
    expect(labels).toHaveLength(6);
    for (const label of labels)
      expect(label).toMatch(/^.+, from 20\S+ \S+Z to 20\S+ \S+Z: .* highest sample \d/);
    await page.evaluate("for (const one of document.querySelectorAll('.chart details')) one.open = true");
    const behind = "[...document.querySelectorAll('.chart details')]";
    await page.until(`${behind}.every((one) => one.querySelector('table') !== null)`);
    const tables = await page.evaluate<number[]>(
      `${behind}.map((one) => one.querySelectorAll('tbody tr').length)`,
    );
    expect(tables).toHaveLength(6);
    for (const count of tables) expect(count).toBeGreaterThan(1);
    // Each control has a name.
    const unnamed =
      await page.evaluate<number>(`[...document.querySelectorAll('button, input, select')].filter((one) =>
      (one.ariaLabel ?? '') + one.textContent.trim() + (one.labels?.[0]?.textContent ?? '') === '').length`);
    expect(unnamed).toBe(0);
  });

  it('shows hostile names as text', async () => {
    const hostile = '</script><img src=x onerror=document.title="broken">';
    const url = await reportOn((store) => {
      const left = [{ path: hostile, why: hostile }];
      const given = { index: '0', attempt: 1, seq: 3, host: hostile, left, status: 1 } as const;
      store.record({ ...given, kind: 'failed', end: { status: 1, reason: hostile } });
    });
    const page = await opened(`${url}#index=0`, DESKTOP);
    await page.until(isOpen);
    expect(await text(page, '#one-body')).toContain(hostile);
    expect(await page.evaluate('document.images.length + "," + document.title')).toBe(
      '0,t: report of capture',
    );
    expect(page.said).toEqual([]);
  });

  it('reaches no network, even if something in it tried', async () => {
    const url = await reportOn((store) => fillArray(store, { indices: 10, nowMs: Date.now() }));
    const page = await opened(url, DESKTOP);
    const tried = await page.evaluate<string[]>(`Promise.all([
      fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused'),
      new Promise((resolve) => {
        document.addEventListener('securitypolicyviolation', ({ violatedDirective }) => resolve(violatedDirective));
        document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }));
      }),
    ])`);
    expect(tried).toEqual(['refused', expect.stringMatching(/^(img|connect)-src/)]);
    expect(page.said.join()).toContain('Content Security Policy');
  });
});
