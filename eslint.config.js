import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Names that node itself provides; taken from node, so that no list can fall behind. */
const nodeGlobals = Object.fromEntries(
  Object.getOwnPropertyNames(globalThis).map((name) => [name, 'readonly']),
);

export default defineConfig(
  globalIgnores(['build/', 'dist/', 'unbundled/', 'release/', 'prebuilds/', 'site/']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    rules: {
      eqeqeq: 'error',
      'no-constant-condition': ['error', { checkLoops: false }],
      'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      'object-shorthand': 'error',
      'prefer-const': 'error',
      // One file holds one idea, whole. Past this size, look whether there are two; a file that is one idea says so with
      // a comment that turns the rule off. Never split a file for the number alone.
      'max-lines': ['error', { max: 500, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    // A table of cases: it is as long as it must be.
    files: ['model/configurations.mjs'],
    rules: { 'max-lines': 'off' },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    languageOptions: { globals: nodeGlobals },
  },
  {
    files: ['**/*.cjs'],
    languageOptions: { globals: { __dirname: 'readonly' } },
  },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['tsconfig.json', 'tsconfig.test.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { disallowTypeAnnotations: false }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // A loop that waits on shared memory has no condition that the types can see.
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none' },
      ],
      '@typescript-eslint/no-invalid-void-type': ['error', { allowAsThisParameter: true }],
      // Flags are compared after masking, and masks are made of other constants.
      '@typescript-eslint/no-unsafe-enum-comparison': 'off',
      '@typescript-eslint/prefer-literal-enum-member': 'off',
      // Under noUncheckedIndexedAccess every read of a typed array needs one.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // An abort signal's reason is whatever the caller chose, and is passed on as it is.
      '@typescript-eslint/only-throw-error': [
        'error',
        { allowThrowingUnknown: true, allowThrowingAny: true },
      ],
      '@typescript-eslint/prefer-promise-reject-errors': [
        'error',
        { allowThrowingUnknown: true, allowThrowingAny: true },
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    files: ['lib/**/*.ts'],
    rules: {
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
      'no-console': 'error',
    },
  },
  {
    files: ['lib/**/*.ts'],
    ignores: ['lib/**/host.ts', 'lib/testing/**'],
    rules: {
      // Fake timers of test runners replace these: `common/host.ts` has them as they are at import.
      'no-restricted-globals': [
        'error',
        ...['performance', 'setTimeout', 'clearTimeout', 'setInterval', 'setImmediate', 'queueMicrotask'],
      ],
    },
  },
  {
    files: ['lib/lease/**/*.ts', 'lib/stores/**/*.ts'],
    rules: {
      // What a store throws for a bad argument must be a rejection.
      '@typescript-eslint/require-await': 'off',
      // A lease expires at its store while the machine of its holder is suspended, which these clocks do not see.
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              group: ['**/common/host.js'],
              importNames: ['performance', 'hrtime', 'sharedNow'],
              message: 'Deadlines of leases are by `localNow` or `elapsed`, what timers count by `timerNow`.',
            },
            { group: ['perf_hooks', 'node:perf_hooks'], message: 'See common/elapsed.ts.' },
          ],
        },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'The wall clock may be set: see common/elapsed.ts.' },
        { object: 'process', property: 'hrtime', message: 'See common/elapsed.ts.' },
        { object: 'globalThis', property: 'performance', message: 'See common/elapsed.ts.' },
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      // Tests throw odd things on purpose.
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/require-await': 'off',
      'no-restricted-syntax': [
        'error',
        {
          selector:
            'MemberExpression[object.name=/^(describe|it|test)$/][property.name=/^(only|skip|todo)$/]',
          message: 'Every test runs.',
        },
      ],
    },
  },
);
