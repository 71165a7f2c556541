// The lines of a YAML text that have the wanted text, in any case, each below the keys that it belongs to. Pure.
export function linesWith(yaml: string, wanted: string): string {
  const needle = wanted.trim().toLowerCase();
  if (!needle) return yaml;
  const found: string[] = [];
  let above: string[] = [];  // the keys of the line, from the outermost on, that are not in `found` yet
  for (const line of yaml.split("\n")) {
    const depth = line.search(/\S/);
    if (depth < 0) continue;
    above = above.filter((one) => one.search(/\S/) < depth);
    if (line.toLowerCase().includes(needle)) {
      found.push(...above, line);
      above = [];
    } else {
      above.push(line);
    }
  }
  return found.length ? found.join("\n") : `No line has "${wanted.trim()}".`;
}
