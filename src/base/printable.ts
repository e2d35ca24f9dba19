/**
 * Text from a model, a file or a keyboard as a terminal may show it: nothing in it moves the cursor, sets a title or answers a query.
 * Invariant: of all control characters the result holds line feeds and tabs only.
 */

/** Control characters become their pictures (ESC is ␛); line breaks and tabs are kept. */
export function printable(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/\r\n/g, "\n").replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 32 ? String.fromCodePoint(0x2400 + code) : "\u{2421}";
  });
}
