import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { COMPILES_IN, errorsIn } from '../docs/compiled-blocks.js';
import { FRAMEWORKS, POSTGRES, textOf, WITH_PACKAGES } from '../docs/pages.js';
import { reportMissing } from '../support/requirements.js';
import { ADVICE, missingPackage, programs, Project } from './project.js';

// For all tests of this folder.
if (missingPackage !== undefined)
  reportMissing(`the programs of ${FRAMEWORKS}`, `package ${missingPackage}`, ADVICE);

describe.runIf(missingPackage === undefined)('the blocks of the pages that import packages', () => {
  it('compile as strict TypeScript, with the types of the packages', { timeout: COMPILES_IN }, async () => {
    const project = new Project();
    try {
      // The blocks of one page import a file that Prisma generates.
      project.generatePrismaClient();
      const texts = new Map(WITH_PACKAGES.map((page) => [page, textOf(page)]));
      const folderOf = (page: string): string =>
        page === POSTGRES ? project.folder : path.join(project.folder, 'blocks');
      expect(errorsIn(texts, folderOf)).toEqual([]);
    } finally {
      await project.remove();
    }
  });
});

it('docs/frameworks.md has programs that a test of this folder runs, or that these import', () => {
  expect([...programs.keys()].sort()).toEqual(
    [
      ...['leases', 'node-cron', 'cron', 'nest', 'bree', 'bullmq', 'mail', 'users', 'withdraw'],
      ...['fastify', 'express', 'migrations', 'drizzle', 'knex', 'typeorm', 'prisma'],
    ]
      .map((name) => `${name}.mjs`)
      .sort(),
  );
});
