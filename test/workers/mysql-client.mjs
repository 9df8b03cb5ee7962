// A clientModule. The library and the server are in its URL.
import { mysqlClients } from '../support/mysql-clients.mjs';

export default async function make() {
  const { searchParams } = new URL(import.meta.url);
  const { client } = await mysqlClients[searchParams.get('library')](searchParams.get('server'));
  return client;
}
