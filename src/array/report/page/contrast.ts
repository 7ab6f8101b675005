// Which colour of text can be read on a colour (WCAG 2.2, "relative luminance" and "contrast ratio"). Colours are
// written `#rrggbb`, as in style.css. Pure.

type Rgb = readonly [red: number, green: number, blue: number];

/** The colour of the two that stands out more from what is behind it. */
export function moreReadable([one, other]: readonly [string, string], behind: Rgb): string {
  const [light, ...rest] = [behind, rgbOf(one), rgbOf(other)].map(luminance);
  const [first = 0, second = 0] = rest.map((ink) => contrast(ink, light ?? 0));
  return first >= second ? one : other;
}

/** What is seen where `over` is painted on `under` with this opacity, 0 to 1. */
export function blended(over: string, under: string, opacity: number): Rgb {
  const [top, bottom] = [rgbOf(over), rgbOf(under)];
  const mix = (at: 0 | 1 | 2): number => opacity * top[at] + (1 - opacity) * bottom[at];
  return [mix(0), mix(1), mix(2)];
}

function rgbOf(colour: string): Rgb {
  const part = (at: number): number => Number.parseInt(colour.slice(at, at + 2), 16);
  return [part(1), part(3), part(5)];
}

function luminance([red, green, blue]: Rgb): number {
  const linear = (value: number): number =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

function contrast(one: number, other: number): number {
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}
