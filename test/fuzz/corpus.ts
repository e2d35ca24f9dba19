/** Writes corpus/ from the golden models: headers only, small enough to mutate thousands of times a second. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { draftOfFolder, draftOfGguf, type GgufDraft, ggufHeader, safetensorsHeader } from "../fixtures/model_files.ts";
import { readGgufTokenizer } from "../../src/model/gguf.ts";
import { GOLDEN_MODELS } from "../support/golden.ts";

const corpus = join(import.meta.dir, "corpus");
for (const kind of ["gguf", "safetensors", "config"]) mkdirSync(join(corpus, kind), { recursive: true });

function gguf(name: string, from: string, change: (draft: GgufDraft) => void): void {
  const draft = draftOfGguf(join(GOLDEN_MODELS, from));
  draft.metadata.delete("tokenizer.chat_template");
  change(draft);
  writeFileSync(join(corpus, "gguf", name), ggufHeader(draft).header);
}

gguf("qwen35moe", "q35-yarn/model.gguf", () => undefined);
gguf("qwen3moe", "q3moe/model.gguf", () => undefined);
gguf("mtp", "q35-bf16/model.gguf", () => undefined);
gguf("ollama", "q35-yarn/model.gguf", ({ metadata, tensors }) => {
  metadata.set("qwen35moe.attention.head_count_kv", [0, 1]);
  metadata.set("qwen35moe.ssm.v_head_reordered", false);
  tensors.push({ name: "v.patch_embd.weight", dtype: "F32", shape: [4, 4] });
});
gguf("tokenizer", "q35-yarn/model.gguf", (draft) => {
  draft.metadata = readGgufTokenizer(join(GOLDEN_MODELS, "q35-yarn/model.gguf"));
  draft.metadata.delete("tokenizer.chat_template");
});

for (const [name, from] of [["qwen35moe", "q35-yarn"], ["qwen3moe", "q3moe"], ["fp8", "q35-fp8"]] as const) {
  const folder = join(GOLDEN_MODELS, from, "hf");
  writeFileSync(join(corpus, "safetensors", name), safetensorsHeader(draftOfFolder(folder).tensors).header);
  copyFileSync(join(folder, "config.json"), join(corpus, "config", `${name}.json`));
}
