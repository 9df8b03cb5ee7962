// Finds files that are too long and must be split.

/** Lines, comments and blank ones included. */
const MOST = 300;

/** TypeScript and C++ with its tests, and the programs in JavaScript. */
const CHECKED = /^(?:lib|native|test|scripts|bench|model)\/.*\.(?:ts|mjs|cc|h)$/;

/** Tables of cases: a list is as long as it must be. */
const TABLES = ['model/configurations.mjs', 'model/mutations.mjs', 'test/mutations/native.mjs'];

/**
 * @param {ReadonlyMap<string, string>} sources See sources.mjs.
 * @param {readonly string[]} [tables]
 * @returns {string[]} The findings; empty if there are none.
 */
export function tooLong(sources, tables = TABLES) {
  const wrong = [];
  for (const [name, text] of sources) {
    if (!CHECKED.test(name) || tables.includes(name)) continue;
    const lines = text.split('\n').length - 1;
    if (lines > MOST) wrong.push(`${name}: ${lines} lines, more than ${MOST}: split it along a seam`);
  }
  for (const name of tables) {
    const lines = (sources.get(name) ?? '').split('\n').length - 1;
    if (lines <= MOST) wrong.push(`${name}: ${lines} lines, no need to allow it in scripts/lint/sizes.mjs`);
  }
  return wrong;
}
