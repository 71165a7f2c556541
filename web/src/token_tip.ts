// Draws the tooltip for a token: what was recorded for it, including the most likely alternatives if any.
import { h, number, replace } from "./dom";
import { Alternative, Token } from "./token_path";

export class TokenTip {
  // The text above the tokens has the same facts for screen readers.
  readonly element = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });

  // Shows the token's facts below the point in the page. `facts` is one line.
  show(x: number, y: number, text: string, facts: string, token: Token, alternatives: Alternative[]): void {
    const row = (one: Alternative) => h("tr", { class: one.id === token.id ? "drawn" : "" },
      h("td", {}, h("span", { class: "raw" }, visible(one.text))), h("td", { class: "num" }, number(one.logprob)),
      h("td", { class: "num" }, share(one.logprob)),
      h("td", {}, h("span", { class: "share", "style.width": `${Math.round(80 * Math.exp(one.logprob))}px` })));
    const listed = alternatives.some((one) => one.id === token.id);
    replace(this.element, h("p", {}, h("b", { class: "raw" }, visible(text)), ` ${facts}`),
      alternatives.length ? h("table", {}, h("thead", {}, h("tr", {}, ["most likely", "log-prob", "probability", ""].map((title) => h("th", {}, title)))),
        h("tbody", {}, alternatives.map(row), listed ? null : row({ id: token.id, text, logprob: token.logprob ?? NaN }))) : null);
    this.element.hidden = false;
    const { innerWidth, innerHeight } = window, { width, height } = this.element.getBoundingClientRect();
    this.element.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - width - 12))}px`;
    this.element.style.top = `${y + 22 + height > innerHeight ? Math.max(8, y - height - 12) : y + 22}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}

function share(logprob: number): string {
  return Number.isFinite(logprob) ? `${(100 * Math.exp(logprob)).toFixed(1)}%` : "–";
}

// Returns the text with visible whitespace, so that a single-space token can be seen.
function visible(text: string): string {
  return text === "" ? "(part of a character)" : text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣");
}
