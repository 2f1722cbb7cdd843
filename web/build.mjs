// Bundles the scripts and styles of the HTML report, and collects the licences of the libraries in them.
import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const assets = join(import.meta.dirname, "..", "rocm_perf_lab", "report", "assets");
const result = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { report: "src/main.js" },
  outdir: assets,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: "es2021",
  legalComments: "none",
  metafile: true,
});

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//g)?.at(-1);
  if (found) packages.add(found.slice("node_modules/".length, -1));
}
const licences = [...packages].sort().map((name) => {
  const directory = join(import.meta.dirname, "node_modules", name);
  const description = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  const files = readdirSync(directory, { withFileTypes: true }).filter((file) => file.isFile() && /^(licen[cs]e|notice)/i.test(file.name)).map(({ name: file }) => file).sort();
  const texts = files.map((file) => readFileSync(join(directory, file), "utf8").trim());
  return `${name} ${description.version} (${description.license})\n\n${texts.join("\n\n") || "No licence file; see the package."}\n`;
});
writeFileSync(join(assets, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
for (const name of ["report.js", "report.css"]) {
  if (!existsSync(join(assets, name))) throw new Error(`${name} was not built`);
}
