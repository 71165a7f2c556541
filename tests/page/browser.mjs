// Opens the page of a run in a headless browser: browser.mjs live|files|index|many|empty|texts LINK FOLDER [EPISODES].
// Saves screenshots in FOLDER. EPISODES is JSON with the episodes for `texts`. Exits with 1 and one line for the first failed
// check.
import { Session, check } from "./session.mjs";
import { keepsFocus, keyboard, narrow, plain, rules } from "./reading.mjs";
import { manyRuns, runs } from "./index.mjs";
import { hostileText, longEpisode } from "./texts.mjs";
import { branches, drill, links, lost, onePoint, overview, straggler, tabs, tenTabs, terms } from "./views.mjs";

const [kind, link, folder, json] = process.argv.slice(2);
const session = new Session(link, folder);

// An address of each view, from links that the page shows.
async function everyView() {
  const { page } = session;
  const first = async (selector) => page.locator(selector).first().getAttribute("href");
  const views = { overview: "#/overview", window: "#/window", time: "#/time", episodes: "#/episodes", config: "#/config", step: "#/step?step=0" };
  await session.open(views.step);
  views.group = await first("td a");
  await session.open(views.group);
  views.episode = await first("article.card h3 a");
  await session.open(views.episode);
  views.call = await first("a:has-text('its tokens')");
  return views;
}

const kWalks = {
  async live() {
    await overview(session, kind);
    await drill(session, kind);
    await tabs(session, kind);
    await straggler(session);
    await terms(session, kind);
    await keepsFocus(session);
    await tenTabs(session);
    await lost(session);
  },
  async launched() {
    await overview(session, kind);
    await links(session, 30);
  },
  async files() {
    await overview(session, kind);
    await onePoint(session);
    await drill(session, kind);
    await tabs(session, kind);
    await terms(session, kind);
    await branches(session, kind);
    await links(session);
    const views = await everyView();
    await rules(session, views);
    for (const hash of Object.values(views)) await keyboard(session, hash);
    await narrow(session, views);
  },
  async index() {
    await runs(session);
  },
  async many() {
    await manyRuns(session);
  },
  async plain() {
    await session.browser.close();
    await plain(link, folder);
  },
  // A run that has no step yet, or lost its record.
  async empty() {
    await session.page.goto(link);
    for (const view of ["overview", "window", "time", "episodes"]) {
      await session.open(`#/${view}`);
      check((await session.page.locator("main [role=alert]").count()) === 0, `${view} has a fault`);
      await session.shot(`empty-${view}`);
      await session.accessible(`an empty ${view}`);
    }
    session.expected = /status of 404/;
    await session.open("#/step?step=0");
    check((await session.page.locator("main [role=alert]").textContent()).includes("has no batch 0"), "a step that is not there says nothing");
    await session.shot("empty-step");
    session.expected = null;
  },
  async texts() {
    const { hostile, long } = JSON.parse(json);
    await session.page.goto(link);
    await hostileText(session, hostile);
    await longEpisode(session, long);
  },
};

let code = 0;
await session.start();
try {
  await kWalks[kind]();
  await session.noFaults();
  console.log(`${kind}: passed`);
} catch (error) {
  console.log(`FAILED (${kind}): ${error.message}${session.faults.length ? `; before it: ${session.faults.slice(0, 5).join("; ")}` : ""}`);
  await session.shot("failed").catch(() => {});
  code = 1;
}
await session.browser.close();
process.exit(code);
