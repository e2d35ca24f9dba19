/** The engine child alone, as tests start it: what `surge engine-child` runs. */
import { runEngineChild } from "../../src/engine/host.ts";

runEngineChild();
