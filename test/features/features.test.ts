import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { profileContention, type ContentionProfiler } from 'stripelock/profile';
import { root, textOf } from '../docs/pages.js';
import { reportMissing } from '../support/requirements.js';
import { features } from './checks.js';
import { columns, openReach, type Column } from './reaches.js';

// docs/features.md has the table of what these checks find. `STRIPELOCK_WRITE=1 npx vitest run test/features` writes it.

const PAGE = 'docs/features.md';
const [BEGIN, END] = ['<!-- prettier-ignore -->\n', '\n## '] as const;
const writes = process.env['STRIPELOCK_WRITE'] === '1';

/** The reasons of a column, in the order of the features; undefined where a feature works. */
type Reasons = readonly (string | undefined)[];

/** The table in Markdown with its notes. All columns must have been checked. */
function tableOf(found: ReadonlyMap<string, Reasons>): string {
  const cells = columns.map(({ title }) => found.get(title)!);
  const notes = [...new Set(features.flatMap((_, row) => cells.flatMap((column) => column[row] ?? [])))];
  const cellOf = (reason: string | undefined): string =>
    reason === undefined ? 'yes' : `– <sup>${notes.indexOf(reason) + 1}</sup>`;
  const rows = [
    ['', ...columns.map(({ title }) => title)],
    ['-', ...columns.map(() => '-')],
    ...features.map(({ title }, row) => [title, ...cells.map((column) => cellOf(column[row]))]),
  ];
  const table = rows.map((row) => `| ${row.join(' | ')} |`).join('\n');
  return `${table}\n\n${notes.map((note, index) => `${index + 1}. ${note}`).join('\n')}\n`;
}

/** The reasons that the page has for a column. */
function documented(title: string): Reasons {
  const [table, notes] = textOf(PAGE).split(BEGIN)[1]!.split(END)[0]!.trim().split('\n\n');
  const [head, , ...rows] = table!.split('\n').map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  const place = head!.indexOf(title);
  expect(rows.map(([feature]) => feature)).toEqual(features.map((feature) => feature.title));
  return rows.map((row) => {
    if (row[place] === 'yes') return undefined;
    const [, number] = /^– <sup>(\d+)<\/sup>$/.exec(row[place]!)!;
    return notes!.split('\n')[Number(number) - 1]!.replace(/^\d+\. /, '');
  });
}

async function check(column: Column, profiler: ContentionProfiler): Promise<Reasons> {
  const reasons: (string | undefined)[] = [];
  const reach = await openReach(column);
  try {
    for (const feature of features) {
      try {
        reasons.push(await feature.check(reach, profiler));
      } catch (error) {
        throw new Error(`${column.title}: ${feature.title}`, { cause: error });
      }
    }
  } finally {
    await reach.close();
  }
  return reasons;
}

describe.concurrent('every feature', () => {
  let profiler: ContentionProfiler;
  beforeAll(async () => {
    // Every wait is recorded.
    profiler = await profileContention({ threshold: 0, sample: 0.001 });
  });
  afterAll(() => profiler.stop());
  const found = new Map<string, Reasons>();

  for (const column of columns) {
    if (column.missing !== undefined) {
      reportMissing(
        `the features of ${column.title}`,
        column.missing,
        'CONTRIBUTING.md says how to install it.',
      );
      continue;
    }
    it(`works, or is refused, with ${column.title} as the page says`, async ({ expect }) => {
      const reasons = await check(column, profiler);
      found.set(column.title, reasons);
      if (!writes) expect(reasons).toEqual(documented(column.title));
    }, 300_000);
  }

  afterAll(() => {
    if (!writes || found.size < columns.length) return;
    const [before, rest] = textOf(PAGE).split(BEGIN) as [string, string];
    const after = rest.slice(rest.indexOf(END));
    writeFileSync(path.join(root, PAGE), before + BEGIN + tableOf(found) + after);
  });
});
