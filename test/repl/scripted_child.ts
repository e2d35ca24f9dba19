/** An engine child without an engine: it answers every request with the token ids of its command line. */
import type { ChildMessage, MemoryUse, ParentMessage } from "../../src/engine/protocol.ts";

const tokens = process.argv[2]!.split(",").map(Number);
const send = (message: ChildMessage) => process.send!(message);

process.on("message", (message: ParentMessage) => {
  if (message.type === "open") send({ type: "opened", id: message.id, memory: {} as MemoryUse });
  if (message.type !== "generate") return;
  const { id } = message;
  const stats = {
    promptTokens: 1,
    cachedTokens: 0,
    answerTokens: tokens.length,
    draftedTokens: 0,
    acceptedTokens: 0,
    prefillMs: 1,
    decodeMs: 1,
  };
  send({ type: "step", events: tokens.map((token) => ({ type: "tokens", id, tokens: [token] })) });
  send({ type: "step", events: [{ type: "finished", id, reason: "stop", stats }] });
});
process.on("disconnect", () => process.exit());
