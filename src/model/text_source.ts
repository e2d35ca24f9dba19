/** Where a manifest's tokenizer and chat template are: read as plain data, for src/text to make something of. */
import { SurgeError } from "../base/errors.ts";
import { readJson, readText } from "./file_reader.ts";
import { type GgufMetadata, readGgufTokenizer } from "./gguf.ts";
import type { Manifest } from "./manifest.ts";

/** Paths are for messages: the text of each part came from there. */
interface Origin {
  tokenizerPath: string;
  templatePath: string;
}

export type TextSource =
  & Origin
  & { chatTemplate: string | undefined }
  & (
    | { kind: "gguf"; metadata: GgufMetadata }
    | { kind: "json"; tokenizer: Record<string, unknown> }
  );

function record(path: string): Record<string, unknown> {
  const value = readJson(path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SurgeError("data", `${path} is not a JSON object.`);
  }
  return value as Record<string, unknown>;
}

/** chat_template of tokenizer_config.json: a text, or a list of named ones of which "default" counts. */
function templateOfConfig(config: Record<string, unknown>): string | undefined {
  const value = config["chat_template"];
  if (typeof value === "string") return value;
  const list = Array.isArray(value) ? value as Array<{ name?: unknown; template?: unknown } | null> : [];
  const found = list.find((each) => each?.name === "default")?.template;
  return typeof found === "string" ? found : undefined;
}

export function readTextSource(manifest: Manifest): TextSource {
  const { text } = manifest;
  if (text.kind === "gguf") {
    const path = manifest.files[text.file]!.path;
    const metadata = readGgufTokenizer(path);
    const template = metadata.get("tokenizer.chat_template");
    const chatTemplate = typeof template === "string" ? template : undefined;
    return { kind: "gguf", metadata, chatTemplate, tokenizerPath: path, templatePath: path };
  }
  const fromConfig = text.tokenizerConfig === undefined ? undefined : templateOfConfig(record(text.tokenizerConfig));
  return {
    kind: "json",
    tokenizer: record(text.tokenizer),
    chatTemplate: text.chatTemplate === undefined ? fromConfig : readText(text.chatTemplate),
    tokenizerPath: text.tokenizer,
    templatePath: text.chatTemplate ?? text.tokenizerConfig ?? text.tokenizer,
  };
}
