// Returns the YAML lines that contain `wanted`, ignoring case, each below its parent keys. Pure.
export function linesWith(yaml: string, wanted: string): string {
  const needle = wanted.trim().toLowerCase();
  if (!needle) return yaml;
  const found: string[] = [];
  let above: string[] = [];  // parent keys of the line that are not in `found` yet, outermost first
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
