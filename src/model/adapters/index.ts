/** The families SurgeLLM knows; the first adapter that matches a source builds its manifest. */
import type { Adapter } from "./adapter.ts";
import { qwen35moe } from "./qwen35moe.ts";
import { qwen3moe } from "./qwen3moe.ts";

export const ADAPTERS: readonly Adapter[] = [qwen35moe, qwen3moe];
