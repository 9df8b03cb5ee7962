import type { Engine, LockTable } from './engine.js';
export class JavaScriptEngine implements Engine {
  readonly name = 'javascript';
  create(): SharedArrayBuffer { throw new Error('x'); }
  open(): LockTable { throw new Error('x'); }
}
