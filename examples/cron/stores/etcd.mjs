import { etcdLeaseStore } from 'stripelock/etcd';

export const defaultUrl = 'http://127.0.0.1:2379';

const base64 = (text) => Buffer.from(text).toString('base64');
const fromBase64 = (text) => Buffer.from(text, 'base64').toString();

/** Asks the JSON gateway that every etcd has. */
async function ask(url, path, body) {
  const options = { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(`${url}/v3/${path}`, options).catch((error) => {
    throw new Error(`no etcd at ${url}: ${error.message}`);
  });
  return response.json();
}

export async function open({ url, prefix, nights }) {
  const keyOf = (night) => base64(`${prefix}night/${night}`);
  const tokenOf = (night) => base64(`${prefix}token/${night}`);
  const isAbsent = (key) => ({ key, target: 'CREATE', create_revision: '0' });
  const put = (key, value) => ({ requestPut: { key, value: base64(value) } });
  const txn = async (compare, success) => (await ask(url, 'kv/txn', { compare, success })).succeeded === true;
  const read = async (key) => (await ask(url, 'kv/range', { key })).kvs?.[0]?.value;
  await ask(url, 'maintenance/status', {});

  const journal = {
    has: async (night) => (await read(keyOf(night))) !== undefined,
    noteCrash: () => txn([isAbsent(base64(`${prefix}crash`))], [put(base64(`${prefix}crash`), '1')]),
    // Tokens as text of equal length compare like numbers.
    async write(night, author, token) {
      const key = tokenOf(night);
      const text = String(token).padStart(20, '0');
      const writes = [put(key, text), put(keyOf(night), `${token} ${author}`)];
      if (await txn([isAbsent(key)], writes)) return true;
      const notHigher = { key, target: 'VALUE', result: 'LESS', value: base64(`${text}\0`) };
      return txn([notHigher], writes);
    },
    async read() {
      const numbers = Array.from({ length: nights }, (_, i) => i + 1);
      const entries = await Promise.all(numbers.map((night) => read(keyOf(night))));
      for (const name of ['night', 'token', 'crash']) {
        const range = { key: base64(prefix + name), range_end: base64(`${prefix + name}~`) };
        await ask(url, 'kv/deleterange', range);
      }
      return entries.map((entry, i) => {
        const [token, author] = fromBase64(entry).split(/ (.*)/);
        return { night: i + 1, author, token: BigInt(token) };
      });
    },
  };
  const store = etcdLeaseStore({ endpoints: [url], prefix });
  return { store, journal, close: () => store.close() };
}
