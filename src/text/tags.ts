/** The tags of tool calls, and looking for them in text that goes on arriving. */

export const OPEN = "<tool_call>";
export const CLOSE = "</tool_call>";
export const FUNCTION_OPEN = "<function=";
export const FUNCTION_CLOSE = "</function>";
export const PARAMETER_OPEN = "<parameter=";
export const PARAMETER_CLOSE = "</parameter>";

/** The first place from `at` on that is no white space. */
export function skipSpace(text: string, at: number): number {
  const space = /\s*/y;
  space.lastIndex = at;
  return at + (space.exec(text)?.[0].length ?? 0);
}

/** Whether text[at:] is a proper beginning of one of the words, so that more text could complete it. */
export function couldBecome(text: string, at: number, words: readonly string[]): boolean {
  const length = text.length - at;
  return words.some((word) => word.length > length && word.startsWith(text.slice(at)));
}
