/**
 * The engine child (`surge engine-child`): the only process that loads the C library and the only importer of ffi/. It talks to its
 * parent alone, prints nothing on standard output, ignores the terminal's interrupt and never outlives its parent.
 */
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import libraryPath from "../../build/libsurge.so" with { type: "file" };
import { measure, NativeEngine } from "../../ffi/engine.ts";
import { type Library, loadLibrary, memoryFile } from "../../ffi/load.ts";
import { cpuIsa, NativeProbe } from "../../ffi/probe.ts";
import { dieWithParent } from "../../ffi/process.ts";
import { EXIT, messageOf, SurgeError } from "../base/errors.ts";
import { isEmbedded, statFile } from "../model/file_reader.ts";
import type { Manifest, ManifestFile } from "../model/manifest.ts";
import type { Backend } from "./backend.ts";
import { EngineLoop } from "./loop.ts";
import type { ParentMessage } from "./protocol.ts";

/** A nameless file with the content of an embedded one; it lives as long as this process. */
function materialise(path: string): string {
  const content = readFileSync(path);
  try {
    return memoryFile("surge-demo", content);
  } catch {
    const folder = mkdtempSync(join(tmpdir(), "surge-"));
    try {
      writeFileSync(join(folder, "demo.gguf"), content, { mode: 0o600 });
      return `/proc/self/fd/${openSync(join(folder, "demo.gguf"), "r")}`;
    } catch (thrown) {
      throw new SurgeError(
        "unavailable",
        `The demonstration model found no place in memory or ${folder}: ${messageOf(thrown)}.`,
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

class NativeBackend implements Backend {
  readonly #files = new Map<string, string>();
  #loaded: Library | undefined;

  /** Loaded with the first model, so that a library that does not load is an answer to `open`. */
  get #library(): Library {
    return this.#loaded ??= loadLibrary(libraryPath);
  }

  isa(): string {
    return cpuIsa(this.#library);
  }

  probe(options: { threads: number; bytes: number }): NativeProbe {
    return new NativeProbe(this.#library, options);
  }

  locate(manifest: Manifest): Manifest {
    return { ...manifest, files: manifest.files.map((file) => isEmbedded(file.path) ? this.#real(file) : file) };
  }

  #real(file: ManifestFile): ManifestFile {
    const path = this.#files.get(file.path) ?? materialise(file.path);
    this.#files.set(file.path, path);
    return statFile(path);
  }

  measure(manifest: Manifest, plan: Parameters<Backend["measure"]>[1]) {
    return measure(this.#library, manifest, plan);
  }

  open(manifest: Manifest, plan: Parameters<Backend["open"]>[1]) {
    return new NativeEngine(this.#library, manifest, plan);
  }
}

/** Last words: one line for the parent, which keeps the end of this stream, and an exit code that tells the kind. */
function giveUp(thrown: unknown): never {
  process.stderr.write(`${messageOf(thrown)}\n`);
  process.exit(thrown instanceof SurgeError ? thrown.exitCode : EXIT.internal);
}

/** Runs until the parent goes away. */
export function runEngineChild(backend: Backend = new NativeBackend()): void {
  const send = process.send?.bind(process);
  if (send === undefined) {
    giveUp(new SurgeError("usage", "engine-child is started by surge itself and not from a shell."));
  }
  dieWithParent();
  process.on("SIGINT", () => {});
  process.on("disconnect", () => process.exit(EXIT.ok));
  process.on("uncaughtException", giveUp);
  process.on("unhandledRejection", giveUp);
  const loop = new EngineLoop(backend, { send });
  process.on("message", (message: ParentMessage) => void loop.receive(message));
}
