// The entries of the page, as report/packed.ts has packed them: with what the browser has, for nothing may be fetched.

export async function unpacked(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(whole).json();
}
