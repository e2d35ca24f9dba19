/**
 * Bounded reading of model files. Headers are read through a window; weights are never read here. A file inside the program's own
 * binary is read like any other.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { SurgeError } from "../base/errors.ts";
import type { ManifestFile } from "./manifest.ts";

/** Largest header, index or config that is read at all. */
export const HEADER_LIMIT_BYTES = 512 * 1024 * 1024;
const JSON_LIMIT_BYTES = 128 * 1024 * 1024;

export function isEmbedded(path: string): boolean {
  return path.startsWith("/$bunfs/");
}

function systemError(path: string, thrown: unknown): SurgeError {
  const code = (thrown as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return new SurgeError("missing", `${path} is not there; check the path.`);
  if (code === "EACCES") return new SurgeError("missing", `${path} may not be read; check its permissions.`);
  return new SurgeError("missing", `${path} could not be read (${code ?? "unknown error"}).`);
}

/** The file as the manifest records it. */
export function statFile(path: string): ManifestFile {
  if (isEmbedded(path)) return { path, bytes: readFileSync(path).length, mtimeNs: "0", inode: "0" };
  try {
    const stat = statSync(path, { bigint: true });
    if (!stat.isFile()) throw new SurgeError("missing", `${path} is not a regular file.`);
    return { path, bytes: Number(stat.size), mtimeNs: String(stat.mtimeNs), inode: String(stat.ino) };
  } catch (thrown) {
    throw thrown instanceof SurgeError ? thrown : systemError(path, thrown);
  }
}

/** The names in a folder. */
export function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (thrown) {
    throw systemError(path, thrown);
  }
}

export class FileReader {
  readonly path: string;
  readonly size: number;
  readonly #fd: number | null;
  readonly #whole: Buffer | null;

  constructor(path: string) {
    this.path = path;
    this.size = statFile(path).bytes;
    this.#whole = isEmbedded(path) ? readFileSync(path) : null;
    try {
      this.#fd = this.#whole === null ? openSync(path, "r") : null;
    } catch (thrown) {
      throw systemError(path, thrown);
    }
  }

  /** Exactly `length` bytes at `offset`; a shorter file is an error. */
  read(offset: number, length: number): Buffer {
    if (offset + length > this.size) {
      throw new SurgeError("data", `${this.path} is truncated: it ends at byte ${this.size}, inside its header.`);
    }
    if (this.#whole !== null) return this.#whole.subarray(offset, offset + length);
    const buffer = Buffer.allocUnsafe(length);
    let done = 0;
    while (done < length) {
      const got = readSync(this.#fd!, buffer, done, length - done, offset + done);
      if (got <= 0) throw new SurgeError("data", `${this.path} became shorter while it was read.`);
      done += got;
    }
    return buffer;
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }
}

/** Runs `use` with an open reader and closes it whatever happens. */
export function withFile<T>(path: string, use: (reader: FileReader) => T): T {
  const reader = new FileReader(path);
  try {
    return use(reader);
  } finally {
    reader.close();
  }
}

/** A text file of bounded size. */
export function readText(path: string): string {
  return withFile(path, (reader) => {
    if (reader.size > JSON_LIMIT_BYTES) {
      throw new SurgeError("data", `${path} has ${reader.size} bytes, too many for a text file.`);
    }
    return reader.read(0, reader.size).toString("utf8");
  });
}

export function readJson(path: string): unknown {
  const text = readText(path);
  try {
    return JSON.parse(text);
  } catch {
    throw new SurgeError("data", `${path} is not valid JSON.`);
  }
}
