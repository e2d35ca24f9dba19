/** The program's version: package.json's, the one place where it stands. */
import pack from "../../package.json" with { type: "json" };

export const VERSION: string = pack.version;
