/** Files imported with { type: "file" } are paths. */
declare module "*.so" {
  const path: string;
  export default path;
}
declare module "*.gguf" {
  const path: string;
  export default path;
}
