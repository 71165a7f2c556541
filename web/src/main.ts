// Draws the page: one view at a time, named by the address's fragment, and the run's state.
import { Address, hash, parse, show } from "./address";
import { Rejected, Run, ask } from "./api";
import { ConfigView } from "./config";
import { h, refresh, replace } from "./dom";
import { EpisodeView } from "./episode";
import { Episodes, GroupView, StepView } from "./episodes";
import { Overview } from "./overview";
import { describeRun } from "./run_state";
import { RunsView } from "./runs";
import { TimeView } from "./time";
import { TokensView } from "./tokens";
import { View } from "./view";
import { WindowView } from "./window";

const kPollMs = 3000;
const kTabs: [string, string][] = [["overview", "Overview"], ["window", "Window"], ["time", "Time and tokens"], ["episodes", "Episodes"],
  ["config", "Configuration"]];

const main = document.getElementById("main")!;
const state = document.getElementById("state")!;
let view: View | null = null;
let trouble: HTMLElement = h("div");  // above the view: why the view could not be drawn or redrawn
let drawn = false;                    // true = the view has been drawn once
let failures = 0;
let timer = 0;
let index = false;  // true = the page shows a folder of runs, or one of them
let address: Address = parse("");
let round = 0;  // counts address changes; answers for an earlier address are dropped

function make({ run, view: name, query: wanted }: Address, place: HTMLElement): View {
  if (index && !run) return new RunsView(place);
  switch (name) {
    case "config": return new ConfigView(place);
    case "window": return new WindowView(place);
    case "time": return new TimeView(place);
    case "episodes": return new Episodes(place, wanted);
    case "step": return new StepView(place, wanted);
    case "group": return new GroupView(place, wanted);
    case "episode": return new EpisodeView(place, wanted);
    case "call": return new TokensView(place, wanted);
    default: return new Overview(place);
  }
}

function say(text: string, bad = false): void {
  if (state.textContent !== text) state.textContent = text;
  state.className = bad ? "bad" : "";
}

async function update(): Promise<void> {
  const mine = round;
  try {
    const run = await ask<Run>("run");
    if (mine !== round || !view) return;
    if (run.index && !index) {
      index = true;
      return route();
    }
    const name = address.run || run.name;  // a copy of a run's folder has the name of the original in its configuration
    document.getElementById("name")!.textContent = name;
    const absent = view.episodes ? run.no_pool : undefined;
    if (!absent && (!drawn || view.follows !== false)) await view.update(run);
    if (mine !== round) return;
    document.title = `${view.title} · ${name}`;
    drawn = !absent;
    failures = 0;
    say(describeRun(run));
    refresh(trouble, absent ? h("p", {}, `There are no episodes to show: ${absent}.`) : null);
  } catch (error) {
    if (mine !== round) return;
    ++failures;
    const lost = error instanceof TypeError;  // no connection
    const text = lost ? "the run does not respond. It may have ended; `ingot view RUN` shows its files" :
      error instanceof Error ? error.message : String(error);
    say(text, true);
    if (!drawn) replace(trouble, h("p", { class: "error", role: "alert" }, text));
    if (error instanceof Rejected) return;
  } finally {
    if (mine === round) main.setAttribute("aria-busy", "false");
  }
  schedule();
}

function schedule(): void {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => {
    if (document.hidden) schedule();
    else void update();
  }, kPollMs * Math.min(10, 1 + failures));
}

function route(): void {
  address = parse(location.hash);
  index ||= address.run !== "";
  show(address.run);
  ++round;
  view?.close?.();
  replace(document.getElementById("nav")!, address.run ? h("a", { href: "#/" }, "All runs") : null,
    (index && !address.run ? [] : kTabs).map(([tab, title]) =>
      h("a", { href: hash(tab), "aria-current": tab === address.view ? "page" : undefined }, title)));
  const place = h("div");
  trouble = h("div");
  drawn = false;
  main.setAttribute("aria-busy", "true");
  replace(main, trouble, place);
  view = make(address, place);
  main.setAttribute("aria-label", view.title);
  main.focus({ preventScroll: false });
  window.scrollTo(0, 0);
  void update();
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(); });
window.addEventListener("hashchange", route);
route();
