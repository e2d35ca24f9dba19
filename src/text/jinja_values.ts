/**
 * Values of @huggingface/jinja's interpreter seen as Python sees them: equality by content, str() and repr(). Knows nothing of templates.
 */
import { Environment } from "@huggingface/jinja";

/** A value of the library; its classes are not exported, so `type` tells them apart. */
export interface Value {
  type: string;
  value: unknown;
}

/** Maps text to what it is compared as; see Shadows. */
export type Fold = (text: string) => string;

/** A JavaScript value (text, number, boolean, null, undefined, array, object) as a value of the library. */
export function valueOf(plain: unknown): Value {
  return new Environment().set("value", plain) as unknown as Value;
}

type ValueClass = new (value: unknown) => Value;
const ArrayValue = valueOf([]).constructor as ValueClass;
const FloatValue = valueOf(0.5).constructor as ValueClass;

/** A list of library values. */
export function listOf(values: Value[]): Value {
  return new ArrayValue(values);
}

/** A float even where the number is whole. */
export function floatOf(number: number): Value {
  return new FloatValue(number);
}

export function isText(value: Value): value is Value & { value: string } {
  return value.type === "StringValue";
}

export function isList(value: Value): value is Value & { value: Value[] } {
  return value.type === "ArrayValue" || value.type === "TupleValue";
}

export function isMapping(value: Value): value is Value & { value: Map<string, Value> } {
  return value.type === "ObjectValue";
}

/** Numbers and booleans: one kind to Python. */
export function isNumber(value: Value): boolean {
  return ["IntegerValue", "FloatValue", "BooleanValue"].includes(value.type);
}

/** Python's ==. */
export function equal(a: Value, b: Value, fold: Fold): boolean {
  if (isNumber(a) && isNumber(b)) return Number(a.value) === Number(b.value);
  if (a.type !== b.type) return false;
  if (isText(a) && isText(b)) return fold(a.value) === fold(b.value);
  if (isList(a) && isList(b)) {
    const others = b.value;
    return a.value.length === others.length && a.value.every((each, i) => equal(each, others[i]!, fold));
  }
  if (isMapping(a) && isMapping(b)) {
    const others = b.value;
    return a.value.size === others.size &&
      [...a.value].every(([key, each]) => others.has(key) && equal(each, others.get(key)!, fold));
  }
  return a.value === b.value;
}

/** Python's `item in list`, `part in text`, `key in mapping`; undefined where Python has no answer. */
export function contains(container: Value, item: Value, fold: Fold): boolean | undefined {
  if (isList(container)) return container.value.some((each) => equal(each, item, fold));
  if (!isText(item)) return undefined;
  if (isText(container)) return fold(container.value).includes(fold(item.value));
  if (isMapping(container)) return [...container.value.keys()].some((key) => fold(key) === fold(item.value));
  return undefined;
}

function floatText(number: number): string {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "nan" : number > 0 ? "inf" : "-inf";
  const size = Math.abs(number);
  const text = size >= 1e16 || (size !== 0 && size < 1e-4) ? number.toExponential() : String(number);
  if (/e/.test(text)) return text.replace(/e([+-])(\d)$/, "e$10$2");
  return text.includes(".") ? text : `${text}.0`;
}

/** Python's repr() of text: single quotes unless only those occur inside. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const names: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };
  const escaped = text.replace(/[\\\n\r\t]/g, (each) => names[each]!).replaceAll(quote, `\\${quote}`);
  return `${quote}${
    escaped.replace(/\p{Cc}/gu, (each) => `\\x${each.codePointAt(0)!.toString(16).padStart(2, "0")}`)
  }${quote}`;
}

/** Python's repr(). */
function repr(value: Value): string {
  if (isText(value)) return quoted(value.value);
  if (value.type === "ArrayValue") return `[${(value.value as Value[]).map(repr).join(", ")}]`;
  if (value.type === "TupleValue") {
    const items = (value.value as Value[]).map(repr);
    return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
  }
  if (isMapping(value)) {
    return `{${[...value.value].map(([key, each]) => `${quoted(key)}: ${repr(each)}`).join(", ")}}`;
  }
  return textOf(value);
}

/** Python's str(), which is what a template prints; nothing for something undefined. */
export function textOf(value: Value): string {
  if (isText(value)) return value.value;
  switch (value.type) {
    case "BooleanValue":
      return value.value === true ? "True" : "False";
    case "NullValue":
      return "None";
    case "UndefinedValue":
      return "";
    case "FloatValue":
      return floatText(value.value as number);
    case "ArrayValue":
    case "TupleValue":
    case "ObjectValue":
      return repr(value);
    default:
      return String(value.value);
  }
}
