// node:v8: the flags that capture sets for its own processes must not slow down this one.
export function setFlagsFromString(): void {}
