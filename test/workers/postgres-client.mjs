// A clientModule. The library and the port are in its URL.
import { postgresClients } from '../support/postgres-clients.mjs';

export default async function make() {
  const { searchParams } = new URL(import.meta.url);
  const { client } = await postgresClients[searchParams.get('library')](Number(searchParams.get('port')));
  return client;
}
