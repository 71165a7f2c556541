// Shows lists of episodes with their filters, the groups in a step, and a group's episodes side by side.
import { hash } from "./address";
import { Episode, Group, Run, ask } from "./api";
import { Child, h, link, number, replace, seconds, table } from "./dom";
import { Order, clicked, inOrder, kColumns } from "./episode_order";
import { asRole, beginning, callLink, describeCall, message, raw, rewards, roleRewards } from "./message";
import { View } from "./view";

interface List { episodes: Episode[]; next: string | null; looked_at: number }

function row(episode: Episode): Child[] {
  return [link(hash("episode", { id: episode.id }), episode.id.slice(0, 12)),
    link(hash("group", { group: episode.group, kind: episode.kind }), episode.group), episode.sample, episode.attempt, episode.state,
    number(episode.reward), seconds(episode.seconds), episode.task, episode.domain, episode.scaffold, episode.cause || episode.detail.slice(0, 80)];
}

export class Episodes implements View {
  readonly title = "Episodes";
  readonly episodes = true;
  readonly follows = false;
  private order: Order = { column: -1, descending: false };
  constructor(private readonly place: HTMLElement, private readonly wanted: URLSearchParams) {}

  async update(run: Run): Promise<void> {
    const list = h("div", { "aria-live": "polite" });
    replace(this.place, h("h2", {}, "Episodes"), this.form(run), list);
    await this.load(list, []);
  }

  private form(run: Run): HTMLElement {
    const field = (name: string, label: string, type = "text") =>
      h("label", {}, label, h("input", { name, type, step: "any", value: this.wanted.get(name) ?? "" }));
    const choice = (name: string, label: string, values: string[]) =>
      h("label", {}, label, h("select", { name }, values.map((value) =>
        h("option", { value, selected: (this.wanted.get(name) ?? "") === value }, value || "any"))));
    const form = h("form", { class: "filter", role: "search", onsubmit: ((event: SubmitEvent) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(form as HTMLFormElement)) as Record<string, string>;
      location.hash = hash("episodes", values);
    }) as (event: never) => void },
    choice("kind", "kind", ["train", "eval"]), field("step", "step", "number"), field("version", "version (eval)", "number"),
    field("reward_min", "reward from", "number"), field("reward_max", "to", "number"),
    choice("state", "state", ["", "open", "finished", "failed", "infrastructure failed", "forked", "fenced"]),
    choice("scaffold", "scaffold", ["", ...run.facts.scaffolds]), field("domain", "domain"), field("task", "task"),
    field("cause", "cause of failure"), field("fork", "fork cause (any)"), field("text", "text in a call"),
    h("button", { type: "submit" }, "Search"));
    return form;
  }

  private async load(place: HTMLElement, before: Episode[], after = "", looked = 0): Promise<void> {
    const page = await ask<List>("episodes", { ...Object.fromEntries(this.wanted), after });
    this.show(place, [...before, ...page.episodes], page.next, looked + page.looked_at);
  }

  private show(place: HTMLElement, all: Episode[], next: string | null, read: number): void {
    const choose = (column: number) => {
      this.order = clicked(this.order, column);
      this.show(place, all, next, read);
      place.querySelectorAll<HTMLElement>("th button")[column].focus();
    };
    replace(place, table(`${all.length} of ${read} episodes read so far match`, kColumns.map(([title]) => title), inOrder(all, this.order).map(row), { ...this.order, choose }),
      next === null ? h("p", { class: "soft" }, "End of the list.") :
        h("p", {}, h("button", { onclick: () => void this.load(place, all, next, read) }, "Keep searching")));
  }
}

interface Step { step: number; groups: { group: number; task?: string; domain?: string; returns?: number[]; version?: number }[] }

export class StepView implements View {
  readonly title = "Step";
  readonly episodes = true;
  readonly follows = false;
  constructor(private readonly place: HTMLElement, private readonly wanted: URLSearchParams) {}

  async update(run: Run): Promise<void> {
    const step = await ask<Step>("step", { step: this.wanted.get("step") ?? "" });
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    replace(this.place, h("h2", {}, `Step ${step.step}`),
      h("p", {}, step.step > 0 ? link(hash("step", { step: step.step - 1 }), "previous step") : null, " ",
        run.last && step.step < run.last.step ? link(hash("step", { step: step.step + 1 }), "next step") : null, " ",
        link(hash("episodes", { step: step.step }), "its episodes")),
      table("Groups in its batch", ["group", "task", "domain", "#version", "#reward", "returns"],
        step.groups.map((group) => [link(hash("group", { group: group.group }), group.group), group.task ?? "", group.domain ?? "",
          group.version ?? "", number(group.returns ? mean(group.returns) : undefined), (group.returns ?? []).map((one) => number(one)).join(", ")])));
  }
}

export class GroupView implements View {
  readonly title = "Group";
  readonly episodes = true;
  readonly follows = false;
  constructor(private readonly place: HTMLElement, private readonly wanted: URLSearchParams) {}

  async update(_: Run): Promise<void> {
    const group = await ask<Group>("group", { group: this.wanted.get("group") ?? "", kind: this.wanted.get("kind") ?? "train" });
    const step = group.step ?? -1;
    replace(this.place, h("h2", {}, `Group ${group.group}`),
      h("p", {}, `Task ${group.task}; `, step >= 0 ? link(hash("step", { step }), `trained in step ${step}`) : group.state ?? "held out",
        group.reason ? `: ${group.reason}` : ""),
      h("details", {}, h("summary", {}, "The task"), raw(group.payload)),
      h("div", { class: "side", tabindex: 0, role: "region", "aria-label": "episodes side by side" },
        group.episodes.map((episode) => h("article", { class: "card" },
          h("h3", {}, link(hash("episode", { id: episode.id }), `sample ${episode.sample}`), ` · ${episode.state} · ${seconds(episode.seconds)}`),
          episode.trunk ? h("p", { class: "soft" }, "from the trunk ", link(hash("episode", { id: episode.trunk }), episode.trunk.slice(0, 12))) : null,
          rewards(episode),
          roleRewards(episode),
          episode.detail ? raw(episode.detail) : null,
          episode.calls.map((call) => h("section", {},
            h("p", { class: "soft" }, callLink(episode, call), asRole(call), " ", beginning(call) ? h("span", { class: "begins" }, beginning(call)) : null, call.advantage === undefined ? "" : ` advantage ${number(call.advantage)}`, call.reward ? ` reward ${number(call.reward)}` : "", " · ", describeCall(call)),
            message(call.delivered)))))));
  }
}
