// Shows where every second and every token went.
import { Part, Run, Time, ask } from "./api";
import { count, h, number, percent, refresh, seconds, swatch, table } from "./dom";
import { tokenParts } from "./token_parts";
import { View } from "./view";

const kColours = ["#c08a17", "#8a5ab5", "#2f74b5", "#3a9aa0", "#7a9a3a", "#c2571a", "#b53a5c", "#8f8a82", "#b3261e", "#5a6a7a", "#d0a0c0", "#404040"];

function bar(parts: Part[], whole: number, label: string): HTMLElement {
  const shown = parts.filter((part) => part.amount > 0);
  return h("div", {},
    h("div", { class: "bar", role: "img", "aria-label": `${label}: ${shown.map((part) => `${part.name} ${percent(part.amount / whole)}`).join(", ")}` },
      shown.map((part) => h("span", { title: part.name, "style.width": `${(100 * part.amount) / whole}%`,
        "style.background": kColours[parts.indexOf(part) % kColours.length] }))),
    h("p", { class: "legend" }, shown.map((part) => swatch(kColours[parts.indexOf(part) % kColours.length], part.name))));
}

export class TimeView implements View {
  readonly title = "Time and tokens";
  constructor(private readonly place: HTMLElement) {}

  async update(run: Run): Promise<void> {
    const time = await ask<Time>("time");
    if (time.steps === 0) {
      return refresh(this.place, h("h2", {}, "Time"), h("p", {}, run.facts.supervised ?
        "A supervised run does not wait for agents or engines. The overview shows its tokens per second." : "The record has no steps yet."));
    }
    const tokens = time.tokens;
    const amounts = tokenParts(tokens);
    const parted = time.parts.reduce((sum, part) => sum + part.amount, 0);
    refresh(this.place, h("h2", {}, "Where every second of trainer time went"),
      bar(time.parts, time.wall, "wall clock"),
      table(`${count(time.steps, "step")}, ${seconds(time.wall)} of wall-clock time. Measured parts: ${percent(time.measured / time.wall)} of it; ` +
        `the last two parts are the remainder. All parts together: ${percent(parted / time.wall)}`,
        ["part", "#time", "#share"], time.parts.map((part) => [part.name, seconds(part.amount), percent(part.amount / time.wall)])),
      h("h2", {}, "What the trainer waited for"),
      h("p", { class: "soft" }, `The last ${count(time.wait_steps, "step")}. A wait ends with the batch's last group; its cause is what that group's last episode did during the wait.`),
      time.wait_explained > 0 ? [bar(time.wait_causes, time.wait_explained, "waits"),
        table("Waits by cause", ["cause", "#time", "#share"],
          time.wait_causes.map((part) => [part.name, seconds(part.amount), percent(part.amount / time.wait_explained)]))] :
        h("p", {}, "The trainer did not wait."),
      h("h2", {}, "The engines"),
      h("p", {}, time.engine_total ? `They were idle for ${percent(time.engine_idle / time.engine_total)} of ${seconds(time.engine_total)}.` :
        "The record does not show their idle time."),
      h("h2", {}, "Where every sampled token went"),
      bar(amounts, Math.max(1, tokens.sampled), "sampled tokens"),
      table(`${number(tokens.sampled)} tokens were sampled, according to the engines. ${tokens.dropped_groups_counted} of ${tokens.dropped_groups} dropped and failed groups are counted so far; groups with deleted trees cannot be counted.`,
        ["what", "#tokens", "#share"], amounts.map((part) => [part.name, number(part.amount), percent(part.amount / Math.max(1, tokens.sampled))])),
      table("Tokens in the trainer's passes", ["what", "#tokens"], [
        ["in all calls, with their contexts", number(tokens.unmerged)],
        ["after merging shared prefixes", number(tokens.merged)],
        ["computed; a prefix counts once for each rank that needs it", number(tokens.computed)],
        ["recomputed by several ranks", number(Math.max(0, tokens.computed - tokens.merged))]]));
  }
}
