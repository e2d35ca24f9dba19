/**
 * Sequences kept between the turns of a conversation. It knows which tokens each holds; it never calls the engine.
 * A sequence with recurrent state cannot be shortened, so a kept one is of use only where all it holds begins the new conversation.
 */

export interface KeptSequence {
  sequence: number;
  tokens: number[];
}

function begins(tokens: number[], ids: number[]): boolean {
  return tokens.length < ids.length && tokens.every((token, i) => token === ids[i]);
}

export class Conversations {
  /** In order of last use: a Map remembers the order of insertion. */
  readonly #kept = new Map<string, KeptSequence>();

  /** Whether what is kept under the name begins `ids`, leaving at least one token to compute. */
  fits(conversation: string, ids: number[]): boolean {
    const kept = this.#kept.get(conversation);
    return kept !== undefined && begins(kept.tokens, ids);
  }

  take(conversation: string): KeptSequence | undefined {
    const kept = this.#kept.get(conversation);
    this.#kept.delete(conversation);
    return kept;
  }

  takeOldest(): KeptSequence | undefined {
    const oldest = this.#kept.keys().next();
    return oldest.done ? undefined : this.take(oldest.value);
  }

  /** Keeps a sequence; returns the one that was kept under the same name before. */
  keep(conversation: string, kept: KeptSequence): KeptSequence | undefined {
    const before = this.take(conversation);
    this.#kept.set(conversation, kept);
    return before;
  }
}
