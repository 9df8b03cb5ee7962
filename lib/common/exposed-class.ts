/** The public view of a class, for `instanceof` and for its prototype. */
type Exposed<C> = C & { readonly prototype: object };

/**
 * Creates the public stand-in for a class that only this package may instantiate. The stand-in is a separate
 * function that throws when it is called. If a program could call the class itself, the program could
 * construct a guard, and release keys of other holders.
 *
 * Instances inherit everything from the exposed prototype, except for two properties of the hidden prototype.
 * `constructor` is the stand-in. `then` is undefined and cannot be changed. So no instance is treated as a
 * promise, even if a program adds a `then` to `Object.prototype` or to the exposed prototype.
 */
export function expose<C extends { readonly prototype: object }>(
  hidden: C,
  name: string,
  refusal: string,
): Exposed<C> {
  function Refusing(): never {
    throw new TypeError(refusal);
  }
  const own = hidden.prototype;
  const exposed = Refusing.prototype as object;
  for (const key of Reflect.ownKeys(own)) {
    if (key === 'constructor') continue;
    Object.defineProperty(exposed, key, Reflect.getOwnPropertyDescriptor(own, key)!);
    Reflect.deleteProperty(own, key);
  }
  Object.setPrototypeOf(own, exposed);
  Object.defineProperties(own, {
    constructor: { value: Refusing, writable: false },
    then: { value: undefined },
  });
  Object.defineProperties(Refusing, { name: { value: name }, prototype: { writable: false } });
  return Refusing as unknown as Exposed<C>;
}
