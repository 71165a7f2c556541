// The page's addresses: "#/VIEW?..." on the page of one run, and "#/of/RUN/VIEW?..." for one run of a folder.

export interface Address { run: string; view: string; query: URLSearchParams }  // run: "" = the page shows one run, or lists
                                                                                // runs

let run = "";  // the run whose views are shown

// Returns the parts of an address. The default view is the overview. If a run's name cannot be decoded, `run` is "".
export function parse(fragment: string): Address {
  const [path, query] = fragment.replace(/^#\/?/, "").split("?");
  const parts = path.split("/");
  const of = parts[0] === "of" && parts.length > 1 ? decoded(parts[1]) : "";
  return { run: of, view: (of ? parts[2] : parts[0]) || "overview", query: new URLSearchParams(query ?? "") };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

// Sets the run that later addresses and requests refer to.
export function show(name: string): void {
  run = name;
}

// Returns the address of a view for the shown run, or for `other`.
export function hash(view: string, parameters: Record<string, string | number | undefined> = {}, other = run): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return `#/${other ? `of/${encodeURIComponent(other)}/` : ""}${view}${text ? "?" + text : ""}`;
}

// Returns the server's path for a request about the shown run.
export function apiPath(path: string): string {
  return `/api/${run ? `of/${encodeURIComponent(run)}/` : ""}${path}`;
}
