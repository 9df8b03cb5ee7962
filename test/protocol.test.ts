import { expect, it } from 'vitest';
import { copyForTest, type Changes } from './support/package-copy.js';
import { runProgram } from './support/programs.js';

// The addon hands over 128 at once. The program produces more than one batch of either size.
it.each([1, 7, 100, 128, 1000])(
  'all grants, timeouts, released keys and news arrive at once where lib/ takes them in batches of another size than the addon: %i',
  async (size) => {
    const changes: Changes = {
      'engine/native/protocol.js': (text) => text.replace('BATCH = 128', `BATCH = ${size}`),
    };
    const copy = await copyForTest({ addon: 'link', ...(size === 128 ? {} : { changes }) });
    const { code, stdout, stderr } = await runProgram('batches.mjs', [copy]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({ grants: 300, timeouts: 300, releasedKeys: 300, namedNews: 300 });
  },
);
