// The page: one view at a time, named by the address's fragment, and the state of the run.
import { Refused, Run, ask } from "./api";
import { h, link, replace } from "./dom";
import { EpisodeView } from "./episode";
import { Episodes, GroupView, StepView } from "./episodes";
import { Overview } from "./overview";
import { TimeView } from "./time";
import { TokensView } from "./tokens";
import { View } from "./view";
import { WindowView } from "./window";

const kPollMs = 3000;
const kTabs: [string, string][] = [["overview", "Overview"], ["window", "Window"], ["time", "Time and tokens"], ["episodes", "Episodes"]];

const main = document.getElementById("main")!;
const state = document.getElementById("state")!;
let view: View | null = null;
let failures = 0;
let timer = 0;
let round = 0;  // of the address; an answer for an earlier one is dropped

function make(name: string, wanted: URLSearchParams, place: HTMLElement): View {
  switch (name) {
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

function describe(run: Run): string {
  if (!run.live) return "from the run's files";
  if (run.scheduler?.finished) return "all batches are made";
  return run.scheduler ? `running · step ${run.scheduler.next_step}` : "running";
}

async function update(first: boolean): Promise<void> {
  const mine = round;
  try {
    const run = await ask<Run>("run");
    if (mine !== round || !view) return;
    document.getElementById("name")!.textContent = run.name;
    if (first || view.follows !== false) await view.update(run);
    if (mine !== round) return;
    document.title = `${view.title} · ${run.name}`;
    failures = 0;
    say(describe(run));
  } catch (error) {
    if (mine !== round) return;
    ++failures;
    const text = error instanceof Error ? error.message : String(error);
    const lost = error instanceof TypeError;  // no connection
    say(lost ? "the run does not answer: it may have ended; `ingot view RUN` shows its files" : text, true);
    if (first && !lost) replace(main, h("p", { class: "error", role: "alert" }, text), h("p", {}, link("#/overview", "Overview")));
    if (error instanceof Refused) return;
  }
  schedule();
}

function schedule(): void {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => {
    if (document.hidden) schedule();
    else void update(false);
  }, kPollMs * Math.min(10, 1 + failures));
}

function route(): void {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = path || "overview";
  ++round;
  view?.close?.();
  replace(document.getElementById("nav")!, kTabs.map(([tab, title]) =>
    h("a", { href: `#/${tab}`, "aria-current": tab === name ? "page" : undefined }, title)));
  const place = h("div");
  replace(main, place);
  view = make(name, new URLSearchParams(query ?? ""), place);
  main.focus({ preventScroll: false });
  window.scrollTo(0, 0);
  void update(true);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(); });
window.addEventListener("hashchange", route);
route();
