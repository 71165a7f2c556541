// Walks over the index of a folder of runs, and from there to the runs' own pages.
import fs from "node:fs";
import { check } from "./session.mjs";

// In a folder of runs, both are drawn on one chart over steps, time, and tokens. Unchecking a run removes it and the keys that
// differ.
export async function runs(session) {
  const { page } = session;
  await page.goto(session.link);
  await page.waitForSelector(".chart canvas");
  await session.drawn();
  check((await page.locator("nav a").count()) === 0, "an index of runs has the views of one run");
  const legend = async () => (await page.locator(".chart").first().locator(".u-legend .u-label").allTextContents()).join();
  check((await legend()) === "step,first,second", `the legend of the runs is ${await legend()}`);
  const keys = await page.locator("table:has-text('Keys that differ between') tbody td:first-child").allTextContents();
  check(keys.join() === "trainer.learning_rate", `the runs differ in ${keys}`);
  await page.locator("label:has-text('another metric') select").selectOption("actor/entropy");
  await page.waitForSelector(".chart h3:text-is('actor/entropy')");
  await session.shot("runs-step");
  await page.locator("label:has-text('horizontal axis') select").selectOption("tokens");
  await page.waitForFunction(() => document.querySelector(".chart .u-legend .u-label").textContent === "trained tokens");
  await page.locator("input[type=range]").fill("0.8");
  await session.shot("runs-tokens");
  for (const scheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await session.accessible(`an index of runs, ${scheme}`);
  }
  await page.locator("input[data-run=second]").uncheck();
  await page.waitForSelector("p:has-text('The drawn runs have the same configuration')");
  // The curves arrive after the list.
  await page.waitForFunction(() => [...document.querySelector(".chart").querySelectorAll(".u-legend .u-label")].map((one) => one.textContent).join() === "trained tokens,first");
  await page.locator("input[data-run=second]").check();
  await ownPage(session);
}

// The evaluations of the drawn runs, and from the index to a run's own page, to its episodes, and back.
async function ownPage(session) {
  const { page } = session;
  const row = (name) => page.locator(`table:has-text('are paired by task') tbody tr:has(a:text-is("${name}"))`);
  await row("second").waitFor();
  check(/\(.* to .*\)/.test(await row("first").innerText()), `the first run's row is ${await row("first").innerText()}`);
  check((await row("second").innerText()).includes("no interval: "), "a run without a pool does not say why it has no interval");
  await page.locator(".runs a:text-is('first')").click();
  await page.waitForSelector(".facts");
  await session.drawn();
  check((await page.locator("#name").textContent()) === "first", "the page of a run does not have its name");
  check((await page.locator("nav a").first().textContent()) === "All runs", "the page of a run has no way back");
  await session.shot("run-of-index");
  await page.locator("nav a:text-is('Episodes')").click();
  await page.locator("tbody tr a").first().click();
  await page.waitForSelector(".tree li");
  await page.locator("a:has-text('its tokens')").first().click();
  await page.waitForSelector(".tokens .t");
  check(page.url().includes("#/of/first/call"), `the address of a call is ${page.url()}`);
  await page.reload();
  await page.waitForSelector(".tokens .t");
  await session.accessible("a call of a run in the index");
  await page.locator("nav a:text-is('All runs')").click();
  await page.waitForSelector(".chart canvas");
  check((await page.locator("nav a").count()) === 0, "the index has the views of a run");
}

// 200 runs: found by name, sorted, and opened, whatever they are called. Runs that cannot be read say why, and a run that is removed does too.
export async function manyRuns(session) {
  const { page } = session;
  const start = performance.now();
  await page.goto(session.link);
  await page.waitForSelector(".chart canvas", { timeout: 180000 });  // the first list reads 205 configurations
  console.log(`205 runs: drawn after ${((performance.now() - start) / 1000).toFixed(1)} s`);
  const rows = page.locator(".runs tbody tr");
  check((await rows.count()) === 205, `the list has ${await rows.count()} runs`);
  check((await page.locator(".runs input:checked").count()) === 8, "not eight runs are drawn");
  check((await page.locator("main img, main script").count()) === 0 && !(await page.evaluate(() => window.hacked)), "the name of a run became an element");
  check((await rows.filter({ hasText: "newer" }).innerText()).includes("99"), "a run of a newer format does not say so");
  check((await rows.filter({ hasText: "broken" }).innerText()).includes("config.yaml"), "a broken configuration is not named");
  await session.shot("runs-many");
  await session.accessible("an index of 200 runs");
  await page.locator("th button:text-is('run')").click();
  check((await rows.nth(3).innerText()).includes("copy-0"), `by name, the fourth run is ${await rows.nth(3).innerText()}`);
  await page.locator("input[type=search]").fill("copy-19");
  check((await rows.count()) === 10, `the search finds ${await rows.count()} runs`);
  session.expected = /status of [45]/;  // up to the end: an answer about a broken run may arrive after its page was left
  for (const [wanted, expected] of [["onerror", "The pool"], ["newer", "99"], ["broken", "config.yaml"]]) await openFound(session, wanted, expected);
  await openFound(session, "incomplete", "has no steps yet");
  await removed(session);
}

// Opens the only run that the search finds, and checks what its page says.
async function openFound(session, wanted, expected) {
  const { page } = session;
  await session.open("#/");
  await page.locator("input[type=search]").fill(wanted);
  await page.waitForFunction(() => document.querySelectorAll(".runs tbody tr").length === 1);
  await page.locator(".runs tbody a").click();
  await page.waitForFunction((text) => document.querySelector("main").innerText.includes(text) || document.querySelector("nav a[aria-current]"), expected);
  await session.drawn();
  const text = await page.locator("main").innerText();
  if (expected !== "The pool") check(text.includes(expected), `the page of '${wanted}' says '${text.slice(0, 300)}'`);
  else check((await page.locator(".facts").count()) === 1 && text.includes("There are no episodes"), `the page of '${wanted}' says '${text.slice(0, 300)}'`);
}

// A run is removed while its page is open: the page says so, and the index goes on without it.
async function removed(session) {
  const { page } = session;
  await session.open("#/of/gone/overview");
  await page.waitForSelector(".facts");
  fs.rmSync(process.env.INGOT_HOLD, { recursive: true });
  await page.waitForSelector("#state.bad:has-text('may have been removed')", { timeout: 20000 });
  await session.shot("run-removed");
  await page.locator("nav a:text-is('All runs')").click();
  await page.waitForFunction(() => document.querySelectorAll(".runs tbody tr").length === 204);
}
