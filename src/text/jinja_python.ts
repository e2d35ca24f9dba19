/**
 * Where @huggingface/jinja 0.5.11 silently differs from Python's jinja2, corrected in this one place, on the library's interpreter:
 * strip/lstrip/rstrip obey their argument; == and != compare lists and mappings by content and never across types.
 * Each correction has a test, and a test that tells when the library has caught up. List: test/golden/text/template/README.md.
 */
import { Interpreter } from "@huggingface/jinja";

interface Value {
  type: string;
  value: unknown;
}

interface Node {
  type: string;
  [key: string]: unknown;
}

interface Evaluator {
  evaluate(node: Node, environment: unknown): Value;
  evaluateCallExpression(node: Node, environment: unknown): Value;
  evaluateBinaryExpression(node: Node, environment: unknown): Value;
}

const NUMERIC = ["IntegerValue", "FloatValue", "BooleanValue"];

/** Python's == on runtime values. */
function equal(a: Value, b: Value): boolean {
  if (NUMERIC.includes(a.type) && NUMERIC.includes(b.type)) return Number(a.value) === Number(b.value);
  if (a.type !== b.type) return false;
  if (a.type === "ArrayValue") {
    const [x, y] = [a.value as Value[], b.value as Value[]];
    return x.length === y.length && x.every((each, i) => equal(each, y[i]!));
  }
  if (a.type === "ObjectValue") {
    const [x, y] = [a.value as Map<string, Value>, b.value as Map<string, Value>];
    return x.size === y.size && [...x].every(([key, each]) => y.has(key) && equal(each, y.get(key)!));
  }
  return a.value === b.value;
}

/** Python's str.strip and its halves, with a set of characters. */
function strip(text: string, characters: string, method: string): string {
  const set = new Set(characters);
  const all = [...text];
  let begin = 0;
  let end = all.length;
  while (method !== "rstrip" && begin < end && set.has(all[begin]!)) begin++;
  while (method !== "lstrip" && end > begin && set.has(all[end - 1]!)) end--;
  return all.slice(begin, end).join("");
}

const STRIPS = ["strip", "lstrip", "rstrip"];

function stripCall(evaluator: Evaluator, node: Node, environment: unknown): Value | undefined {
  const callee = node["callee"] as Node;
  const args = node["args"] as Node[];
  const method = callee.type === "MemberExpression" && !callee["computed"]
    ? (callee["property"] as { value?: string }).value
    : undefined;
  if (method === undefined || !STRIPS.includes(method) || args.length !== 1) return undefined;
  const object = evaluator.evaluate(callee["object"] as Node, environment);
  const characters = evaluator.evaluate(args[0]!, environment);
  if (object.type !== "StringValue" || characters.type !== "StringValue") return undefined;
  const StringValue = object.constructor as new (value: string) => Value;
  return new StringValue(strip(object.value as string, characters.value as string, method));
}

let corrected = false;

/** Corrects the library's interpreter, once per process. */
export function correctJinja(): void {
  if (corrected) return;
  corrected = true;
  const prototype = Interpreter.prototype as unknown as Evaluator;
  const call = prototype.evaluateCallExpression;
  const binary = prototype.evaluateBinaryExpression;
  prototype.evaluateCallExpression = function (this: Evaluator, node, environment) {
    return stripCall(this, node, environment) ?? call.call(this, node, environment);
  };
  prototype.evaluateBinaryExpression = function (this: Evaluator, node, environment) {
    const operator = (node["operator"] as { value: string }).value;
    if (operator !== "==" && operator !== "!=") return binary.call(this, node, environment);
    const result = binary.call(this, node, environment);
    const same = equal(
      this.evaluate(node["left"] as Node, environment),
      this.evaluate(node["right"] as Node, environment),
    );
    result.value = operator === "==" ? same : !same;
    return result;
  };
}
