// Before each test file: its process has the file's name, which ps(1) and `test/hung-files.ts` show.
import path from 'node:path';
import { expect } from 'vitest';

process.title = `test-file: ${path.relative(process.cwd(), expect.getState().testPath ?? '')}`;
