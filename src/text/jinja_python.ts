/**
 * Where @huggingface/jinja 0.5.11 silently differs from Python's jinja2, corrected in this one place, on the library's interpreter:
 * strip/lstrip/rstrip obey their argument; == and != compare lists and mappings by content and never across types; % takes the sign of
 * its divisor; mappings are iterable and booleans numbers; capitalize and title lower the rest; length counts characters; trim knows
 * Python's white space; join reads attributes.
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
  evaluateTestExpression(node: Node, environment: unknown): Value;
  applyFilter(operand: Value, filter: Node, environment: unknown): Value;
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

/** What str.strip() takes for white space (Unicode White_Space plus the separators U+001C to U+001F; not U+FEFF). */
const PYTHON_SPACE =
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";

function capitalise(text: string): string {
  const [first = "", ...rest] = [...text];
  return first.toUpperCase() + rest.join("").toLowerCase();
}

const STRING_FILTERS: Record<string, (text: string) => string> = {
  capitalize: capitalise,
  title: (text) => text.replace(/[^\s\-({[<]+/g, capitalise),
  trim: (text) => strip(text, PYTHON_SPACE, "strip"),
};

/** join(separator, attribute=NAME) on a list of mappings: the list of those members, for the library to join. */
function joinedMembers(
  evaluator: Evaluator,
  operand: Value,
  call: { filter: Node; environment: unknown },
): Value | undefined {
  const args = (call.filter["args"] ?? []) as Node[];
  const named = args.find((each) =>
    each.type === "KeywordArgumentExpression" && (each["key"] as { value: string }).value === "attribute"
  );
  if (operand.type !== "ArrayValue" || named === undefined) return undefined;
  const key = evaluator.evaluate(named["value"] as Node, call.environment).value as string;
  const members = (operand.value as Value[]).map((each) => (each.value as Map<string, Value>).get(key)).filter((each) =>
    each !== undefined
  );
  const ArrayValue = operand.constructor as new (value: Value[]) => Value;
  return evaluator.applyFilter(
    new ArrayValue(members),
    { ...call.filter, args: args.filter((each) => each !== named) },
    call.environment,
  );
}

function filtered(
  evaluator: Evaluator,
  operand: Value,
  call: { filter: Node; environment: unknown },
): Value | undefined {
  const { filter } = call;
  if (filter.type === "CallExpression") {
    return (filter["callee"] as { value?: string }).value === "join"
      ? joinedMembers(evaluator, operand, call)
      : undefined;
  }
  const change = STRING_FILTERS[String(filter["value"])];
  if (operand.type !== "StringValue" || change === undefined) return undefined;
  const StringValue = operand.constructor as new (value: string) => Value;
  return new StringValue(change(operand.value as string));
}

/** text.startswith(prefix, start): the library ignores the start. */
function startsWithCall(evaluator: Evaluator, node: Node, environment: unknown): Value | undefined {
  const callee = node["callee"] as Node;
  const args = node["args"] as Node[];
  if (
    callee.type !== "MemberExpression" || (callee["property"] as { value?: string }).value !== "startswith" ||
    args.length !== 2
  ) return undefined;
  const object = evaluator.evaluate(callee["object"] as Node, environment);
  const [prefix, start] = args.map((each) => evaluator.evaluate(each, environment).value) as [string, number];
  if (object.type !== "StringValue") return undefined;
  const all = [...object.value as string];
  const result = evaluator.evaluateCallExpression({ ...node, args: args.slice(0, 1) }, environment);
  result.value = all.slice(start).join("").startsWith(prefix);
  return result;
}

/** Tests that Python answers otherwise. */
function isTrue(test: string, type: string): boolean {
  return (test === "iterable" && type === "ObjectValue") || (test === "number" && type === "BooleanValue");
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
    return stripCall(this, node, environment) ?? startsWithCall(this, node, environment) ??
      call.call(this, node, environment);
  };
  prototype.evaluateBinaryExpression = function (this: Evaluator, node, environment) {
    const operator = (node["operator"] as { value: string }).value;
    const result = binary.call(this, node, environment);
    if (operator === "%" && Number(result.value) !== 0) {
      const divisor = Number(this.evaluate(node["right"] as Node, environment).value);
      if (Number(result.value) < 0 !== divisor < 0) result.value = Number(result.value) + divisor;
    }
    if (operator !== "==" && operator !== "!=") return result;
    const same = equal(
      this.evaluate(node["left"] as Node, environment),
      this.evaluate(node["right"] as Node, environment),
    );
    result.value = operator === "==" ? same : !same;
    return result;
  };
  const test = prototype.evaluateTestExpression;
  const filter = prototype.applyFilter;
  prototype.evaluateTestExpression = function (this: Evaluator, node, environment) {
    const result = test.call(this, node, environment);
    const operand = this.evaluate(node["operand"] as Node, environment);
    if (isTrue((node["test"] as { value: string }).value, operand.type)) result.value = node["negate"] !== true;
    return result;
  };
  prototype.applyFilter = function (this: Evaluator, operand, node, environment) {
    const result = filtered(this, operand, { filter: node, environment });
    if (result !== undefined) return result;
    const plain = filter.call(this, operand, node, environment);
    if (node["value"] === "length" && operand.type === "StringValue") plain.value = [...operand.value as string].length;
    return plain;
  };
}
