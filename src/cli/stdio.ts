/** Standard input whole, and standard output with back-pressure. A closed pipe downstream ends the program quietly (main.ts). */
import { SurgeError } from "../base/errors.ts";

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

export function writeOut(text: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => process.stdout.write(text, (error) => error ? reject(error) : resolve()));
}
