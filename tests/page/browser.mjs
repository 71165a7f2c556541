// A headless browser on the page of a run: browser.mjs LINK live|files|hostile FOLDER [EPISODE]. Takes screenshots into FOLDER. EPISODE: the id of
// an episode with hostile text. Ends with 1 and one line for the first check that fails.
import { chromium } from "playwright-core";

const [link, kind, folder, hostile] = process.argv.slice(2);
const faults = [];

function check(condition, message) {
  if (!condition) throw new Error(message);
}

async function watch(page) {
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.host !== new URL(link).host) faults.push(`asks elsewhere: ${request.url()}`);
  });
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, colorScheme: "light" });
const page = await context.newPage();
await watch(page);
const shot = (name) => page.screenshot({ path: `${folder}/${name}.png` });

async function overview() {
  await page.goto(link);
  await page.waitForSelector(".chart canvas", { timeout: 30000 });
  check(!page.url().includes("token"), "the token stays in the address");
  check((await page.locator(".chart").count()) >= 10, "fewer than ten charts");
  const progress = () => page.locator(".fact b").first().textContent();
  if (kind === "live") {
    const before = await progress();
    await page.waitForFunction((old) => document.querySelector(".fact b")?.textContent !== old, before, { timeout: 60000 });
    check((await page.locator("#state").textContent()).includes("running"), "the state does not say that the run goes on");
    check((await page.locator("text=Engines, since their start").count()) === 1, "the engines are not shown");
  }
  await page.waitForTimeout(500);
  await shot(`overview-${kind}`);
}

// From a point of a curve to the tokens of a call, by keyboard alone to the groups, then by links.
async function drill() {
  await page.goto(new URL("/#/overview", link).href);
  const chart = page.locator(".chart").first();
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector("h2:has-text('Step')");
  await shot(`step-${kind}`);
  await page.locator("td a").first().click();
  await page.waitForSelector("article.card");
  check((await page.locator("article.card").count()) >= 2, "fewer than two episodes stand side by side");
  await shot(`group-${kind}`);
  await page.locator("article.card h3 a").first().click();
  await page.waitForSelector(".tree li");
  await shot(`episode-${kind}`);
  await page.locator("a:has-text('its tokens')").first().click();
  await page.waitForSelector(".tokens .t");
  for (const by of ["advantage", "version", "source", "log-prob"]) {
    await page.locator(`button:has-text("${by}")`).click();
    await shot(`tokens-${by}-${kind}`);
  }
  const coloured = await page.locator(".tokens .t").evaluateAll((all) => all.filter((one) => one.style.background !== "transparent").length);
  check(coloured > 0, "no token is coloured");
  await page.locator(".tokens .t").first().hover();
  check((await page.locator("main p[aria-live]").first().textContent()).includes("id "), "a token says nothing");
  // A click with the mouse, too.
  await page.goto(new URL("/#/overview", link).href);
  await page.locator(".chart .u-over").first().click({ position: { x: 150, y: 60 } });
  await page.waitForSelector("h2:has-text('Step')");
}

async function others() {
  for (const [tab, text] of [["window", "The window"], ["time", "Where every second"], ["episodes", "Episodes"]]) {
    await page.locator(`nav a[href="#/${tab}"]`).click();
    await page.waitForSelector(`h2:has-text("${text}")`);
    if (tab === "episodes") await page.waitForSelector("tbody tr");
    await page.waitForTimeout(300);
    await shot(`${tab}-${kind}`);
  }
  await page.locator("input[name=text]").fill("tool");
  await page.locator("input[name=reward_min]").fill("0.5");
  await page.locator("button[type=submit]").click();
  await page.waitForFunction(() => location.hash.includes("text=tool"));
  await page.waitForSelector("caption:has-text('that were read')", { timeout: 20000 });
  await shot(`search-${kind}`);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(new URL("/#/overview", link).href);
  await page.waitForSelector(".chart canvas");
  await page.waitForTimeout(500);
  await shot(`dark-${kind}`);
  await page.emulateMedia({ colorScheme: "light" });
}

// Every link of every view leads to a view without an error.
async function links() {
  const seen = new Set(), wanted = ["#/overview", "#/window", "#/time", "#/episodes", "#/episodes?kind=eval"];
  for (let at = 0; at < wanted.length && at < 14; ++at) {
    if (seen.has(wanted[at])) continue;
    seen.add(wanted[at]);
    await page.goto(new URL("/" + wanted[at], link).href);
    await page.waitForFunction(() => document.title.includes(" · ") && document.querySelector("main h2, main .facts, main p"));
    await page.waitForTimeout(150);
    const error = page.locator("main [role=alert]");
    check((await error.count()) === 0, `${wanted[at]}: ${await error.first().textContent().catch(() => "")}`);
    const found = await page.locator("main a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    const kinds = {};
    for (const href of found) {  // a few of each kind
      const sort = href.split("?")[0];
      kinds[sort] = (kinds[sort] ?? 0) + 1;
      if (kinds[sort] <= 2 && !seen.has(href)) wanted.push(href);
    }
  }
  console.log(`${seen.size} addresses were opened`);
}

// A call of 200,000 tokens: opens in under a second, and scrolls.
async function longCall() {
  const text = [], id = [], logprob = [];
  for (let i = 0; i < 200000; ++i) {
    text.push(i % 17 === 16 ? "\n" : ` w${i % 991}`);
    id.push(i % 5000);
    if (i >= 100000) logprob.push(-(i % 40) / 10);
  }
  const body = JSON.stringify({ text, id, runs: [{ count: 100000, sampled: false, call: -1 }, { count: 100000, sampled: true, call: 0 }],
    logprob, versions: [[3, 60000, 0], [4, 40000, 0]] });
  await page.route("**/api/tokens?*", (route) => route.fulfill({ contentType: "application/json", body }));
  await page.goto(new URL("/#/window", link).href);
  await page.waitForSelector("h2:has-text('The window')");
  const opened = await page.evaluate(() => new Promise((done) => {
    const start = performance.now();
    const look = () => (document.querySelector(".tokens .t") ? done(performance.now() - start) : requestAnimationFrame(look));
    location.hash = "#/call?id=long&call=0";
    look();
  }));
  const frame = await page.evaluate(async () => {
    const box = document.querySelector(".tokens");
    const times = [];
    let last = performance.now();
    for (let i = 0; i < 60; ++i) {
      box.scrollTop += 900;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    times.sort((a, b) => a - b);
    return times[30];
  });
  const spans = await page.locator(".tokens .t").count();
  console.log(`200,000 tokens: opened in ${opened.toFixed(0)} ms, median frame of scrolling ${frame.toFixed(1)} ms, ${spans} tokens in the document`);
  check(opened < 1000, `200,000 tokens open in ${opened} ms`);
  check(spans < 5000, `${spans} tokens are in the document`);
  await page.locator("input[type=search]").fill("w990");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".t.found");
  await shot("long-call");
  await page.unroute("**/api/tokens?*");
}

async function hostileText() {
  for (const hash of [`#/episode?id=${hostile}`, `#/call?id=${hostile}&call=0`, "#/episodes?state=finished", "#/window"]) {
    await page.goto(new URL("/" + hash, link).href);
    await page.waitForTimeout(700);
    check(!(await page.evaluate(() => window.hacked)), `${hash} ran a script`);
    check((await page.locator("main script, main img, main iframe").count()) === 0, `${hash} made an element of text`);
    const text = await page.locator("main").innerText();
    check(!/[\u001b\u202e\u2066\u200b]/.test(text), `${hash} shows a mark that steers`);
    if (hash.startsWith("#/episode?")) check(text.includes("<script>") && text.includes("\\u202e") && text.includes("\\x1b"), `${hash} hides the text: ${text.slice(0, 500)}`);
  }
  await page.goto(new URL(`/#/episode?id=${hostile}`, link).href);
  await page.waitForSelector(".tree li");
  await shot("hostile");
}

async function tenTabs() {
  const tabs = await Promise.all(Array.from({ length: 10 }, () => context.newPage()));
  await Promise.all(tabs.map(watch));
  await Promise.all(tabs.map((tab) => tab.goto(new URL("/#/overview", link).href)));
  await Promise.all(tabs.map((tab) => tab.waitForSelector(".chart canvas", { timeout: 60000 })));
  await Promise.all(tabs.map((tab) => tab.close()));
}

let code = 0;
try {
  if (kind === "hostile") {
    await page.goto(link);
    await hostileText();
  } else {
    await overview();
    await drill();
    await others();
    await links();
  }
  if (kind === "live") await tenTabs();
  if (kind === "files") await longCall();
  check(faults.length === 0, faults.slice(0, 5).join("; "));
  console.log(`${kind}: passed`);
} catch (error) {
  console.log(`FAILED (${kind}): ${error.message}${faults.length ? `; before it: ${faults.slice(0, 5).join("; ")}` : ""}`);
  await shot("failed").catch(() => {});
  code = 1;
}
await browser.close();
process.exit(code);
