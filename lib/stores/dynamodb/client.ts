import { invalidArgType } from '../../common/errors.js';

/** An attribute of an item: a string `S` or a number `N`. */
export interface Attribute {
  readonly S?: string;
  /** A decimal number. */
  readonly N?: string;
  readonly BOOL?: boolean;
}

/** Attributes by name. */
export type Item = Readonly<Record<string, Attribute | undefined>>;

/** The methods that the store calls, with the arguments that it passes. */
export interface Client {
  readonly middlewareStack: { add(middleware: Middleware, options: object): void };
  getItem(input: object): Promise<{ readonly Item?: Item }>;
  putItem(input: object): Promise<unknown>;
  transactWriteItems(input: object): Promise<unknown>;
  scan(input: object): Promise<{ readonly Items?: readonly Item[]; readonly LastEvaluatedKey?: Item }>;
}

type Handler = (request: unknown) => Promise<Handled>;
type Middleware = (next: Handler) => Handler;

interface Handled {
  readonly response: { readonly headers?: Readonly<Record<string, string>> };
  readonly output: object;
}

const METHODS = ['getItem', 'putItem', 'transactWriteItems', 'scan'] as const;

/**
 * The property of an output that holds the answer's `Date` header. Every copy of this package uses the same
 * symbol, because the middleware of one copy replaces the middleware of another copy.
 */
const DATE = Symbol.for('stripelock.dynamodb.date');

export function checkClient(client: unknown): Client {
  const candidate = (typeof client === 'object' && client !== null ? client : {}) as Partial<Client>;
  const isClient =
    METHODS.every((method) => typeof candidate[method] === 'function') &&
    typeof candidate.middlewareStack?.add === 'function';
  if (isClient) return candidate as Client;
  throw invalidArgType(
    'options.client',
    'a DynamoDB (not a DynamoDBClient) of @aws-sdk/client-dynamodb 3',
    client,
  );
}

/**
 * Adds a middleware to the client. The middleware gives every output the property that {@link dateOf} reads.
 * Outputs for other users of the client also get this property, but it is not enumerable.
 */
export function keepDates({ middlewareStack }: Client): void {
  const middleware: Middleware = (next) => async (request) => {
    const handled = await next(request);
    const date = handled.response.headers?.['date'];
    if (date !== undefined) Object.defineProperty(handled.output, DATE, { value: date });
    return handled;
  };
  // With this priority, this middleware wraps the one that creates the output.
  middlewareStack.add(middleware, {
    step: 'deserialize',
    priority: 'high',
    name: 'stripelockDate',
    override: true,
  });
}

/** The service's time when it sent the answer, in milliseconds, rounded down to a whole second. */
export function dateOf(output: object): number {
  const date = Date.parse(String((output as { readonly [DATE]?: string })[DATE]));
  if (Number.isNaN(date)) throw new Error('the answer has no Date header');
  return date;
}
