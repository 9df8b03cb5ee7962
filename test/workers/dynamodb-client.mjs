// A clientModule. The endpoint is in its URL.
import { connectDynamodb } from '../support/dynamodb-clients.mjs';

export default () => connectDynamodb(new URL(import.meta.url).searchParams.get('endpoint') ?? undefined);
