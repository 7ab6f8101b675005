// Errors that the program throws and nobody catches: they would end a process of Node.

let hear: (error: unknown) => void = () => undefined;

export function hearCrashes(then: (error: unknown) => void): void {
  hear = then;
}

globalThis.process.on('unhandledRejection', (error) => hear(error));
globalThis.process.on('uncaughtException', (error) => hear(error));
