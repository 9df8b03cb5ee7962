// A program in TypeScript. Its lines differ from the lines of the JavaScript that `typescript` makes of it.

import ts from 'typescript';

const LONG_TYPE = `
/** Compiles to nothing. */
interface Nothing {
  readonly at: number;
}
`.repeat(5);

/** Each acquisition names the line that it is on: \`%\` becomes that. */
const PROGRAM = `import { StripedLock } from 'stripelock';
${LONG_TYPE}
type Expect = (lock: StripedLock, place: RegExp, how: string) => void;

export async function acquireAll(expectPlace: Expect): Promise<void> {
  const lock: StripedLock = new StripedLock({ trace: true });
  const sync = lock.acquireSync<string>('a'); const first = /traced\\.ts:%/;
  expectPlace(lock, first, 'acquireSync');
  sync.release();
  const attempt = lock.tryAcquire<string>('a'); const second = /traced\\.ts:%/;
  expectPlace(lock, second, 'tryAcquire');
  attempt!.release();
  const awaited = await lock.acquire<string>('a'); const third = /traced\\.ts:%/;
  expectPlace(lock, third, 'acquire');
  awaited.release();
  lock.withLockSync('a', () => expectPlace(lock, /traced\\.ts:%/, 'withLockSync'));
  await lock.withLock('a', () => expectPlace(lock, /traced\\.ts:%/, 'withLock'));
}
`;

/** The program in TypeScript, and what `typescript` makes of it, with its source map. */
export function tracedProgram() {
  const source = PROGRAM.split('\n')
    .map((line, index) => line.replace('%', `${index + 1}:`))
    .join('\n');
  const { outputText } = ts.transpileModule(source, {
    fileName: 'traced.ts',
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      inlineSourceMap: true,
      removeComments: true,
    },
  });
  return { 'traced.ts': source, 'traced.js': outputText };
}
