export function content(name: string, round: number, big?: boolean): string;
export function readContent(bytes: Buffer): { readonly name: string; readonly round: number } | undefined;
