// What the program throws and nobody catches: in a process of Node it is the end of it.

let hear: (error: unknown) => void = () => undefined;

export function hearCrashes(then: (error: unknown) => void): void {
  hear = then;
}

globalThis.process.on('unhandledRejection', (error) => hear(error));
globalThis.process.on('uncaughtException', (error) => hear(error));
