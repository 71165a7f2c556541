// Bundles the page and writes it as C++: build.mjs OUT.cc. Runs `npm ci` first if the packages differ from the lock file.
// If npm cannot fetch them, OUT.cc has no files, and the program has no page; the next build tries again.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const web = path.dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];

function packagesAreThere() {
  const installed = path.join(web, "node_modules", ".package-lock.json");
  if (!fs.existsSync(installed)) return false;
  const read = (file) => JSON.parse(fs.readFileSync(file, "utf8")).packages;
  const wanted = read(path.join(web, "package-lock.json"));
  const found = read(installed);
  return Object.entries(wanted).every(([name, one]) => !name || one.optional || found[name]?.version === one.version);
}

function install() {
  if (packagesAreThere()) return;
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000"];
  execFileSync("npm", ["ci", ...options], { cwd: web, stdio: ["ignore", "ignore", "pipe"] });
}

async function bundle() {
  const esbuild = await import(pathToFileURL(path.join(web, "node_modules", "esbuild", "lib", "main.js")).href);
  const made = await esbuild.build({
    entryPoints: { app: path.join(web, "src", "main.ts"), style: path.join(web, "src", "style.css") },
    bundle: true, minify: true, target: "es2021", format: "iife", outdir: "/", write: false, legalComments: "inline",
  });
  const files = [["/", "text/html; charset=utf-8", fs.readFileSync(path.join(web, "src", "index.html"))]];
  for (const file of made.outputFiles) {
    const name = "/" + path.basename(file.path);
    const type = name.endsWith(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
    files.push([name, type, Buffer.from(file.contents)]);
  }
  return files;
}

function cpp(files) {
  const lines = ['// Made by web/build.mjs.', '#include "view/bundle.h"', "", "namespace ingot::view {", "namespace {", ""];
  files.forEach(([, , bytes], i) => {
    lines.push(`constexpr unsigned char kFile${i}[] = {`);
    for (let at = 0; at < bytes.length; at += 32) lines.push([...bytes.subarray(at, at + 32)].join(",") + ",");
    lines.push("};");
  });
  lines.push("std::string_view Text(const unsigned char* bytes, size_t count) {",
             "  return {reinterpret_cast<const char*>(bytes), count};", "}", "", "}  // namespace", "",
             "std::span<const BundleFile> Bundle() {");
  if (files.length === 0) {
    lines.push("  return {};");
  } else {
    lines.push("  static const BundleFile kFiles[] = {");
    files.forEach(([name, type], i) => {
      lines.push(`      {"${name}", "${type}", Text(kFile${i}, sizeof(kFile${i}))},`);
    });
    lines.push("  };", "  return kFiles;");
  }
  lines.push("}", "", "}  // namespace ingot::view", "");
  return lines.join("\n");
}

let files = [];
let failed = "";
try {
  install();
  files = await bundle();
} catch (error) {
  failed = String(error.stderr || error.message || error).trim().split("\n").slice(-3).join(" | ");
}
if (failed && packagesAreThere()) {
  console.error(`cannot bundle the page: ${failed}`);
  process.exit(1);
}
fs.writeFileSync(out, files.length ? cpp(files) : cpp([]).replace(/std::string_view Text[\s\S]*?\n}\n\n/, ""));
if (failed) {
  console.log(`ingot is built without its page because npm cannot fetch its packages: ${failed}`);
  fs.utimesSync(out, 0, 0);  // older than its sources: the next build tries again
}
