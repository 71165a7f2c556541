// Runs the page's unit tests: bundles each tests/*.test.ts for Node.js and passes them to its test runner. `npm test` checks the
// types first. Exits with 77 if the packages are not installed.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const web = path.dirname(fileURLToPath(import.meta.url));
const { build } = await import("esbuild").catch(() => {
  console.log("skipped: the page's packages are not installed (`npm ci` in web/)");
  process.exit(77);
});
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ingot-page-tests-"));
try {
  const tests = fs.readdirSync(path.join(web, "tests")).filter((name) => name.endsWith(".test.ts"));
  await build({ entryPoints: tests.map((name) => path.join(web, "tests", name)), bundle: true, platform: "node", format: "esm",
    outdir: folder, outExtension: { ".js": ".mjs" }, logLevel: "error" });
  const files = tests.map((name) => path.join(folder, name.replace(/ts$/, "mjs")));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit", cwd: web }).status ?? 1;
} finally {
  fs.rmSync(folder, { recursive: true, force: true });
}
