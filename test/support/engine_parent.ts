/** A parent that prints its engine child's process id and lets the child work for ever: to be killed by a test. */
import { readModel } from "../../src/model/source.ts";
import { enginePlan, GOLDEN_MODEL, greedyRequest, testEngine } from "./engine.ts";

const engine = testEngine();
await engine.open(readModel(GOLDEN_MODEL), enginePlan({ context: 1 << 20 }));
const generation = engine.generate(greedyRequest([1, 2, 3], { maxTokens: 1 << 20 }));
for await (const _ of generation) {
  process.stdout.write(`${engine.pid}\n`);
  break;
}
await new Promise(() => {});
