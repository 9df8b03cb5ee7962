// A clientModule. The library and the port are in its URL.
import { redisClients } from '../support/redis-clients.mjs';

export default async function make() {
  const { searchParams } = new URL(import.meta.url);
  const { client } = await redisClients[searchParams.get('library')](Number(searchParams.get('port')));
  return client;
}
