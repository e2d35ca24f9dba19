/** Files imported with { type: "file" } are paths. */
declare module "*.txt" {
  const path: string;
  export default path;
}
