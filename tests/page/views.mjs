// Walks over the views of a run that trains or has trained.
import fs from "node:fs";
import { changed, check } from "./session.mjs";

export async function overview(session, kind) {
  const { page } = session;
  await page.goto(session.link);
  await page.waitForSelector(".chart canvas");
  await session.drawn();
  check(!page.url().includes("token"), "the token stays in the address");
  await folds(session);
  await session.openSections();
  await page.waitForFunction(() => document.querySelectorAll(".chart").length >= 10);
  await page.waitForTimeout(300);  // the curves are drawn in the next frames
  await session.shot(`overview-${kind}`);
  if (kind === "files") return;
  check((await page.locator("#state").textContent()).includes("running"), "the state does not say that the run goes on");
  check((await page.locator("text=Engines, since startup").count()) === 1, "the engines are not shown");
  // The legend has the newest step.
  const selectors = [".fact b", ".chart .u-legend"];
  const before = await Promise.all(selectors.map((one) => page.locator(one).first().textContent()));
  await Promise.all(selectors.map((one, i) => changed(page, one, before[i])));
}

// The reward chart is drawn immediately and large. The other sections are closed, and each keeps its state.
async function folds(session) {
  const { page } = session;
  const state = () => page.locator("details.section").evaluateAll((all) =>
    Object.fromEntries(all.map((one) => [one.querySelector("h2").textContent, one.open ? one.querySelectorAll(".chart").length : 0])));
  const again = async () => {
    await page.reload();
    await page.waitForSelector(".chart canvas");
    return state();
  };
  check((await page.locator(".charts.large .chart h3").first().textContent()) === "Reward", "the reward is not the first chart");
  check(Object.values(await state()).every((charts) => charts === 0), "a section is open that nobody opened");
  await page.locator("summary:has-text('Trainer')").click();
  await page.waitForSelector(".chart:has(h3:text-is('Entropy, nats')) canvas");
  const left = await again();
  check(left.Trainer > 0 && left.Rollout === 0, `after a reload the sections are ${JSON.stringify(left)}`);
  await page.locator("summary:has-text('Trainer')").click();
  check((await again()).Trainer === 0, "a closed section is open again after a reload");
}

// Curves with a single step show their values without axes.
export async function onePoint(session) {
  const { page } = session;
  await page.route("**/api/curves*", async (route) => {
    const answer = await (await route.fetch()).json();
    for (const curve of Object.values(answer.curves)) for (const column of Object.values(curve)) column.splice(1);
    await route.fulfill({ json: answer });
  });
  await session.open("#/window");
  await session.open("#/overview");
  await page.waitForSelector(".chart .single");
  check((await page.locator(".chart canvas").count()) === 0, "a chart of one point has axes");
  const text = await page.locator(".chart").first().innerText();
  check(/One value, at step 0:.*reward\/mean [\d.-]+/s.test(text), `a chart of one point says '${text}'`);
  await session.shot("one-point");
  await session.accessible("charts of one point");
  await page.unroute("**/api/curves*");
  await session.open("#/window");
}

// From a point of a curve to the tokens of a call: to the groups by keyboard, then by clicks; and by the mouse alone.
export async function drill(session, kind) {
  const { page } = session;
  await session.open("#/overview");
  const chart = page.locator(".chart").first();
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector("h2:has-text('Step')");
  await session.shot(`step-${kind}`);
  const groups = await page.locator("td a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  let differ = false;
  for (let i = 0; i < groups.length && !differ; ++i) {
    if (i > 0) await page.goBack();
    await page.locator(`td a[href="${groups[i]}"]`).click();
    await page.waitForSelector("article.card");
    await session.drawn();
    check((await page.locator("article.card").count()) >= 2, "fewer than two episodes stand side by side");
    differ = await unequal(session);
  }
  check(differ, "no group of a step has unequal rewards and advantages");
  await session.shot(`group-${kind}`);
  await page.locator("article.card h3 a").first().click();
  await page.waitForSelector("h2:has-text('Episode')");
  await page.waitForSelector(".tree li");
  await session.shot(`episode-${kind}`);
  await page.locator("a:has-text('its tokens')").first().click();
  await page.waitForSelector(".tokens .t");
  for (const by of ["advantage", "version", "source", "log-prob"]) {
    await page.locator(`button:has-text("${by}")`).click();
    await session.shot(`tokens-${by}-${kind}`);
  }
  await page.locator("select[aria-label='scale of log-probs']").selectOption("quantiles");
  await page.waitForSelector(".legend:has-text('least likely')");
  const coloured = await page.locator(".tokens .t").evaluateAll((all) => all.filter((one) => one.style.background !== "transparent").length);
  check(coloured > 0, "no token is coloured");
  // The third letter of a prompt's element, which holds many tokens of one letter.
  await page.locator(".tokens .line").nth(1).locator(".t").first().hover({ position: { x: 20, y: 8 } });
  const told = await page.locator("main p[aria-live]").first().textContent();
  const first = Number(await page.locator(".tokens .line").nth(1).locator(".t").first().getAttribute("data-at"));
  check(told.startsWith(`token ${first + 2}, id `), `the token says '${told}', its line begins at ${first}`);
  await alternatives(session, kind);
  await session.open("#/overview");
  await page.locator(".chart .u-over").first().click({ position: { x: 150, y: 60 } });
  await page.waitForSelector("h2:has-text('Step')");
}

// A sampled token shows its recorded alternatives at the pointer, the most likely first.
async function alternatives(session, kind) {
  const { page } = session;
  await page.locator(".tokens .t").evaluateAll((all) => all.filter((one) => one.style.background !== "transparent").at(-1).setAttribute("data-last", ""));
  await page.locator(".tokens .t[data-last]").hover({ position: { x: 3, y: 8 } });
  await page.waitForSelector(".tip:not([hidden])");
  const logprobs = await page.locator(".tip tbody td:nth-child(2)").allTextContents();
  check(logprobs.length >= 3 && logprobs.length <= 4, `the label at a token has the log-probs ${logprobs}`);
  check(Number(logprobs[0]) >= Number(logprobs[1]) && Number(logprobs[1]) >= Number(logprobs[2]), `the alternatives are not in order: ${logprobs}`);
  check((await page.locator(".tip .drawn").count()) === 1, "the sampled token is not marked among its alternatives");
  check((await page.locator("main p[aria-live]").first().textContent()).includes("most likely: "), "a screen reader hears nothing of the alternatives");
  await session.shot(`alternatives-${kind}`);
  await page.locator("h2").first().hover();
  check(await page.locator(".tip").isHidden(), "the label stays after the pointer has left");
}

// Every term is drawn, eight to a chart, for training and for evaluations.
export async function terms(session, kind) {
  const { page } = session;
  await session.open("#/overview");
  await session.openSections();
  for (const title of ["Reward by term, before weights", "Evaluation by reward term, before weights"]) {
    for (const part of [", 1 to 8 of 10", ", 9 to 10 of 10"]) await page.waitForSelector(`.chart h3:text-is("${title}${part}")`, { timeout: 90000 });
  }
  const legend = async (title) => (await page.locator(`.chart:has(h3:text-is("${title}")) .u-legend .u-label`).allTextContents()).slice(1);
  const shown = [...await legend("Reward by term, before weights, 1 to 8 of 10"), ...await legend("Reward by term, before weights, 9 to 10 of 10")];
  check(shown.length === 10 && shown.includes("outcome") && shown.includes("parl_finish"), `the terms drawn are ${shown}`);
  check((await legend("Evaluation on held-out tasks")).join() === "eval/reward_mean,eval/graded_mean", "the graded mean of evaluations is not drawn");
  await page.locator(".chart:has(h3:text-is(\"Evaluation by reward term, before weights, 1 to 8 of 10\"))").scrollIntoViewIfNeeded();
  await session.shot(`terms-${kind}`);
}

// Makes an agent wait (agent.py). Its group becomes a straggler, and the cause names what it spends its time on.
export async function straggler(session) {
  const { page } = session;
  const hold = process.env.INGOT_HOLD;
  fs.writeFileSync(hold, "");
  await session.open("#/window");
  await page.waitForSelector("td:has-text('straggler: ')", { timeout: 90000 });
  await session.shot("straggler");
  const cause = await page.locator("td:has-text('straggler: ')").first().textContent();
  check(/sample \d+, \d+ calls: .*(agent|engine)/.test(cause), `the cause of a straggler is '${cause}'`);
  for (const one of [hold, `${hold}.taken`]) fs.rmSync(one, { force: true });
}

// The branches of episodes: a sub-agent, a summary, a retry, and a trunk with its leaves.
export async function branches(session, kind) {
  const { page } = session;
  await session.open("#/episodes?fork=new_conversation&state=finished");
  await page.waitForSelector("tbody tr a");
  const addresses = await page.locator("tbody tr td:first-child a").evaluateAll((all) => all.slice(0, 12).map((one) => one.getAttribute("href")));
  const wanted = new Set(["sub-agent helper, started by main", "continues from a summary: the answer of call", "fork: retry", "continues from the trunk"]);
  let seen = "", leaf = "";
  for (const address of addresses) {
    await session.open(address);
    const texts = (await page.locator(".tree .begins").allTextContents()).join("\n");
    for (const one of wanted) if (texts.includes(one)) wanted.delete(one);
    if (texts.includes("continues from the trunk")) leaf = address;
    seen += texts;
    if (wanted.size === 0) break;
  }
  check(!(await page.locator(".tree li").first().textContent()).includes("sub-agent"), "the run that all branches share begins the sub-agent's");
  check(wanted.size === 0, `no tree says ${[...wanted].join(", ")}; seen: ${seen}`);
  await session.shot(`branches-${kind}`);
  await session.open(leaf);
  await page.locator("main p:has-text('a fork of its trunk') a").click();
  await page.waitForSelector("p:has-text('It is a trunk')");
  await page.waitForSelector(".message.tool b:text-is('task')");
  await session.shot(`trunk-${kind}`);
}

// Samples of one group have other rewards, and advantages of either sign.
export async function unequal(session) {
  const { page } = session;
  const cards = await page.locator("article.card").evaluateAll((all) => all.map((one) => one.innerText));
  const rewards = new Set(cards.map((text) => /reward (\S+)/.exec(text)?.[1]));
  const advantages = cards.flatMap((text) => [...text.matchAll(/advantage (-?[\d.]+)/g)].map((one) => Number(one[1])));
  return rewards.size > 1 && advantages.some((one) => one > 0) && advantages.some((one) => one < 0);
}

export async function tabs(session, kind) {
  const { page } = session;
  for (const [tab, text] of [["window", "The window"], ["time", "Where every second"], ["config", "Configuration"], ["episodes", "Episodes"]]) {
    await page.locator(`nav a[href="#/${tab}"]`).click();
    await page.waitForSelector(`h2:has-text("${text}")`);
    if (tab === "episodes") await page.waitForSelector("tbody tr");
    await session.shot(`${tab}-${kind}`);
  }
  await page.locator("input[name=text]").fill("COUNT all rows");
  await page.locator("input[name=reward_min]").fill("0.5");
  await page.locator("button[type=submit]").click();
  await page.waitForFunction(() => location.hash.includes("text=COUNT"));
  await page.waitForSelector("tbody tr a");
  await session.shot(`search-${kind}`);
  const found = await page.locator("tbody tr td:nth-child(6)").allTextContents();
  check(found.length > 0 && found.every((reward) => Number(reward) >= 0.5), `the search found rewards of ${found}`);
  await page.locator("th button:text-is('time')").click();
  const times = await page.locator("tbody tr td:nth-child(7)").allTextContents();
  await page.locator("th[aria-sort=descending] button:text-is('time')").click();
  await page.waitForSelector("th[aria-sort=ascending]");
  const turned = await page.locator("tbody tr td:nth-child(7)").allTextContents();
  check(times.length === turned.length && times[0] === turned.at(-1), `by time the episodes are ${times}, then ${turned}`);
  session.expected = /status of 400/;
  await session.open("#/episodes?reward_min=abc");
  check((await page.locator("main [role=alert]").textContent()).includes("reward_min: 'abc' is not a number"), "a malformed filter is not named");
  await session.open("#/overview");
  session.expected = null;
}

// Opens links as they are found, a few of each kind, until none is left: each leads to a view without an error.
export async function links(session, most = 80) {
  const { page } = session;
  const wanted = ["#/overview", "#/window", "#/time", "#/episodes", "#/episodes?kind=eval"];
  const met = new Set(wanted);
  const kinds = new Map();
  for (let at = 0; at < wanted.length && at < most; ++at) {
    await session.open(wanted[at]);
    const errors = await page.locator("main [role=alert]").allTextContents();
    check(errors.length === 0, `${wanted[at]}: ${errors[0]}`);
    check((await page.locator("main h2, main .facts").count()) > 0, `${wanted[at]} is empty`);
    const from = wanted[at].split("?")[0];
    for (const href of await page.locator("main a").evaluateAll((all) => all.map((one) => one.getAttribute("href")))) {
      const kind = `${from} ${href.split("?")[0]}`;
      if (met.has(href) || (kinds.get(kind) ?? 0) >= 4) continue;
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      met.add(href);
      wanted.push(href);
    }
  }
  console.log(`${Math.min(wanted.length, most)} addresses were opened, ${met.size} met: ${[...kinds.keys()].join("; ")}`);
}

export async function tenTabs(session) {
  const tabs = await Promise.all(Array.from({ length: 10 }, () => session.tab()));
  const start = performance.now();
  await Promise.all(tabs.map((tab) => tab.goto(new URL("/#/overview", session.link).href)));
  await Promise.all(tabs.map((tab) => tab.waitForSelector(".chart canvas", { timeout: 60000 })));
  const opened = performance.now() - start;
  const before = await Promise.all(tabs.map((tab) => tab.locator(".fact b").first().textContent()));
  await Promise.all(tabs.map((tab, i) => changed(tab, ".fact b", before[i])));
  await Promise.all(tabs.map((tab) => tab.close()));
  console.log(`ten tabs: opened in ${(opened / 1000).toFixed(1)} s, and each showed a further step`);
}

// The run is gone for a moment: the page says so, keeps what it shows, and goes on by itself.
export async function lost(session) {
  const { page } = session;
  await session.open("#/window");
  await page.waitForSelector("main .cells");
  session.expected = /Failed to load resource/;
  await page.route("**/api/**", (route) => route.abort());
  await page.waitForSelector("#state.bad:has-text('does not respond')");
  check((await page.locator("main .cells").count()) === 1, "the view is gone with the run");
  await session.shot("lost");
  await page.evaluate(() => { location.hash = "#/time"; });
  await page.waitForSelector("main[aria-busy=false] [role=alert]");
  await page.unroute("**/api/**");
  await page.waitForSelector("h2:has-text('Where every second')", { timeout: 60000 });
  check((await page.locator("main [role=alert]").count()) === 0, "the fault stays when it is over");
  session.expected = null;
}
