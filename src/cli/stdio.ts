/** Standard input whole, and standard output with back-pressure. A closed pipe downstream ends the program quietly (main.ts). */
import { messageOf, SurgeError } from "../base/errors.ts";
import { printable } from "../base/printable.ts";

const INPUT_LIMIT_BYTES = 64 * 1024 * 1024;

export async function readStandardInput(): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of Bun.stdin.stream()) {
    bytes += chunk.length;
    if (bytes > INPUT_LIMIT_BYTES) {
      throw new SurgeError("usage", `Standard input holds more than ${INPUT_LIMIT_BYTES} bytes.`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Whoever reads our output may leave early (head -1): that is no failure. */
export function isClosedPipe(thrown: unknown): boolean {
  return (thrown as NodeJS.ErrnoException | undefined)?.code === "EPIPE";
}

/** A failure of standard output as a sentence; a closed pipe stays what it is. */
export function outputError(error: Error): Error {
  return isClosedPipe(error)
    ? error
    : new SurgeError("missing", `Standard output cannot be written: ${messageOf(error)}.`);
}

export function writeOut(text: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) =>
    process.stdout.write(text, (error) => error ? reject(outputError(error)) : resolve())
  );
}

/** Writes a model's words: as they are into a file or pipe, without control characters onto a terminal. */
export function showOut(text: string): Promise<void> {
  return writeOut(process.stdout.isTTY === true ? printable(text) : text);
}
