// The page for people who use a keyboard, a screen reader, a dark screen, a narrow one, or a browser without sockets.
import http from "node:http";
import { Session, changed, check } from "./session.mjs";

// Each view in light and dark by the rules of axe-core: names, roles, order, contrast.
export async function rules(session, views) {
  const { page } = session;
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [name, hash] of Object.entries(views)) {
      await session.open(hash);
      const passed = await session.accessible(`${name}, ${scheme}`);
      if (scheme === "dark") await session.shot(`dark-${name}`);
      console.log(`${name}, ${scheme}: ${passed} rules of axe-core hold`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
}

// Tab reaches everything that a mouse can use; each stop has a name and is seen.
export async function keyboard(session, hash) {
  const { page } = session;
  await session.open(hash);
  const devtools = await session.context.newCDPSession(page);
  const { nodes } = await devtools.send("Accessibility.getFullAXTree");
  const nameless = nodes.filter((node) => !node.ignored && node.role?.value !== "RootWebArea" && !node.name?.value &&
    node.properties?.some((one) => one.name === "focusable" && one.value.value));
  check(nameless.length === 0, `${hash}: without a name for a screen reader: ${nameless.map((node) => node.role.value)}`);
  await page.evaluate(() => {  // from the first stop on
    document.querySelector(".skip").focus();
    window.stops = new Set([document.activeElement]);
  });
  const wanted = await page.locator("a[href], button, input, select, summary, [tabindex='0']").evaluateAll((all) =>
    all.filter((one) => one.checkVisibility()).length);
  for (let i = 1; i < Math.min(wanted, 150); ++i) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const at = document.activeElement;
      const again = window.stops.has(at);
      window.stops.add(at);
      return { again, tag: at.tagName, text: (at.getAttribute("aria-label") ?? at.textContent).slice(0, 40), outline: getComputedStyle(at).outlineStyle };
    });
    check(!stop.again && stop.tag !== "BODY", `${hash}: Tab stops at ${stop.tag} ${stop.text} again after ${i} of ${wanted} stops`);
    check(stop.outline !== "none", `${hash}: the focus of ${stop.tag} ${stop.text} is not seen`);
  }
  console.log(`${hash}: ${wanted} stops of the Tab key, all with names`);
}

// A view that is drawn again leaves the focus where it is.
export async function keepsFocus(session) {
  const { page } = session;
  await session.open("#/window");
  await page.locator("main .scroll").first().focus();
  const drawn = page.waitForResponse((response) => response.url().includes("/api/window"));
  await drawn;
  await page.waitForResponse((response) => response.url().includes("/api/window"));
  await page.waitForTimeout(200);
  check(await page.evaluate(() => document.activeElement.className === "scroll"), "a new drawing takes the focus away");
}

export async function narrow(session, views) {
  const { page } = session;
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [name, hash] of Object.entries(views)) {
    await session.open(hash);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await session.shot(`narrow-${name}`);
    check(over <= 1, `${name} is ${over} pixels wider than a narrow screen`);
  }
  await page.setViewportSize({ width: 1400, height: 1000 });
}

// A browser that has neither WebSockets nor EventSource, behind a proxy that knows plain requests alone.
export async function plain(link, folder) {
  let passed = 0;
  const proxy = http.createServer((from, to) => {
    ++passed;
    const on = http.request(from.url, { method: from.method, headers: { ...from.headers, connection: "close" } }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    on.on("error", () => to.destroy());
    from.pipe(on);
  });
  proxy.on("connect", (_, socket) => socket.destroy());
  proxy.on("upgrade", (_, socket) => socket.destroy());
  await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
  const session = new Session(link, folder);
  await session.start({ proxy: `http://127.0.0.1:${proxy.address().port}` });
  await session.context.addInitScript(() => { delete window.WebSocket; delete window.EventSource; });
  await session.page.goto(link);
  await session.page.waitForSelector(".chart canvas");
  const before = await session.page.locator(".fact b").first().textContent();
  await changed(session.page, ".fact b", before);
  await session.noFaults();
  await session.browser.close();
  proxy.close();
  console.log(`without sockets, behind a proxy: updated, ${passed} plain requests`);
}
