// Shows one episode: its calls with their times, and its tree.
import { hash } from "./address";
import { EpisodeTree, Run, TreeNode, ask } from "./api";
import { count, h, link, number, replace, seconds, table } from "./dom";
import { asRole, beginning, callLink, describeCall, message, raw, rewards, roleRewards, timeline } from "./message";
import { View } from "./view";

const kNodes = 400;  // tree nodes shown at a time

// Returns each run's nesting depth, which is the number of forks above it.
function nesting(nodes: TreeNode[]): number[] {
  const children = new Array<number>(nodes.length).fill(0);
  nodes.forEach((node) => { if (node.parent >= 0) children[node.parent]++; });
  const depth: number[] = [];
  nodes.forEach((node, i) => {
    depth[i] = node.parent < 0 ? 0 : depth[node.parent] + (children[node.parent] > 1 ? 1 : 0);
  });
  return depth;
}

// Returns, for each run, the first call whose path contains it, as an index in the episode's calls.
function firstCalls(episode: EpisodeTree): number[] {
  const index = new Map(episode.calls.map((call, i) => [call.call, i]));
  const first = episode.nodes.map((node) => Math.min(Infinity, ...node.ends.map((call) => index.get(call) ?? Infinity)));
  for (let i = first.length - 1; i >= 0; --i) {  // in pre-order a child follows its parent
    const { parent } = episode.nodes[i];
    if (parent >= 0) first[parent] = Math.min(first[parent], first[i]);
  }
  return first;
}

// Returns, for each run, how the branches that start there began. A forked call's branch starts where only its own
// continuations follow. A call without tokens of its own is shown where it ends.
function branchesBegin(episode: EpisodeTree, first: number[]): string[][] {
  const { calls, nodes } = episode;
  const index = new Map(calls.map((call, i) => [call.call, i]));
  const chains: number[][] = calls.map(() => []);  // by call: the runs that no earlier call has, starting at the root
  first.forEach((call, node) => { if (call !== Infinity) chains[call].push(node); });
  const continues = (from: number, call: number): boolean => {
    for (let at = call; at >= 0; at = index.get(calls[at].parent) ?? -1) if (at === from) return true;
    return false;
  };
  const after = (node: number): number => {  // returns the end of the runs below `node`, which follow it
    let end = node + 1;
    while (end < nodes.length && nodes[end].depth > nodes[node].depth) ++end;
    return end;
  };
  const alone = (call: number, node: number) => nodes.slice(node, after(node)).every((one) =>
    one.ends.every((ended) => continues(call, index.get(ended) ?? -1)));
  const begun: string[][] = nodes.map(() => []);
  calls.forEach((call, i) => {
    const [start] = chains[i];
    if (start === undefined) {
      const end = nodes.findIndex((node) => node.ends.includes(call.call));
      if (end >= 0) begun[end].push(`call ${call.call} again · ${beginning(call, calls[first[end]])}`);
      return;
    }
    const { parent } = nodes[start];
    const text = beginning(call, parent >= 0 ? calls[first[parent]] : undefined);
    if (text) begun[(call.fork_cause ? chains[i].find((node) => alone(i, node)) : undefined) ?? start].push(text);
  });
  return begun;
}

function sampledBy(episode: EpisodeTree, node: TreeNode): string {
  const calls = node.calls ?? [];
  const first = episode.calls.find((call) => call.call === calls[0]);
  return `, call ${calls.join(", ")}${first?.branch ? `, branch ${first.branch}` : ""}${first ? asRole(first) : ""}`;
}

function versions(node: TreeNode): string {
  return node.first_version === node.last_version ? `version ${node.first_version}` : `versions ${node.first_version}–${node.last_version}`;
}

export class EpisodeView implements View {
  readonly title = "Episode";
  readonly episodes = true;
  readonly follows = false;
  constructor(private readonly place: HTMLElement, private readonly wanted: URLSearchParams) {}

  async update(_: Run): Promise<void> {
    const episode = await ask<EpisodeTree>("episode", { id: this.wanted.get("id") ?? "" });
    const whole = Math.max(1e-3, episode.seconds, ...episode.calls.map((call) => call.ended_s));
    const roles = episode.calls.some((call) => call.role);
    const detail = h("div", { "aria-live": "polite" });
    const show = (index: number) => {
      const call = episode.calls[index];
      if (!call) return;
      replace(detail, h("div", { class: "card" },
        h("h3", {}, `Call ${call.call}${asRole(call)}`),
        beginning(call) ? h("p", {}, h("span", { class: "begins" }, beginning(call))) : null,
        h("p", { class: "soft" }, describeCall(call), call.parent >= 0 ? `; continues call ${call.parent}` : "",
          call.malformed ? "; its tool call is malformed" : "",
          call.trained ? "" : "; not trained", `; temperature ${number(call.temperature)}`,
          call.advantage === undefined ? "" : `; advantage ${number(call.advantage)}`, call.reward ? `; reward ${number(call.reward)}` : ""),
        h("p", {}, link(hash("call", { id: episode.id, call: call.call }), "its tokens")),
        message(call.delivered)));
    };
    replace(this.place, h("h2", {}, `Episode ${episode.id}`),
      h("p", {}, link(hash("group", { group: episode.group, kind: episode.kind }), `group ${episode.group}`),
        `, sample ${episode.sample}, attempt ${episode.attempt}: ${episode.state} after ${seconds(episode.seconds)}; scaffold ${episode.scaffold || "–"}, ` +
        `task ${episode.task}, ${count(episode.calls.length, "call")}, ${count(episode.sampled_tokens, "sampled token")}, ${number(episode.tree_tokens)} in its tree` +
        (episode.isolation ? `, sandbox ${episode.isolation}` : "")),
      episode.trunk ? h("p", {}, "It continues from a fork of its trunk, ", link(hash("episode", { id: episode.trunk }), `episode ${episode.trunk}`), ".") : null,
      episode.state === "forked" ? h("p", {}, "It is a trunk: the episodes of its ",
        link(hash("group", { group: episode.group, kind: episode.kind }), "group"), " continue from its last call.") : null,
      rewards(episode),
      roleRewards(episode),
      episode.terms.some((term) => term.detail) ? table("Reward terms", ["term", "#weight", "#value", "details"],
        episode.terms.map((term) => [term.term, number(term.weight), number(term.value), raw(term.detail)])) : null,
      episode.cause || episode.detail ? h("div", {}, h("b", {}, episode.cause), raw(episode.detail)) : null,
      episode.payload ? h("details", {}, h("summary", {}, "The task"), raw(episode.payload)) : null,
      h("div", { class: "split" },
        h("div", {}, table("Calls on the episode's timeline: queue and prompt, then decoding",
          ["call", ...(roles ? ["role", "#reward"] : []), "#sampled", "finish", "time", "message"],
          episode.calls.map((call, i) => [callLink(episode, call), ...(roles ? [call.role || "–", number(call.reward)] : []), call.sampled_tokens, call.finish, timeline(call, whole),
            h("button", { onclick: () => show(i), "aria-label": `show call ${call.call}` }, "show")])), detail),
        h("div", {}, h("h3", {}, "The tree"), this.tree(episode))));
    show(episode.calls.length - 1);
  }

  private tree(episode: EpisodeTree): HTMLElement {
    const depth = nesting(episode.nodes);
    const begun = branchesBegin(episode, firstCalls(episode));
    const list = h("ul", { class: "tree", tabindex: 0, "aria-label": "runs of tokens, forks indented" });
    const more = (from: number) => {
      episode.nodes.slice(from, from + kNodes).forEach((node, i) => list.append(h("li", { class: node.sampled ? "sampled" : "",
        "style.margin-left": `${Math.min(24, depth[from + i]) * 14}px` },
      begun[from + i].map((text) => [h("span", { class: "begins" }, text), " "]),
      h("span", { class: "soft" }, node.sampled ? `sampled ${count(node.tokens, "token")}, ${versions(node)}, log-prob ${number(node.logprob)}` +
        `${node.kv_mixed ? ", mixed KV" : ""}${sampledBy(episode, node)}` : `prompt, ${count(node.tokens, "token")}`,
      node.ends.length ? h("span", {}, " · ends ", node.ends.map((call) => [link(hash("call", { id: episode.id, call }), `call ${call}`), " "])) : null),
      raw(node.text))));
      if (from + kNodes >= episode.nodes.length) return;
      const button = h("button", { onclick: () => { item.remove(); more(from + kNodes); } }, `show more of ${episode.nodes.length} runs`);
      const item = h("li", {}, button);
      list.append(item);
    };
    more(0);
    return list;
  }
}
