// Holds the tokens of a call and its prompt as columns. Pure.
import { Tokens } from "./api";

export interface Token { id: number; sampled: boolean; earlier: boolean; call: number; logprob: number | null; version: number; mixed: boolean }

export interface Alternative { id: number; text: string; logprob: number }

// Arrays with one entry per token, expanded from the runs in the answer.
export class Path {
  readonly sampled: Uint8Array;
  readonly call: Int32Array;
  readonly logprob: Float32Array;  // NaN = prompt token
  readonly version: Int32Array;    // -1 = prompt token
  readonly mixed: Uint8Array;
  readonly hasEarlier: boolean;
  private readonly first: Int32Array;  // index of a token's first alternative; -1 = none are recorded
  private readonly each: Uint8Array;   // number of alternatives
  // `wanted` is the call of these tokens. Earlier calls sampled parts of its prompt.
  constructor(readonly tokens: Tokens, private readonly wanted: number) {
    const count = tokens.id.length;
    this.hasEarlier = tokens.runs.some((run) => run.sampled && run.call !== wanted);
    this.sampled = new Uint8Array(count);
    this.call = new Int32Array(count).fill(-1);
    this.logprob = new Float32Array(count).fill(NaN);
    this.version = new Int32Array(count).fill(-1);
    this.mixed = new Uint8Array(count);
    this.first = new Int32Array(count).fill(-1);
    this.each = new Uint8Array(count);
    let at = 0, drawn = 0, run = 0, recorded = 0, left = tokens.versions[0]?.[1] ?? 0;
    for (const part of tokens.runs) {
      for (let i = 0; i < part.count; ++i, ++at) {
        if (!part.sampled) continue;
        this.sampled[at] = 1;
        this.call[at] = part.call;
        this.each[at] = part.alternatives ?? 0;
        this.first[at] = recorded;
        recorded += this.each[at];
        this.logprob[at] = tokens.logprob[drawn++] ?? NaN;
        while (left === 0 && run + 1 < tokens.versions.length) left = tokens.versions[++run][1];
        this.version[at] = tokens.versions[run]?.[0] ?? -1;
        this.mixed[at] = tokens.versions[run]?.[2] ?? 0;
        --left;
      }
    }
  }
  earlier(at: number): boolean {
    return this.sampled[at] === 1 && this.call[at] !== this.wanted;
  }
  of(at: number): Token {
    return { id: this.tokens.id[at], sampled: this.sampled[at] === 1, earlier: this.earlier(at), call: this.call[at], logprob: this.logprob[at], version: this.version[at], mixed: this.mixed[at] === 1 };
  }
  // Returns a token's recorded alternatives, most likely first.
  alternatives(at: number): Alternative[] {
    const { alternative, alternative_logprob: logprobs, alternative_text: texts } = this.tokens;
    return Array.from({ length: alternative ? this.each[at] : 0 }, (_, k) => {
      const place = this.first[at] + k, id = alternative![place];
      return { id, text: texts?.[id] ?? "", logprob: logprobs?.[place] ?? NaN };
    });
  }
}
