import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import ts from 'typescript';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { FRAMEWORKS, root, textOf } from '../docs/pages.js';

// The programs of docs/frameworks.md, in a project that has their packages and ours installed. So have other programs, that a
// test writes.

const PACKAGES = path.join(root, 'test/drivers/recipes');
export const ADVICE = 'Run: npm run install:recipes';

interface Manifest {
  readonly version?: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

const manifestIn = (folder: string): Manifest =>
  JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest;

/** The first package that is missing, or that has another version than the tests need. */
export const missingPackage = Object.entries(manifestIn(PACKAGES).dependencies).find(([name, version]) => {
  const folder = path.join(PACKAGES, 'node_modules', name);
  return !existsSync(folder) || manifestIn(folder).version !== version;
})?.[0];

/** NestJS needs the decorators of TypeScript. */
const options: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
};

/** The programs of the page as JavaScript, by the names of their files. */
export const programs = new Map(
  codeIn(textOf(FRAMEWORKS), 'js', 'ts').map(({ code }) => {
    const [, name, type] = /^\/\/ ([\w-]+)\.m([jt])s\n/.exec(code)!;
    return [`${name!}.mjs`, type === 't' ? ts.transpile(code, options) : code];
  }),
);

/**
 * The files that Prisma's command needs, so that it downloads no engine.
 *
 * @param provider Of the client that it generates in the folder `generated`.
 */
export const prismaFiles = (provider: string): Readonly<Record<string, string>> => ({
  'prisma.config.mjs': `
    import { PrismaPg } from '@prisma/adapter-pg';
    import { defineConfig } from 'prisma/config';
    export default defineConfig({
      experimental: { adapter: true },
      engine: 'js',
      adapter: async () => new PrismaPg({ connectionString: process.env.DATABASE_URL }),
      schema: 'prisma/schema.prisma',
    });`,
  'prisma/schema.prisma': `
    generator client {
      provider   = "${provider}"
      engineType = "client"
      output     = "../generated"
    }
    datasource db {
      provider = "postgresql"
      url      = env("DATABASE_URL")
    }`,
});

/** Changes of a program for a test: each text must occur in it. */
export type Changes = Readonly<Record<string, string>>;

/** A running program, and the lines that it has printed. */
export class Program {
  readonly lines: string[] = [];
  #rest = '';
  stderr = '';
  readonly #child: ChildProcess;
  readonly ended: Promise<unknown[]>;

  constructor(folder: string, file: string, env: NodeJS.ProcessEnv) {
    const child = spawn(process.execPath, [file], {
      cwd: folder,
      env: { ...process.env, ...env, NO_COLOR: '1', FORCE_COLOR: undefined, CHECKPOINT_DISABLE: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (this.#rest + text).split('\n');
      this.#rest = lines.pop()!;
      this.lines.push(...lines);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.#child = child;
    this.ended = once(child, 'close');
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Lines that match. */
  printed(what: RegExp): string[] {
    return this.lines.filter((line) => what.test(line));
  }
}

export class Project {
  readonly folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-recipes-'));
  readonly #programs: Program[] = [];

  constructor() {
    const modules = path.join(this.folder, 'node_modules');
    mkdirSync(modules);
    const link = (target: string, name: string): void =>
      symlinkSync(target, path.join(modules, name), 'junction');
    const installed = path.join(PACKAGES, 'node_modules');
    for (const name of readdirSync(installed))
      if (!name.startsWith('.')) link(path.join(installed, name), name);
    link(root, 'stripelock');
    link(path.join(root, 'node_modules/piscina'), 'piscina');
    for (const [file, code] of programs) this.write({ [file]: code });
  }

  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(this.folder, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
  }

  /** Changes a program of the page. */
  change(file: string, changes: Changes): void {
    let code = programs.get(file)!;
    for (const [before, after] of Object.entries(changes)) {
      if (!code.includes(before)) throw new Error(`${file} does not contain ${before}`);
      code = code.replace(before, after);
    }
    this.write({ [file]: code });
  }

  /** Generates a client of Prisma, in the folder `generated`. */
  generatePrismaClient(): void {
    this.write(prismaFiles('prisma-client-js'));
    const command = ['node_modules/prisma/build/index.js', 'generate'];
    const env = { ...process.env, DATABASE_URL: 'postgres://', CHECKPOINT_DISABLE: '1', NO_COLOR: '1' };
    execFileSync(process.execPath, command, { cwd: this.folder, env, stdio: 'pipe' });
  }

  start(file: string, env: NodeJS.ProcessEnv): Program {
    const program = new Program(this.folder, file, env);
    this.#programs.push(program);
    return program;
  }

  async remove(): Promise<void> {
    for (const program of this.#programs) program.signal('SIGKILL');
    await Promise.all(this.#programs.map(({ ended }) => ended));
    rmSync(this.folder, { recursive: true });
  }
}

/** How a program ended. */
export interface End {
  /** The exit code, and the signal. */
  readonly ended: unknown[];
  readonly stderr: string;
}

export async function endOf(program: Program): Promise<End> {
  const ended = await program.ended;
  return { ended, stderr: program.stderr };
}

/** Ends programs as a supervisor does. */
export function endAll(started: readonly Program[]): Promise<End[]> {
  for (const program of started) program.signal('SIGTERM');
  return Promise.all(started.map(endOf));
}

/** The end of a program that has nothing to complain about. */
export const endedWell: End = { ended: [0, null], stderr: '' };
