/**
 * The machine's measured figures, kept between runs for whoever plans: `surge bench --save-profile` writes them, one file in the state
 * directory. Never trusted: read up to a limit, validated, and refused on another machine. Every refusal is a "config" error (78).
 */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { z } from "zod";
import { messageOf, SurgeError } from "../base/errors.ts";
import { makeStateFolder, stateFile, writeStateFile } from "../base/state_file.ts";
import { keyDifference, MachineKey, readMachineKey } from "./machine_key.ts";

/** Medians of one measurement, with the kernels in use and the threads that it ran on. */
export const Figures = z.strictObject({
  isa: z.string().regex(/^[a-z0-9_]{1,32}$/),
  threads: z.number().int().min(1).max(512),
  bandwidth_gbps: z.number().positive().max(1e6),
  int8_gops: z.number().positive().max(1e9),
  measured: z.iso.datetime(),
});
export type Figures = z.infer<typeof Figures>;

/** Kernels times thread counts that are kept; the oldest give way. */
const FIGURES_MAX = 32;

export const Profile = z.strictObject({
  schema: z.literal("surge.profile/1"),
  machine: MachineKey,
  figures: z.array(Figures).min(1).max(FIGURES_MAX),
});
export type Profile = z.infer<typeof Profile>;

const LIMIT_BYTES = 64 * 1024;
const AGAIN = "surge bench bandwidth --save-profile";

export interface ProfilePlace {
  path: string;
  machine: MachineKey;
}

/** Where this machine's profile is kept. */
export function profilePlace(): ProfilePlace {
  const path = stateFile("profile.json");
  if (path !== undefined) return { path, machine: readMachineKey() };
  throw new SurgeError(
    "config",
    "There is no place for the machine's profile: set HOME or XDG_STATE_HOME to an absolute path.",
  );
}

function codeOf(thrown: unknown): string | undefined {
  return (thrown as NodeJS.ErrnoException).code;
}

/** At most LIMIT_BYTES of a regular file; a pipe or a device in its place is neither waited for nor read. */
function readBounded(fd: number, path: string): string {
  if (!fstatSync(fd).isFile()) {
    throw new SurgeError("config", `${path} is not a regular file; remove it, then ${AGAIN} makes it.`);
  }
  const buffer = Buffer.alloc(LIMIT_BYTES + 1);
  let bytes = 0;
  for (let got = -1; got !== 0 && bytes < buffer.length; bytes += got) {
    got = readSync(fd, buffer, bytes, buffer.length - bytes, bytes);
  }
  if (bytes <= LIMIT_BYTES) return buffer.toString("utf8", 0, bytes);
  throw new SurgeError("config", `${path} is too large for a machine's profile; ${AGAIN} makes it anew.`);
}

/** Undefined where there is no such file. */
function readFile(path: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return readBounded(fd, path);
  } catch (thrown) {
    if (thrown instanceof SurgeError) throw thrown;
    if (codeOf(thrown) === "ENOENT") return undefined;
    throw new SurgeError(
      "config",
      `${path} cannot be read (${codeOf(thrown) ?? messageOf(thrown)}); see to its access.`,
    );
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function parse(text: string, path: string): Profile {
  let reason = "it is no JSON";
  try {
    const parsed = Profile.safeParse(JSON.parse(text));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0]!;
    reason = `${issue.path.join(".") || "the file"}: ${issue.message}`.replace(/[^\x20-\x7e]+/g, " ").slice(0, 200);
  } catch {
    /* The sentence below says it. */
  }
  throw new SurgeError("config", `${path} is damaged or of another version (${reason}); ${AGAIN} makes it anew.`);
}

/** This machine's profile, or undefined where none was kept. Damaged, unreadable and foreign ones are "config" errors. */
export function loadProfile({ path, machine }: ProfilePlace = profilePlace()): Profile | undefined {
  const text = readFile(path);
  if (text === undefined) return undefined;
  const profile = parse(text, path);
  const difference = keyDifference(profile.machine, machine);
  if (difference === undefined) return profile;
  throw new SurgeError("config", `${path} is of another machine (${difference}); ${AGAIN} measures this one.`);
}

function cannotWrite(path: string, thrown: unknown): SurgeError {
  const reason = codeOf(thrown) ?? messageOf(thrown);
  return new SurgeError(
    "missing",
    `The machine's profile cannot be written to ${path} (${reason}); see to its folder.`,
  );
}

/** Fails where no folder can be made for the profile: said before an hour's measurement, not behind it. */
export function prepareProfile({ path }: ProfilePlace): void {
  try {
    makeStateFolder(path);
  } catch (thrown) {
    throw cannotWrite(path, thrown);
  }
}

/**
 * Keeps figures beside those of other kernels and thread counts. A profile that would be refused gives way to a new one; why it was
 * refused is returned.
 */
export function saveProfile(figures: Figures, { path, machine }: ProfilePlace): { replaced?: string } {
  let others: Figures[] = [];
  let replaced: string | undefined;
  try {
    others = loadProfile({ path, machine })?.figures ?? [];
  } catch (thrown) {
    replaced = messageOf(thrown);
  }
  const kept = others.filter(({ isa, threads }) => isa !== figures.isa || threads !== figures.threads);
  const profile = Profile.parse({
    schema: "surge.profile/1",
    machine,
    figures: [...kept, figures].slice(-FIGURES_MAX),
  });
  try {
    writeStateFile(path, `${JSON.stringify(profile, null, 2)}\n`);
  } catch (thrown) {
    throw cannotWrite(path, thrown);
  }
  return replaced === undefined ? {} : { replaced };
}
