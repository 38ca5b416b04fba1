// Classes that can also be called: `new MetricAverageCallback()` and, as Python users write it,
// `MetricAverageCallback()`.

// biome-ignore lint/suspicious/noExplicitAny: what TypeScript itself asks of constructors in mixins
type AnyClass = new (...args: any[]) => object;

/** A class, and the function that makes its instances. It can be extended and stands on the right of instanceof. */
export type CallableClass<C extends AnyClass> = C & ((...args: ConstructorParameters<C>) => InstanceType<C>);

export function callable<C extends AnyClass>(Class: C): CallableClass<C> {
  return new Proxy(Class, {
    apply: (target, _this, args) => Reflect.construct(target, args),
  }) as CallableClass<C>;
}
