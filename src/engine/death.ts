/** What a person is told when the engine child died. Looks at the model's files again, since a file that shrank kills whoever has it mapped. */
import { type ErrorKind, EXIT, SurgeError } from "../base/errors.ts";
import type { Manifest } from "../model/manifest.ts";
import { changedFile } from "../model/source.ts";
import type { Death } from "./child_process.ts";

function kindOfExit(exitCode: number | null): ErrorKind {
  const [kind] = Object.entries(EXIT).find(([name, code]) => name !== "ok" && code === exitCode) ?? ["internal"];
  return kind as ErrorKind;
}

/** One sentence and its kind. A child that ends itself with an exit code of ours has written why as its last line. */
export function deathError(death: Death, manifest: Manifest | undefined): SurgeError {
  if (death.wanted) return new SurgeError("interrupted", "The engine was closed.");
  if (death.signal === "SIGKILL") {
    return new SurgeError(
      "memory",
      "The engine was killed, probably because the machine ran out of memory; lower --ctx or free memory.",
    );
  }
  const changed = manifest === undefined ? undefined : changedFile(manifest);
  if (changed !== undefined) return new SurgeError("data", changed);
  if (death.signal === "SIGBUS") {
    return new SurgeError(
      "data",
      "A part of the model could not be read from disk while it was in use; check the disk.",
    );
  }
  if (
    death.signal === null && death.exitCode !== null && kindOfExit(death.exitCode) !== "internal" &&
    death.lastLine !== ""
  ) {
    return new SurgeError(kindOfExit(death.exitCode), death.lastLine);
  }
  const how = death.signal ?? `exit code ${death.exitCode}`;
  return new SurgeError("internal", `The engine stopped unexpectedly (${how}); open the model again.`);
}
