// Small mistakes in decisions, in order and in fencing, each in one place of src/: the simulator must find every one.
// `search` must occur exactly once in the file; when the source changes, change its mutant too.
// npm run simulate -- --mutants [name] [--seconds <most for each>]
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { bundle } from './bundle.mjs';

const MUTANTS = {
  'evidence-of-a-death-is-not-seen': {
    file: 'src/model/file/evidence.ts',
    search: "if (seen.life !== 'dead' && hasDied(seen, now.processes.get(pid))) return 'doubtful';",
    replace: 'void seen;',
  },
  'what-a-death-closed-is-not-suspect': {
    file: 'src/model/file/suspect.ts',
    search: 'return endedAtMs - close.atMs < WRAPPER_DELAY_MS;',
    replace: 'return false;',
  },
  'after-sigterm-all-is-proven': {
    file: 'src/model/file/suspect.ts',
    search: 'return bySignal || endedAtMs - close.atMs < HANDLED_LIFE_MS;',
    replace: 'return false;',
  },
  'a-writer-that-was-stopped-is-believed': {
    file: 'src/model/file/suspect.ts',
    search: 'if (writersStoppedAtMs !== undefined && close.atMs >= writersStoppedAtMs) return true;',
    replace: 'void writersStoppedAtMs;',
  },
  'what-was-written-before-a-set-is-closed-before-it': {
    file: 'src/sidecar/queue/unsaved.ts',
    search: ' && close.seq < (upTo ?? 0);',
    replace: ';',
  },
  'what-a-death-has-cut-is-adopted': {
    file: 'src/sidecar/shutdown/finish.ts',
    search: 'isUnfinished.has(path) || staged.has(stateOf(path, inherited))',
    replace: 'isUnfinished.has(path)',
  },
  'a-set-is-proven-at-once': {
    file: 'src/sidecar/checkpoints/commits.ts',
    search: 'const doubted: Marks = isProven ? marks : { ...marks, unproven: true };',
    replace: 'const doubted: Marks = marks;',
  },
  'the-order-of-a-scan-is-that-of-closes': {
    file: 'src/model/checkpoint/pace.ts',
    search: 'if (isNew && (isInOrder(how) || isInPlace))',
    replace: 'if (isNew)',
  },
  'time-alone-settles-a-doubt': {
    file: 'src/sidecar/run/task-news.ts',
    search: 'if (this.#pid === undefined) return !this.#hasEnded();',
    replace: 'if (nowMs > 0) return true;',
  },
  'a-set-is-cut-within-a-clock-tick': {
    file: 'src/sidecar/checkpoints/cutting.ts',
    search: 'if (forMs > 0) return { path, forMs };',
    replace: 'if (forMs === Infinity) return { path, forMs };',
  },
  'what-is-older-replaces-an-unanswered-put': {
    file: 'src/sidecar/queue/results.ts',
    search: ' || one.closes < this.unanswered.closes(path)',
    replace: '',
  },
  'an-unanswered-put-counts-as-newer': {
    file: 'src/sidecar/queue/unsaved.ts',
    search: ', ...pushes];',
    replace: '];',
  },
  'what-a-death-closed-late-was-not-open': {
    file: 'src/sidecar/queue/unsaved.ts',
    search: 'return lastClose.since < upTo && upTo < lastClose.seq;',
    replace: 'return false;',
  },
  'a-later-rest-counts-as-the-whole': {
    file: 'src/sidecar/startup/lacking.ts',
    search: ' && !(one.open && there.attempt > attempt);',
    replace: ';',
  },
  'what-only-a-scan-saw-was-not-open': {
    file: 'src/sidecar/queue/unsaved.ts',
    search: 'const isUnknown = upTo === undefined && !isProven;',
    replace: 'const isUnknown = false;',
  },
  'promotions-under-way-are-not-waited-for': {
    file: 'src/sidecar/shutdown/result-names.ts',
    search: '  await staged.idle(parts.window.record);\n',
    replace: '',
  },
  'a-late-put-brings-a-source-back': {
    file: 'src/store/s3/copy.ts',
    search: 'const asUpload = bucket.late.mayCreate;',
    replace: 'const asUpload = false;',
  },
  'what-stands-unrecorded-is-not-looked-for': {
    file: 'src/sidecar/shutdown/earlier.ts',
    search: 'if (file !== undefined) ledger.noteFound(file);',
    replace: 'void file;',
  },
  'a-scan-proves-a-set': {
    file: 'src/model/checkpoint/cut.ts',
    search: '!provesNothing && (isLast',
    replace: '(isLast',
  },
  'a-writer-is-not-asked-for': {
    file: 'src/native/files.ts',
    search: "return lastErrno() === 'EAGAIN' ? 'writer' : 'unknown';",
    replace: "return 'none';",
  },
  'a-change-while-reading-is-not-seen': {
    file: 'src/model/file/file-state.ts',
    search: 'return a.dev === b.dev && a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs;',
    replace: 'return a.dev === b.dev && a.ino === b.ino;',
  },
  'an-overflow-is-not-told': {
    file: 'src/watch/kernel-events.ts',
    search: "return this.#options.onLost('overflow');",
    replace: 'return;',
  },
  'renames-are-not-heard': {
    file: 'src/watch/kernel-events.ts',
    search: "if ((mask & IN.movedTo) !== 0) this.#tell(path, 'rename');",
    replace: 'if ((mask & IN.movedTo) !== 0) return;',
  },
  'the-drain-is-not-waited-for': {
    file: 'src/sidecar/shutdown/finish.ts',
    search: '  await files.drained(deadline);\n',
    replace: '',
  },
  'results-of-a-death-are-not-doubted': {
    file: 'src/sidecar/shutdown/result-names.ts',
    search: '(path, close) => isUnfinished.has(path) || isSuspect(close, ending)',
    replace: '(path) => isUnfinished.has(path)',
  },
  'left-files-are-not-counted': {
    file: 'src/sidecar/shutdown/finish.ts',
    search: '    ...(await leftFiles(parts, postponed)),\n',
    replace: '',
  },
  'the-last-record-is-not-waited-for': {
    file: 'src/sidecar/shutdown/finish.ts',
    search: 'let status = recorded || verdict.status !== EXIT.ok ? verdict.status : EXIT.notStored;',
    replace: 'let status = verdict.status;',
  },
  'a-replacement-does-not-scan': {
    file: 'src/sidecar/startup/baseline-scan.ts',
    search: "files.closed(path, 'scan', context.now(), { fingerprint: facts, evidence });",
    replace: 'void [path, facts, evidence];',
  },
  'a-replacement-scans-before-it-listens': {
    file: 'src/sidecar/startup/baseline-scan.ts',
    search: '    listen();\n    let count = 0;',
    replace: '    setTimeout(listen, 5000);\n    let count = 0;',
  },
  'nobody-is-fenced': {
    file: 'src/records/claim.ts',
    search: 'if (isClaim(next)) this.#fenced = new FencedError(`attempt ${attempt + 1}`);',
    replace: 'if (isClaim(next)) void next;',
  },
  'a-lost-answer-is-a-success': {
    file: 'src/store/s3/outcome.ts',
    search: "if (there === undefined || push === undefined || there.meta['push'] !== push) return undefined;",
    replace: 'if (there === undefined) return undefined;',
  },
  'a-server-that-fails-has-stored': {
    file: 'src/store/s3/failure.ts',
    search: "return { kind: 'transient', why: 'the server failed' };",
    replace: "return { kind: 'refused', why: 'the server failed' };",
  },
  'a-directory-put-is-not-atomic': {
    file: 'src/store/file/objects.ts',
    search: 'return inMadeFolder(layout, { folder: layout.tmp, name: randomUUID() }, (temporary) =>',
    replace:
      "return inMadeFolder(layout, options.precondition?.kind === 'absent' ? { folder: layout.tmp, name: randomUUID() } : layout.spotOf(key), (temporary) =>",
  },
  'a-put-is-left-out-now-and-then': {
    file: 'src/upload/send.ts',
    search:
      'const outcome = await sender.store.put(key, limited, {\n      meta: metaOf(sender, push, body.facts, body.md5),',
    replace:
      "const outcome = sender.newId().endsWith('0') ? { kind: 'stored', tag: '' } : await sender.store.put(key, limited, {\n      meta: metaOf(sender, push, body.facts, body.md5),",
  },
  'a-doubt-is-not-waited-for': {
    file: 'src/sidecar/queue/staged.ts',
    search: 'return provenFromMs(close, this.#signalledAtMs);',
    replace: 'return Math.min(provenFromMs(close, this.#signalledAtMs), (close?.atMs ?? 0) + 200);',
  },
  'a-promotion-looks-at-nothing': {
    file: 'src/upload/publish-result.ts',
    search: 'const precondition = await preconditionOf({ key, md5: staged.md5 });',
    replace: "const precondition = { kind: 'any' };",
  },
  'an-older-staged-object-is-promoted': {
    file: 'src/sidecar/queue/results.ts',
    search: '!this.staged.has(path, one) || ',
    replace: '',
  },
  'every-server-honours-conditions': {
    file: 'src/store/s3/server.ts',
    search: "return server.conditions !== 'unread';",
    replace: 'return true;',
  },
  'a-staged-object-goes-that-was-not-copied': {
    file: 'src/store/s3/copy.ts',
    search: "    if (outcome.kind !== 'stored') return outcome;\n",
    replace: '',
  },
  'a-name-is-given-past-the-fence': {
    file: 'src/upload/publish-result.ts',
    search: 'await publisher.passFence(true, signal);',
    replace: '',
  },
  'a-lost-order-comes-back-at-once': {
    file: 'src/model/checkpoint/rounds.ts',
    search: 'const FIRM_AFTER_ROUNDS = 20;',
    replace: 'const FIRM_AFTER_ROUNDS = 1;',
  },
  'what-a-set-is-ahead-of-is-not-named': {
    file: 'src/model/checkpoint/lacking.ts',
    search: 'return behind.filter(({ path }) => !captured.has(path));',
    replace: 'return behind.filter(({ path }) => captured.has(path));',
  },
  'a-flush-does-not-hear-the-last-close': {
    file: 'src/sidecar/control/flush.ts',
    search: '  watcher.drainNow();\n  // A scan may find',
    replace: '  // A scan may find',
  },
  'the-oldest-set-is-restored': {
    file: 'src/model/checkpoint/restore-order.ts',
    search: 'rank(a) - rank(b) || newestFirst(a, b)',
    replace: 'rank(a) - rank(b) || newestFirst(b, a)',
  },
  'what-a-resume-was-ahead-of-is-deleted': {
    file: 'src/sidecar/shutdown/earlier.ts',
    search: 'return size > 0 && lacking.some',
    replace: 'return size < 0 && lacking.some',
  },
  'the-sidecar-is-not-replaced': {
    file: 'src/launch/sidecar-process.ts',
    search: 'this.#restart = setTimeout(() => this.start(events), waitMs);',
    replace: '',
  },
  'a-replacement-claims-anew': {
    file: 'src/launch/sidecar-process.ts',
    search: 'attempt: this.#attempt,',
    replace: 'attempt: undefined,',
  },
};

/** Runs the same seeds with and without the mistake, until one fails only with it. */
async function seekOne(name, seconds) {
  const dir = path.resolve('node_modules/.cache/capture-simulate');
  mkdirSync(dir, { recursive: true });
  const requireHere = createRequire(import.meta.url);
  const [plainFile, mutantFile] = ['plain', name].map((one) => path.join(dir, `${one}-${process.pid}.cjs`));
  await Promise.all([bundle(plainFile), bundle(mutantFile, MUTANTS[name])]);
  const plain = requireHere(plainFile);
  const mutant = requireHere(mutantFile);
  for (const file of [plainFile, mutantFile]) rmSync(file);
  await plain.warmUp();
  await mutant.warmUp();
  const untilS = cpuS() + seconds;
  for (let seed = 1; cpuS() < untilS; seed += 1) {
    const rule = await mutant.ruleBrokenBy(seed);
    if (rule === undefined || (await plain.ruleBrokenBy(seed)) !== undefined) continue;
    return { seed, rule };
  }
  return undefined;
}

/** CPU time, so that other work on the machine does not count. */
function cpuS() {
  return process.cpuUsage().user / 1e6;
}

/** Sources change; a mutant must change with its source. */
function checkTexts() {
  for (const [name, { file, search }] of Object.entries(MUTANTS))
    if (readFileSync(file, 'utf8').split(search).length !== 2)
      throw new Error(`${file} must contain the text of ${name} once: mend the mutant`);
}

export async function seekMutants(only, seconds) {
  checkTexts();
  const names = Object.keys(MUTANTS).filter(
    (name) => only?.split(',').some((part) => name.includes(part)) ?? true,
  );
  // Each bundle listens for uncaught errors.
  process.setMaxListeners(0);
  // A stack trace costs more than a system call.
  Error.stackTraceLimit = 0;
  let found = 0;
  for (const name of names) {
    const beganS = cpuS();
    const at = await seekOne(name, seconds);
    const took = `${(cpuS() - beganS).toFixed(0)} s`;
    if (at !== undefined) found += 1;
    console.log(
      at === undefined ? `NOT FOUND in ${took}: ${name}` : `${name}: seed ${at.seed} (${at.rule}), ${took}`,
    );
  }
  console.log(`${found} of ${names.length} mutants found`);
  return found === names.length;
}
