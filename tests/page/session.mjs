// What the browser's walks share: a browser on a run's page, its faults, and ways from view to view.
import { createRequire } from "node:module";
import fs from "node:fs";
import { chromium } from "playwright-core";

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

// Waits until the element has another text. The page may replace the element meanwhile.
export async function changed(page, selector, before) {
  await page.waitForFunction(([one, old]) => {
    const element = document.querySelector(one);
    return element !== null && element.textContent !== old;
  }, [selector, before], { timeout: 120000 });
}

export class Session {
  faults = [];      // of the console, of scripts, and requests that go elsewhere
  expected = null;  // a fault with this pattern is part of the test
  constructor(link, folder) {
    this.link = link;
    this.folder = folder;
  }

  // `options`: of the browser's context, and `proxy`, its proxy's address.
  async start({ proxy, ...options } = {}) {
    this.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage"], ...(proxy ? { proxy: { server: proxy, bypass: "<-loopback>" } } : {}) });
    this.context = await this.browser.newContext({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", ...options });
    this.context.setDefaultTimeout(20000);
    this.page = await this.tab();
  }

  async tab() {
    const tab = await this.context.newPage();
    const fault = (text) => { if (!this.expected?.test(text)) this.faults.push(text); };
    tab.on("console", (message) => { if (["error", "warning"].includes(message.type())) fault(`console: ${message.text()}`); });
    tab.on("pageerror", (error) => fault(`error: ${error.message}`));
    tab.on("dialog", (dialog) => { fault(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
    tab.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.host !== new URL(this.link).host) fault(`asks elsewhere: ${request.url()}`);
    });
    return tab;
  }

  // Goes to a view and waits until it is drawn.
  async open(hash, page = this.page) {
    await page.evaluate((to) => new Promise((done) => {
      if (location.hash === to) return done();
      addEventListener("hashchange", () => done(), { once: true });
      location.hash = to;
    }), hash);
    await this.drawn(page);
  }

  async openSections(page = this.page) {
    await page.evaluate(() => document.querySelectorAll("details.section").forEach((one) => { one.open = true; }));
  }

  async drawn(page = this.page) {
    await page.waitForSelector("main[aria-busy=false]");
  }

  async shot(name, page = this.page) {
    await page.screenshot({ path: `${this.folder}/${name}.png` });
  }

  async noFaults() {
    check(this.faults.length === 0, this.faults.slice(0, 5).join("; "));
  }

  // Violations of WCAG's levels A and AA that axe-core finds in the view.
  async accessible(what, page = this.page) {
    await page.evaluate(axeSource());
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
    const said = found.violations.map((one) => `${one.id} (${one.nodes.length}): ${one.nodes[0].target} ${one.nodes[0].failureSummary}`);
    check(said.length === 0, `${what}: ${said.join(" | ")}`);
    return found.passes.length;
  }
}

let axe = "";
function axeSource() {
  axe ||= fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  return axe;
}
