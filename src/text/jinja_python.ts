/**
 * Where @huggingface/jinja 0.5.11 differs from Python's jinja2 without saying so, corrected in this one place, on the library's
 * interpreter; jinja_values.ts and jinja_strings.ts say how Python does it.
 *
 * Corrected: methods of text obey their arguments; == and != compare by content and never across types, `in` likewise; % takes the sign
 * of its divisor; values print as Python's str(); mappings are iterable and booleans numbers; filters of text, unique and
 * join; what a loop printed before break or continue is kept. Also
 * accepted, being as common: `~` with none, comparing texts, text times number, filters d, count, list, first of nothing, map('name').
 * Each correction has a test, and a test that tells when the library has caught up. List: test/golden/text/template/README.md.
 */
import { Interpreter, type Template } from "@huggingface/jinja";
import { TEXT_FILTERS, TEXT_METHODS, type TextCall } from "./jinja_strings.ts";
import {
  contains,
  equal,
  floatOf,
  type Fold,
  isList,
  isMapping,
  isNumber,
  isText,
  listOf,
  textOf,
  type Value,
  valueOf,
} from "./jinja_values.ts";

interface Node {
  type: string;
  [key: string]: unknown;
}

/** The library's interpreter as it is inside; its declarations call these private. */
interface Evaluator {
  evaluate(node: Node | undefined, environment: unknown): Value;
  evaluateArguments(args: Node[], environment: unknown): [Value[], Map<string, Value>];
  evaluateBlock(nodes: Node[], environment: unknown): Value;
  evaluateFor(node: Node, environment: unknown): Value;
  evaluateCallExpression(node: Node, environment: unknown): Value;
  evaluateBinaryExpression(node: Node, environment: unknown): Value;
  evaluateTestExpression(node: Node, environment: unknown): Value;
  applyFilter(operand: Value, filter: Node, environment: unknown): Value;
}

/** How text is compared in the rendering under way. Rendering is synchronous, so there is one at a time. */
let fold: Fold = (text) => text;

/** A node that is evaluated already: what has side effects must not be evaluated twice. */
function done(value: Value): Node {
  return { type: "Evaluated", value };
}

/** Nodes that print nothing themselves; every other node is an expression. */
const SILENT = new Set(["Set", "Macro", "Comment"]);

function printed(node: Node, value: Value): string {
  return SILENT.has(node.type) ? "" : textOf(value);
}

/** What the library throws at break and continue. `text`: what the loop's body had printed by then, which the library forgets. */
interface LoopControl {
  text?: string;
}

function controlClass(type: "Break" | "Continue"): new () => LoopControl {
  const interpreter = new Interpreter() as unknown as Evaluator;
  try {
    interpreter.evaluate({ type }, undefined);
  } catch (thrown) {
    return (thrown as LoopControl).constructor as new () => LoopControl;
  }
  throw new Error(`the template library does not know ${type}`);
}

const BREAK = controlClass("Break");
const CONTINUE = controlClass("Continue");

function leavesLoop(thrown: unknown): thrown is LoopControl {
  return thrown instanceof BREAK || thrown instanceof CONTINUE;
}

/** One turn of a loop. A break prints what came before it and takes effect when the next turn begins. */
function loopBody(evaluator: Evaluator, node: Node, environment: unknown): Value {
  if (node["broken"] !== undefined) throw node["broken"];
  try {
    return evaluator.evaluateBlock(node["body"] as Node[], environment);
  } catch (thrown) {
    if (!leavesLoop(thrown)) throw thrown;
    if (thrown instanceof BREAK) node["broken"] = new BREAK();
    return valueOf(thrown.text ?? "");
  }
}

/** The plain value of an argument: text, number, boolean, null or a list of those. */
function plain(value: Value): unknown {
  return isList(value) ? value.value.map(plain) : value.value ?? null;
}

function textCall(evaluator: Evaluator, args: Node[], environment: unknown): TextCall {
  const [positional, named] = evaluator.evaluateArguments(args, environment);
  return {
    args: positional.map(plain),
    named: new Map([...named].map(([key, value]) => [key, plain(value)])),
    fold,
  };
}

/** Python's % on numbers: the sign of the divisor. */
function modulo(left: Value, right: Value): Value | undefined {
  if (!isNumber(left) || !isNumber(right) || Number(right.value) === 0) return undefined;
  const [a, b] = [Number(left.value), Number(right.value)];
  const rest = a - Math.floor(a / b) * b;
  return [left, right].some((each) => each.type === "FloatValue") ? floatOf(rest) : valueOf(rest);
}

function order(a: string, b: string): number {
  return Buffer.compare(Buffer.from(fold(a)), Buffer.from(fold(b)));
}

const COMPARE: Record<string, (difference: number) => boolean> = {
  "<": (difference) => difference < 0,
  "<=": (difference) => difference <= 0,
  ">": (difference) => difference > 0,
  ">=": (difference) => difference >= 0,
};

/** Longest text that repetition may make: a template is not trusted. */
const REPEATED_MAX = 1 << 20;

function repeated(text: string, times: number): Value {
  if (text.length * times > REPEATED_MAX) throw new Error("a text is repeated too often");
  return valueOf(text.repeat(Math.max(0, times)));
}

/** What Python makes of an operator where the library makes something else; undefined: ask the library. */
function operated(operator: string, left: Value, right: Value): Value | undefined {
  const negated = operator === "!=" || operator === "not in";
  if (operator === "==" || operator === "!=") return valueOf(equal(left, right, fold) !== negated);
  if (operator === "in" || operator === "not in") {
    const inside = contains(right, left, fold);
    return inside === undefined ? undefined : valueOf(inside !== negated);
  }
  if (operator === "~") return valueOf(textOf(left) + textOf(right));
  if (operator === "%") return modulo(left, right);
  if (operator === "*" && isText(left) && right.type === "IntegerValue") {
    return repeated(left.value, Number(right.value));
  }
  if (isText(left) && isText(right) && COMPARE[operator] !== undefined) {
    return valueOf(COMPARE[operator](order(left.value, right.value)));
  }
  return undefined;
}

/** Python's `unique` filter: the first of those equal, texts regardless of case. */
function unique(items: Value[]): Value {
  const key = (value: Value) => isText(value) ? valueOf(value.value.toLowerCase()) : value;
  return listOf(items.filter((item, i) => items.findIndex((each) => equal(key(each), key(item), fold)) === i));
}

const FILTER_ALIASES: Record<string, string> = { d: "default", count: "length" };

interface FilterCall {
  name: string;
  args: Node[];
  environment: unknown;
}

/** Filters of lists: join prints members as Python does and reads attributes; map takes a filter's name. */
function listFilter(evaluator: Evaluator, items: Value[], { name, args, environment }: FilterCall): Value | undefined {
  if (name === "unique" && args.length === 0) return unique(items);
  if (name === "string") return valueOf(textOf(listOf(items)));
  if ((name === "first" || name === "last") && items.length === 0) return valueOf(undefined);
  if (name !== "join" && name !== "map") return undefined;
  const [positional, named] = evaluator.evaluateArguments(args, environment);
  if (name === "map") {
    const [filter] = positional;
    if (filter === undefined) return undefined;
    return listOf(
      items.map((each) =>
        evaluator.applyFilter(each, { type: "Identifier", value: String(filter.value) }, environment)
      ),
    );
  }
  const key = named.get("attribute") ?? positional[1];
  const members = key === undefined
    ? items
    : items.map((each) =>
      isMapping(each) ? each.value.get(String(key.value)) ?? valueOf(undefined) : valueOf(undefined)
    );
  const separator = named.get("d") ?? positional[0] ?? valueOf("");
  return valueOf(members.map(textOf).join(textOf(separator)));
}

/** What Python makes of a filter where the library makes something else. */
function filtered(evaluator: Evaluator, operand: Value, call: FilterCall): Value | undefined {
  if (isText(operand)) {
    const filter = TEXT_FILTERS.get(call.name);
    return filter && valueOf(filter(operand.value, textCall(evaluator, call.args, call.environment)));
  }
  if (isList(operand)) return listFilter(evaluator, operand.value, call);
  if (isMapping(operand) && call.name === "list") return valueOf([...operand.value.keys()]);
  if (call.name === "string") return valueOf(textOf(operand));
  if (operand.type === "UndefinedValue" && call.name === "length") return valueOf(0);
  return undefined;
}

/** Tests that Python answers otherwise. */
function tested(test: string, operand: Value): boolean {
  return (test === "iterable" && isMapping(operand)) || (test === "number" && operand.type === "BooleanValue");
}

type Methods = { [Name in keyof Evaluator]: (original: Evaluator[Name]) => Evaluator[Name] };

const CORRECTIONS: Partial<Methods> = {
  evaluate: (original) =>
    function (this: Evaluator, node, environment) {
      if (node?.type === "Evaluated") return node["value"] as Value;
      return node?.type === "LoopBody" ? loopBody(this, node, environment) : original.call(this, node, environment);
    },
  evaluateBlock: () =>
    function (this: Evaluator, nodes, environment) {
      let text = "";
      try {
        for (const node of nodes) text += printed(node, this.evaluate(node, environment));
      } catch (thrown) {
        if (leavesLoop(thrown)) thrown.text = text + (thrown.text ?? "");
        throw thrown;
      }
      return valueOf(text);
    },
  evaluateFor: (original) =>
    function (this: Evaluator, node, environment) {
      return original.call(this, { ...node, body: [{ type: "LoopBody", body: node["body"] }] }, environment);
    },
  evaluateCallExpression: (original) =>
    function (this: Evaluator, node, environment) {
      const callee = node["callee"] as Node;
      if (callee.type !== "MemberExpression" || callee["computed"] === true) {
        return original.call(
          this,
          node,
          environment,
        );
      }
      const object = this.evaluate(callee["object"] as Node, environment);
      const method = TEXT_METHODS.get((callee["property"] as { value: string }).value);
      if (isText(object) && method !== undefined) {
        return valueOf(method(object.value, textCall(this, node["args"] as Node[], environment)));
      }
      return original.call(this, { ...node, callee: { ...callee, object: done(object) } }, environment);
    },
  evaluateBinaryExpression: (original) =>
    function (this: Evaluator, node, environment) {
      const operator = (node["operator"] as { value: string }).value;
      if (operator === "and" || operator === "or") return original.call(this, node, environment);
      const left = this.evaluate(node["left"] as Node, environment);
      const right = this.evaluate(node["right"] as Node, environment);
      return operated(operator, left, right) ??
        original.call(this, { ...node, left: done(left), right: done(right) }, environment);
    },
  evaluateTestExpression: (original) =>
    function (this: Evaluator, node, environment) {
      const operand = this.evaluate(node["operand"] as Node, environment);
      if (tested((node["test"] as { value: string }).value, operand)) return valueOf(node["negate"] !== true);
      return original.call(this, { ...node, operand: done(operand) }, environment);
    },
  applyFilter: (original) =>
    function (this: Evaluator, operand, filter, environment) {
      const called = filter.type === "CallExpression";
      const identifier = (called ? filter["callee"] : filter) as Node;
      const written = String(identifier["value"]);
      const name = FILTER_ALIASES[written] ?? written;
      const args = called ? filter["args"] as Node[] : [];
      const renamed = { ...identifier, value: name };
      return filtered(this, operand, { name, args, environment }) ??
        original.call(this, operand, called ? { ...filter, callee: renamed } : renamed, environment);
    },
};

let corrected = false;

/** Replaces the library's methods, once per process. */
function correctInterpreter(): void {
  if (corrected) return;
  corrected = true;
  const prototype = Interpreter.prototype as unknown as Record<string, unknown>;
  for (const [name, correct] of Object.entries(CORRECTIONS)) {
    prototype[name] = (correct as (original: unknown) => unknown)(prototype[name]);
  }
}

/** Renders as Python's jinja2 would. Texts that `folding` maps to the same are equal to the template. Throws what the template raises. */
export function renderTemplate(
  template: Template,
  context: Record<string, unknown>,
  folding: Fold = (text) => text,
): string {
  correctInterpreter();
  const before = fold;
  fold = folding;
  try {
    return template.render(context);
  } finally {
    fold = before;
  }
}
