import { rmSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attempt } from '../scripts/test-hosts/attempt.mjs';
import { checks } from '../scripts/test-hosts/checks.mjs';
import { optionsOfNode } from '../scripts/test-hosts/hosts.mjs';
import { limitations } from '../scripts/test-hosts/limitations.mjs';
import { makeProject } from '../scripts/test-hosts/project.mjs';
import { expectedTable, surprise } from '../scripts/test-hosts/table.mjs';

const root = path.resolve(import.meta.dirname, '..');
/** Has a separate test on this host, which waits for seconds. */
const elsewhere = new Set(['memoryContract', 'nodeSqlite']);

describe('the checks of `npm run test:hosts`, on this host', () => {
  const host = `Node ${process.versions.node.split('.')[0] ?? ''}`;
  let project: ReturnType<typeof makeProject>;

  beforeAll(() => {
    project = makeProject();
  });

  afterAll(() => rmSync(project.project, { recursive: true, force: true }));

  it.each(
    checks
      .filter(({ name }) => !elsewhere.has(name))
      .map(({ name, title, nodeOptions }) => ({ name, title, nodeOptions })),
  )('$title', async ({ name, nodeOptions = [] }) => {
    const failure = await attempt(
      [process.execPath, ...optionsOfNode(process.versions.node, nodeOptions)],
      project.main,
      name,
    );
    expect(surprise(host, name, failure)).toBeUndefined();
  });

  it('a check that does not exist fails', async () => {
    expect(await attempt([process.execPath], project.main, 'toString')).toMatch(/no such check/);
  });
});

describe('what a host is known not to do', () => {
  const [known] = limitations;

  it('is expected if it fails as it is known to', () => {
    expect(surprise('Deno 2.9', 'terminatedBlocked', 'a terminated thread still waits')).toBeUndefined();
  });

  it('is wrong if it works, and if it fails in another way', () => {
    expect(surprise('Deno 2.9', 'terminatedBlocked', undefined)).toMatch(/works, although/);
    expect(surprise('Deno 2.9', 'terminatedBlocked', 'ended with SIGSEGV')).toMatch(/another way.*SIGSEGV/);
    expect(surprise('Deno 2.9', 'modules', 'no engine')).toBe('no engine');
  });

  it('names a check and a host that exist', () => {
    expect(known).toBeDefined();
    for (const { check, host } of limitations) {
      expect(checks.map(({ name }) => name)).toContain(check);
      expect(expectedTable().split('\n')[0]).toContain(host);
    }
  });

  it('stands in the docs, with everything else that was found', () => {
    const docs = readFileSync(path.join(root, 'docs', 'hosts-and-bundlers.md'), 'utf8');
    const squeezed = (text: string): string =>
      text
        .replaceAll(/ *\| */g, '|')
        .replaceAll(/-{3,}/g, '---')
        .replaceAll(/\s+/g, ' ');
    expect(squeezed(docs)).toContain(squeezed(expectedTable()).trim());
  });
});
