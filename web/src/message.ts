// Draws messages, rewards, and times of calls for the group and episode views.
import { hash } from "./address";
import { Call, Episode, EpisodeTree, Message } from "./api";
import { Child, count, h, link, number, seconds } from "./dom";
import { rolesOf } from "./roles";

export function raw(text: string, kind = ""): HTMLElement {
  return h("pre", { class: `raw ${kind}` }, text);
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (Array.isArray(content)) return content.map((part) => textOf((part as { text?: unknown }).text ?? part)).join("\n");
  return JSON.stringify(content, null, 2);
}

export function message(one: Message | null): Child {
  if (!one) return h("p", { class: "soft" }, "No message was delivered.");
  const content = textOf(one.content);
  return [
    one.reasoning_content ? h("div", { class: "message think" }, h("span", { class: "soft" }, "reasoning"), raw(textOf(one.reasoning_content))) : null,
    content ? h("div", { class: "message" }, raw(content)) : null,
    (one.tool_calls ?? []).map((call) => h("div", { class: "message tool" },
      h("span", { class: "soft" }, "tool call "), h("b", {}, call.function?.name ?? "?"),
      raw(typeof call.function?.arguments === "string" ? call.function.arguments : JSON.stringify(call.function?.arguments ?? "", null, 2))))];
}

export function rewards(episode: Episode): Child {
  return h("p", {}, h("b", {}, `reward ${number(episode.reward)}`),
    episode.terms.length ? ` = ${episode.terms.map((term) => `${number(term.weight)} × ${term.term} ${number(term.value)}`).join(" + ")}` : "",
    Object.entries(episode.signals).sort().map(([name, value]) => h("span", { class: "soft" }, ` · ${name} ${number(value)}`)));
}

// Draws what each role in the episode earned; null = no call names a role.
export function roleRewards(episode: EpisodeTree): Child {
  const roles = rolesOf(episode);
  return roles.length ? h("p", { class: "roles" }, roles.map((one, i) => [i ? " · " : "", h("b", {}, one.role || "no role"),
    ` reward ${number(one.reward)} `, h("span", { class: "soft" }, `in ${count(one.calls, "call")}${one.trained ? "" : ", not trained"}`)])) : null;
}

export function describeCall(call: Call): string {
  return `${number(call.context_tokens)} prompt tokens (${number(call.cached_tokens)} from the cache), ${call.sampled_tokens} sampled, ${call.finish}; ` +
    `queue and prompt ${seconds(call.queue_s)}, decoding ${seconds(call.decode_s)}`;
}

// Returns how a call's branch began; empty = it continues another call in its thread. `before` is the call whose path it
// leaves.
export function beginning(call: Call, before?: Call): string {
  const thread = call.branch && call.branch !== before?.branch;
  const from = call.origin_call >= 0 ? ` of call ${call.origin_call}` : "";
  const words = [
    call.after_trunk ? "continues from the trunk" : "",
    call.origin === "summary" ? `continues from a summary: the answer${from}` : "",
    call.origin === "sub-agent" ? `sub-agent${thread ? ` ${call.branch}` : ""}${thread && call.parent_branch ? `, started by ${call.parent_branch}` : from ? `, started by a tool call${from}` : ""}` :
      thread ? `branch ${call.branch}` : "",
    call.fork_cause ? `fork: ${call.fork_cause}` : ""];
  return words.filter((word) => word).join(" · ");
}

export function callLink(episode: Episode, call: Call): HTMLElement {
  return link(hash("call", { id: episode.id, call: call.call }), `call ${call.call}`);
}

export function asRole(call: Call): string {
  return call.role ? ` as ${call.role}` : "";
}

// Draws a call's queue and decoding times on the episode's timeline.
export function timeline(call: Call, whole: number): HTMLElement {
  const at = (from: number, span: number, colour: string, title: string) =>
    h("span", { title, "style.left": `${(100 * from) / whole}%`, "style.width": `${Math.min(100, (100 * span) / whole)}%`, "style.background": colour });
  return h("div", { class: "timeline", role: "img", "aria-label": `begins at ${seconds(call.started_s)}, ends at ${seconds(call.ended_s)}` },
    at(call.started_s, call.queue_s, "var(--wait)", "queue and prompt"),
    at(call.ended_s - call.decode_s, call.decode_s, "var(--open)", "decoding"));
}
