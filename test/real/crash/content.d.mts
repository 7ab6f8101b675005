export function content(name: string, round: number): string;
export function readContent(bytes: Buffer): { readonly name: string; readonly round: number } | undefined;
