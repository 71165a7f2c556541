// Shows a call's tokens, colored by log-prob, advantage, version, or source. Only the visible lines are in the document, so a
// call with 200,000 tokens opens and scrolls like a short one.
import { hash } from "./address";
import { EpisodeTree, Run, Tokens, ask } from "./api";
import { h, link, number, replace, seconds, swatch } from "./dom";
import { asRole, beginning, describeCall, message, rewards, roleRewards } from "./message";
import { Path, Token } from "./token_path";
import { Scale, ScaleName, kScales, scaleOf } from "./token_scale";
import { TokenTip } from "./token_tip";
import { View } from "./view";

const kLine = 20;       // pixels
const kCharacters = 110;
const kAround = 20;     // lines drawn above and below the visible part
const kLikely: [number, number, number] = [60, 150, 90], kUnlikely: [number, number, number] = [210, 40, 40];
const kOwn = "rgba(194,87,26,0.28)", kEarlier = "rgba(60,110,200,0.28)";

type Colouring = "logprob" | "advantage" | "version" | "source";

// Returns the first token of each line. A line ends after a line break or when it is full.
export function lines(texts: string[]): number[] {
  const starts = [0];
  let width = 0;
  texts.forEach((text, i) => {
    width += text.length;
    if (!text.includes("\n") && width < kCharacters) return;
    width = 0;
    if (i + 1 < texts.length) starts.push(i + 1);
  });
  return starts;
}

function mix(share: number, from: [number, number, number], to: [number, number, number]): string {
  const s = Math.min(1, Math.max(0, share));
  return `rgba(${from.map((one, i) => Math.round(one + s * (to[i] - one))).join(",")},0.42)`;
}

function shown(text: string): string {
  return text.replace(/\n/g, "⏎").replace(/\t/g, "⇥   ");
}

interface CaretDocument {  // a browser has one of the two
  caretPositionFromPoint?(x: number, y: number): { offsetNode: Node; offset: number } | null;
  caretRangeFromPoint?(x: number, y: number): Range | null;
}

// Returns the index of the letter at a point, within its text node.
function letterAt(x: number, y: number): number {
  const carets = document as CaretDocument;
  const position = carets.caretPositionFromPoint?.(x, y);
  const range = position ? null : carets.caretRangeFromPoint?.(x, y);
  const node = position?.offsetNode ?? range?.startContainer, offset = position?.offset ?? range?.startOffset ?? 0;
  if (!node || offset === 0) return 0;
  // A caret is at the nearer edge of a letter.
  const letter = document.createRange();
  letter.setStart(node, offset - 1);
  letter.setEnd(node, offset);
  return letter.getBoundingClientRect().right > x ? offset - 1 : offset;
}

export class TokensView implements View {
  readonly title = "Tokens";
  readonly episodes = true;
  readonly follows = false;
  private path!: Path;
  private starts: number[] = [];
  private advantages = new Map<number, number>();
  private greatest = 1;
  private low = 0;
  private high = 0;
  private colouring: Colouring = "logprob";
  private scale!: Scale;
  private found: number[] = [];
  private foundAt = -1;
  private needle = "";
  private readonly box = h("div", { class: "tokens", tabindex: 0, role: "document", "aria-label": "tokens of the call" });
  private readonly sheet = h("div", { class: "sheet" });
  private readonly about = h("p", { class: "soft", "aria-live": "polite" }, "Point at a token, or focus the text and scroll.");
  private readonly legend = h("p", { class: "legend" });
  private readonly scales = h("select", { "aria-label": "scale of log-probs", onchange: () => this.rescale() },
    kScales.map(([name, text]) => h("option", { value: name }, text)));
  private readonly whole = h("div");
  private readonly tip = new TokenTip();
  private readonly rows = new Map<number, HTMLElement>();  // lines in the document, by number

  constructor(private readonly place: HTMLElement, private readonly wanted: URLSearchParams) {}

  async update(_: Run): Promise<void> {
    const id = this.wanted.get("id") ?? "";
    const call = this.wanted.get("call") ?? "0";
    const tokens = await ask<Tokens>("tokens", { id, call });
    this.path = new Path(tokens, Number(call));
    this.scale = scaleOf("4", this.path.logprob);
    this.starts = lines(tokens.text);
    const drawn = Array.from(this.path.version).filter((version) => version >= 0);
    this.low = drawn.reduce((least, version) => Math.min(least, version), Infinity);
    this.high = drawn.reduce((most, version) => Math.max(most, version), -Infinity);
    const find = h("input", { type: "search", "aria-label": "find in the text", placeholder: "find in the text",
      onkeydown: ((event: KeyboardEvent) => { if (event.key === "Enter") this.find((event.target as HTMLInputElement).value, event.shiftKey); }) as (event: never) => void });
    replace(this.place, h("h2", {}, `Call ${call}`),
      h("p", {}, link(hash("episode", { id }), `episode ${id.slice(0, 12)}`), ` · ${number(tokens.id.length)} tokens, ${number(drawn.length)} of them sampled`),
      h("div", { class: "legend", role: "group", "aria-label": "color by" }, "Color by ",
        (["logprob", "advantage", "version", "source"] as Colouring[]).map((kind) => h("button", { "aria-pressed": kind === this.colouring ? "true" : "false",
          onclick: ((event: MouseEvent) => this.choose(kind, event.currentTarget as HTMLElement)) as (event: never) => void }, kind === "logprob" ? "log-prob" : kind)),
        this.scales, find, h("span", { class: "soft" }, "Enter: next, Shift+Enter: previous")),
      this.legend, this.about, this.box, this.whole, this.tip.element);
    this.sheet.style.height = `${this.starts.length * kLine}px`;
    replace(this.box, this.sheet);
    this.box.addEventListener("scroll", () => { this.tip.hide(); this.draw(false); }, { passive: true });
    this.sheet.addEventListener("mousemove", (event) => this.point(event));
    this.box.addEventListener("mouseleave", () => this.tip.hide());
    this.draw(true);
    // Advantages are loaded with the episode. The text does not wait for them.
    ask<EpisodeTree>("episode", { id }).then((episode) => {
      for (const one of episode.calls) if (one.advantage !== undefined) this.advantages.set(one.call, one.advantage);
      this.greatest = Math.max(1e-9, ...[...this.advantages.values()].map(Math.abs));
      this.draw(true);
      this.describe(episode, Number(call));
    }, () => undefined);
  }

  // Shows what is recorded about the call as a whole: its place in the tree, its timings, its message, and the episode's
  // rewards.
  private describe(episode: EpisodeTree, wanted: number): void {
    const index = episode.calls.findIndex((one) => one.call === wanted);
    if (index < 0) return;
    const call = episode.calls[index];
    const beside = (at: number, word: string) => episode.calls[at] ? [link(hash("call", { id: episode.id, call: episode.calls[at].call }), word), " "] : null;
    replace(this.whole, h("p", {}, beside(index - 1, "previous call"), beside(index + 1, "next call")),
      beginning(call) ? h("p", {}, h("span", { class: "begins" }, beginning(call))) : null,
      h("p", { class: "soft" }, asRole(call) ? `${asRole(call).trim()}; ` : "", describeCall(call), `; from ${seconds(call.started_s)} to ${seconds(call.ended_s)} of the episode`,
        call.advantage === undefined ? "" : `; advantage ${number(call.advantage)}`, call.reward ? `; reward ${number(call.reward)}` : ""),
      rewards(episode),
      roleRewards(episode),
      h("details", {}, h("summary", {}, "The delivered message"), message(call.delivered)));
  }

  private choose(kind: Colouring, button: HTMLElement): void {
    this.colouring = kind;
    button.parentElement!.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", one === button ? "true" : "false"));
    this.scales.hidden = kind !== "logprob";
    this.draw(true);
  }

  private rescale(): void {
    this.scale = scaleOf((this.scales as HTMLSelectElement).value as ScaleName, this.path.logprob);
    this.draw(true);
  }

  private colour(at: number): string {
    const token = this.path.of(at);
    if (!token.sampled) return "";
    if (this.colouring === "source") return token.earlier ? kEarlier : kOwn;
    if (this.colouring === "logprob") return token.logprob === null || Number.isNaN(token.logprob) ? "" : mix(this.scale.share(token.logprob), kLikely, kUnlikely);
    if (this.colouring === "version") return mix((token.version - this.low) / Math.max(1, this.high - this.low), [60, 110, 200], [220, 140, 30]);
    const advantage = this.advantages.get(token.call);
    if (advantage === undefined) return "";
    return advantage >= 0 ? `rgba(50,150,80,${0.08 + 0.45 * (advantage / this.greatest)})` : `rgba(205,45,45,${0.08 + 0.45 * (-advantage / this.greatest)})`;
  }

  private showLegend(): void {
    const sampled = this.high >= this.low;
    const legends: Record<Colouring, HTMLElement[]> = {
      logprob: this.scale.legend.map(({ share, text }) => swatch(mix(share, kLikely, kUnlikely), text)),
      version: sampled ? [swatch(mix(0, [60, 110, 200], [220, 140, 30]), `version ${this.low}`), swatch(mix(1, [60, 110, 200], [220, 140, 30]), `version ${this.high}`)] : [],
      advantage: this.advantages.size && this.greatest <= 1e-9 ? [h("span", {}, "every advantage is 0")] : this.advantages.size ? [swatch("rgba(50,150,80,0.5)", `advantage ${number(this.greatest)}`), swatch("rgba(205,45,45,0.5)", `advantage ${number(-this.greatest)}`)] :
        [h("span", {}, "the advantages are unknown, because the episode is not trained or they depend on the whole batch")],
      source: [swatch(kOwn, "sampled in this call"), ...(this.path.hasEarlier ? [swatch(kEarlier, "sampled in an earlier call")] : [])],
    };
    replace(this.legend, h("span", {}, "no color: prompt"), this.path.hasEarlier ? h("span", { class: "t earlier" }, "dotted: sampled in an earlier call") : null, legends[this.colouring]);
  }

  // Draws the visible lines. `again` = also redraws lines that are already there.
  private draw(again: boolean): void {
    const first = Math.max(0, Math.floor(this.box.scrollTop / kLine) - kAround);
    const last = Math.min(this.starts.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / kLine) + kAround);
    if (again) this.showLegend();
    for (const [line, row] of this.rows) {
      if (!again && line >= first && line < last) continue;
      row.remove();
      this.rows.delete(line);
    }
    let next: HTMLElement | null = null;
    for (let line = last - 1; line >= first; --line) {
      let row = this.rows.get(line);
      if (!row) {
        row = this.row(line);
        this.rows.set(line, row);
        this.sheet.insertBefore(row, next);
      }
      next = row;
    }
  }

  // Creates a line. Neighbors with the same color share an element, because a byte prompt would need one per letter.
  private row(line: number): HTMLElement {
    const end = line + 1 < this.starts.length ? this.starts[line + 1] : this.path.tokens.id.length;
    const element = h("div", { class: "line", "style.top": `${line * kLine}px` }, h("span", { class: "n" }, this.starts[line]));
    const found = this.foundAt >= 0 ? this.found[this.foundAt] : -1;
    for (let at = this.starts[line]; at < end;) {
      const first = at, colour = this.colour(at), earlier = this.path.earlier(at);
      let text = shown(this.path.tokens.text[at++]);
      while (at < end && first !== found && at !== found && this.colour(at) === colour && this.path.earlier(at) === earlier) text += shown(this.path.tokens.text[at++]);
      element.append(h("span", { class: `t${first === found ? " found" : ""}${earlier ? " earlier" : ""}`, "data-at": first, "style.background": colour || "transparent" }, text));
    }
    return element;
  }

  private point(event: MouseEvent): void {
    const first = (event.target as HTMLElement).dataset.at;
    if (first === undefined) return this.tip.hide();
    let at = Number(first);
    for (let left = letterAt(event.clientX, event.clientY); left >= shown(this.path.tokens.text[at]).length && at + 1 < this.path.tokens.id.length;) {
      left -= shown(this.path.tokens.text[at++]).length;
    }
    const token = this.path.of(at), alternatives = this.path.alternatives(at), facts = `token ${at}, id ${token.id}: ${this.factsOf(token)}`;
    replace(this.about, facts, alternatives.length ? `; most likely: ${alternatives.map((one) => `“${shown(one.text)}” ${number(one.logprob)}`).join(", ")}` : "");
    if (token.sampled) this.tip.show(event.clientX, event.clientY, this.path.tokens.text[at], facts, token, alternatives);
    else this.tip.hide();
  }

  private factsOf(token: Token): string {
    if (!token.sampled) return "prompt";
    return `sampled in ${token.earlier ? "the earlier " : ""}call ${token.call}, version ${token.version}${token.mixed ? " with mixed KV" : ""}, log-prob ${number(token.logprob)}` +
      (this.advantages.has(token.call) ? `, advantage ${number(this.advantages.get(token.call))}` : "");
  }

  private find(needle: string, back: boolean): void {
    if (needle !== this.needle) {
      this.needle = needle;
      this.foundAt = -1;
      this.found = [];
      const all = this.path.tokens.text.join("").toLowerCase();
      const ends: number[] = [];
      let length = 0;
      for (const text of this.path.tokens.text) ends.push(length += text.length);
      for (let at = needle ? all.indexOf(needle.toLowerCase()) : -1, token = 0; at >= 0 && this.found.length < 10000; at = all.indexOf(needle.toLowerCase(), at + 1)) {
        while (ends[token] <= at) ++token;
        this.found.push(token);
      }
    }
    if (this.found.length === 0) return replace(this.about, needle ? `“${needle}” is not in the text` : "");
    this.foundAt = (this.foundAt + (back ? this.found.length - 1 : 1)) % this.found.length;
    const token = this.found[this.foundAt];
    let line = this.starts.findIndex((start) => start > token) - 1;
    if (line < 0) line = this.starts.length - 1;
    this.box.scrollTop = Math.max(0, line * kLine - this.box.clientHeight / 2);
    replace(this.about, `${this.foundAt + 1} of ${this.found.length}`);
    this.draw(true);
  }
}
