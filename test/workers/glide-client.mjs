// A clientModule. The class and the port are in its URL.
import { connectGlide } from '../support/glide-clients.mjs';

export default async function make() {
  const { searchParams } = new URL(import.meta.url);
  const { client } = await connectGlide(searchParams.get('class'), Number(searchParams.get('port')));
  return client;
}
