// licenses.mjs - prints the licence text of every package that is inside the bundle.
//
//     node licenses.mjs meta.json > LICENSES.txt
//
// esbuild drops licence comments when it minifies; its metafile says which files went
// in. A package without a licence file stops the build.
//
// SPDX-License-Identifier: MIT
import { readFileSync, readdirSync } from "node:fs";

const { inputs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const folders = new Set();
for (const path of Object.keys(inputs)) {
  const match = path.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//);
  if (match) folders.add(match[1]);
}

for (const folder of [...folders].sort()) {
  const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} ${version} (${license}) comes without a licence text`);
  const text = readFileSync(`${folder}/${file}`, "utf8").replace(/\r\n/g, "\n").trim();
  console.log(`== ${name} ${version} (${license})\n${text}\n`);
}
