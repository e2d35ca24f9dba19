/** The demonstration model that is part of the program: a real file beside the sources, a path only this program can read once compiled. */
import demoPath from "../../models/demo/demo-q4_k.gguf" with { type: "file" };

/** For readers of model files; the engine child makes a mappable file of it where it has to. */
export function demoModelPath(): string {
  return demoPath;
}
