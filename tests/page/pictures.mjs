// Takes the pictures of docs/guide/tour.md: pictures.mjs LINK OUT FIRST. LINK is a link to the page of a folder of runs, and FIRST is the run
// whose overview, episode, and tokens are shown. Fails on the first fault of the page.
import { Session } from "./session.mjs";

const [link, out, first] = process.argv.slice(2);
const session = new Session(link, out);
const of = (view) => `#/of/${encodeURIComponent(first)}/${view}`;

async function index() {
  const { page } = session;
  await page.goto(link);
  await page.waitForSelector(".chart canvas");
  await page.waitForSelector("h2:has-text('Rewards and evaluations')");
  await page.locator("input[type=range]").fill("0.5");
  await page.locator("input[type=range]").blur();
  await page.setViewportSize({ width: 1200, height: 960 });  // down to the evaluations
  await page.waitForTimeout(500);
  await session.shot("runs");
  await page.setViewportSize({ width: 1200, height: 800 });
}

async function overview() {
  await session.open(of("overview"));
  await session.page.waitForSelector(".chart canvas");
  await session.page.waitForTimeout(500);
  await session.shot("overview");
}

// Opens an episode from the first third of the run, where the policy is not certain yet.
async function episode() {
  const { page } = session;
  await session.open(of("step?step=12"));
  await page.locator("td a").first().click();
  await page.waitForSelector("article.card");
  await page.locator("article.card h3 a").first().click();
  await page.waitForSelector(".tree li");
  await session.drawn();
  await session.shot("episode");
  await page.locator("a:has-text('its tokens')").first().click();
  await page.waitForSelector(".tokens .t");
  await session.drawn();
  await page.locator("button:has-text('log-prob')").click();
  await page.locator("select[aria-label='scale of log-probs']").selectOption("1");
  await pointAtLeastLikely();
  await session.shot("tokens");
}

// Points at the sampled token with the reddest color.
async function pointAtLeastLikely() {
  const { page } = session;
  const reddest = await page.locator(".tokens .t").evaluateAll((all) => {
    const red = all.map((one) => Number(/rgba?\((\d+)/.exec(one.style.background)?.[1] ?? -1));
    return red.indexOf(Math.max(...red));
  });
  await page.locator(".tokens .t").nth(reddest).hover({ position: { x: 4, y: 8 } });
  await page.waitForSelector(".tip:not([hidden])");
}

await session.start({ viewport: { width: 1200, height: 800 } });
let code = 0;
try {
  await index();
  await overview();
  await episode();
  await session.noFaults();
} catch (error) {
  console.log(`FAILED: ${error.message}`);
  code = 1;
}
await session.browser.close();
process.exit(code);
