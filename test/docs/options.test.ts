import { expect, it } from 'vitest';
import { optionsPage } from '../../scripts/docs/options.mjs';
import { textOf } from './pages.js';

it('docs/options.md matches the doc comments; `npm run docs` writes it', { timeout: 60_000 }, async () => {
  const page = await optionsPage();
  expect(page).toContain('| `ifAvailable`');
  expect(textOf('docs/options.md')).toBe(page);
});
