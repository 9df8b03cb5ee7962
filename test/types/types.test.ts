import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, it } from 'vitest';
import { runNode } from '../support/programs.js';

it('the public types say what the contract says, and refuse what it refuses', async () => {
  const at = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
  const tsc = at('../../node_modules/typescript/bin/tsc');
  // A busy machine may take long.
  const { code, stdout } = await runNode([tsc, '--noEmit', '-p', at('tsconfig.json')], 55_000);
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
});

it('the compiler says that a lock with permits has no shared mode', () => {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  const file = path.join(folder, 'not-a-file.ts');
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(path.join(folder, 'tsconfig.json'), (name) => ts.sys.readFile(name)).config,
    ts.sys,
    folder,
  );
  const calls = [
    `void lock.acquire('key', { mode: 'shared' });`,
    `lock.tryAcquire('key', { mode: 'shared' });`,
    `lock.withLockSync('key', { mode: 'shared' }, () => 5);`,
  ];
  const text = `import { KeyedLock } from 'stripelock'; const lock = new KeyedLock({ limit: 4 }); ${calls.join('')}`;
  const host = ts.createCompilerHost(options);
  const getSourceFile = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, text, ts.ScriptTarget.ESNext) : getSourceFile(name, ...rest);
  const program = ts.createProgram([file], { ...options, noEmit: true }, host);
  const messages = ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
  expect(messages).toEqual(calls.map(() => expect.stringContaining('PermitsHaveNoSharedMode') as string));
});
