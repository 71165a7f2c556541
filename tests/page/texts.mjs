// Hostile text, and an episode of 200,000 tokens.
import os from "node:os";
import { check } from "./session.mjs";

export async function hostileText(session, episode) {
  const { page } = session;
  const views = { episode: `#/episode?id=${episode.id}`, call: `#/call?id=${episode.id}&call=0`, group: `#/group?group=${episode.group}`,
    list: "#/episodes?state=finished", window: "#/window" };
  for (const [name, hash] of Object.entries(views)) {
    await session.open(hash);
    check(!(await page.evaluate(() => window.hacked)), `${hash} ran a script`);
    check((await page.locator("main script, main img, main iframe, main a[href^='javascript']").count()) === 0, `${hash} made an element of text`);
    const text = await page.locator("main").innerText();
    check(!/[\u001b\u202e\u2066\u200b]/.test(text), `${hash} shows a mark that steers`);
    if (name !== "episode") continue;
    check(text.includes("<script>") && text.includes("\\u202e") && text.includes("\\x1b"), `${hash} hides the text: ${text.slice(0, 500)}`);
    await session.shot("hostile");
  }
  await session.open(views.call);
  await session.shot("hostile-call");
}

// Milliseconds from the change of the address to the first frame with `selector`.
async function opened(page, hash, selector) {
  return page.evaluate(([to, wanted]) => new Promise((done) => {
    const start = performance.now();
    const look = () => (document.querySelector(wanted) ? requestAnimationFrame(() => done(performance.now() - start)) : requestAnimationFrame(look));
    location.hash = to;
    requestAnimationFrame(look);
  }), [hash, selector]);
}

// Scrolls `selector` down and up by so many pixels a frame. `ms`: the sorted times between frames; `cpu`: CPU milliseconds of the page's thread
// per frame, which other processes do not lengthen.
async function frames(session, selector, pixels) {
  const devtools = await session.context.newCDPSession(session.page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpu = async () => (await devtools.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value * 1000;
  const before = await cpu();
  const ms = await session.page.evaluate(async ([wanted, by]) => {
    const box = document.querySelector(wanted);
    const times = [];
    let last = performance.now();
    for (let i = 0; i < 120; ++i) {
      box.scrollTop += i < 60 ? by : -by;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    return times.slice(1).sort((a, b) => a - b);
  }, [selector, pixels]);
  const spent = (await cpu()) - before;
  await devtools.detach();
  return { ms, cpu: spent / 120 };
}

// Opens in under a second, the best of three times, and takes less CPU time per frame of scrolling than a frame lasts.
export async function longEpisode(session, episode) {
  const { page } = session;
  for (const [hash, selector, name] of [[`#/episode?id=${episode.id}`, ".tree li", "long-episode"],
    [`#/call?id=${episode.id}&call=${episode.calls - 1}`, ".tokens .t", "long-call"]]) {
    const times = [];
    for (let i = 0; i < 3; ++i) {
      await session.open("#/window");
      times.push(await opened(page, hash, selector));
      await session.drawn();
    }
    await session.shot(name);
    console.log(`${name}, ${episode.tokens} tokens in ${episode.calls} calls: opened in ${times.map((one) => one.toFixed(0)).join(", ")} ms; ` +
      `${await page.locator("main *").count()} elements`);
    // Where more processes run than the machine has cores, everything takes its turn.
    const share = Math.max(1, os.loadavg()[0] / os.cpus().length);
    check(Math.min(...times) < 1000 * share, `${name} opens in ${times} ms, with ${share.toFixed(1)} processes a core`);
    check((await page.locator("main *").count()) < 8000, `too many elements are in the document of ${name}`);
    for (const pixels of [40, 1000]) {
      const { ms, cpu } = await frames(session, selector.split(" ")[0], pixels);
      const part = (share) => ms[Math.floor(share * (ms.length - 1))].toFixed(1);
      console.log(`  scrolled by ${pixels} pixels a frame: ${cpu.toFixed(1)} ms of CPU per frame; frames of ${part(0.5)} ms, 95 % below ${part(0.95)} ms`);
      check(cpu < 16.7, `${name}: a frame of scrolling by ${pixels} pixels takes ${cpu.toFixed(1)} ms`);
    }
  }
  await page.locator("input[type=search]").fill("turn 3:");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".t.found");
  await session.shot("long-call-found");
}
