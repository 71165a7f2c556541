// Creates elements from values. Text is always a text node, so content from a run is never parsed as markup.

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, string | number | boolean | ((event: never) => void) | undefined>;

function append(parent: Node, child: Child): void {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((one) => append(parent, one));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

// on* attributes are listeners; "style.X" sets one property; all others are attributes. An href must be a fragment of this
// page. Any other href is an error.
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (name.startsWith("style.")) element.style.setProperty(name.slice(6), String(value));
    else if (name === "href" && !String(value).startsWith("#")) throw new Error("an address outside this page");
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

// Redraws `parent`. An element stays if the new element in its place has the same tag, and with it the focus, the selection,
// and the scroll position. Only differences are written. Do not use it for elements with listeners, because a listener stays
// with its element.
export function refresh(parent: Element, ...children: Child[]): void {
  const fresh = document.createElement("div");
  append(fresh, children);
  match(parent, fresh);
}

function match(old: Element, fresh: Element): void {
  const wanted = [...fresh.childNodes];
  while (old.childNodes.length > wanted.length) old.lastChild!.remove();
  wanted.forEach((to, i) => {
    const from = old.childNodes[i];
    if (!from) old.appendChild(to);
    else if (from.nodeName !== to.nodeName) from.replaceWith(to);
    else if (!(from instanceof Element) || !(to instanceof Element)) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    } else {
      for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
      for (const { name, value } of [...to.attributes]) if (name !== "style" && from.getAttribute(name) !== value) from.setAttribute(name, value);
      // The content security policy forbids style attributes, but not changes through the element's style object.
      if (from instanceof HTMLElement && to instanceof HTMLElement && from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText;
      match(from, to);
    }
  });
}

export function link(address: string, ...children: Child[]): HTMLElement {
  return h("a", { href: address }, ...children);
}

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential(2);
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size < 1e-3) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 1 : digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

export function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) < 5e-4) return "0 ms";  // and no -0
  if (value < 1) return `${(value * 1000).toFixed(0)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  if (value < 7200) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function percent(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : `${(Math.abs(value) < 5e-4 ? 0 : value * 100).toFixed(1)}%`;
}

// The order of a table's rows. `choose` is called after a click on a column's title.
export interface Sorting { column: number; descending: boolean; choose: (column: number) => void }

// Creates a table. A "#" before a title marks a column of numbers. With `sorting`, titles are buttons, and `rows` are in that order.
export function table(caption: string, columns: string[], rows: Child[][], sorting?: Sorting): HTMLElement {
  const numeric = columns.map((title) => title.startsWith("#"));
  const cell = (tag: string, child: Child, i: number) =>
    h(tag, { class: numeric[i] ? "num" : "", scope: tag === "th" ? "col" : undefined }, child);
  const title = (text: string, i: number) => {
    const element = cell("th", sorting ? h("button", { type: "button", onclick: () => sorting.choose(i) }, text) : text, i);
    if (sorting?.column === i) element.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
    return element;
  };
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((one, i) => title(one.replace(/^#/, ""), i)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((child, i) => cell("td", child, i)))),
        rows.length ? null : h("tr", {}, h("td", { colspan: columns.length, class: "soft" }, "none")))));
}

// Creates a legend entry. `colour` is a CSS color or one of the page's own color names.
export function swatch(colour: string, meaning: string): HTMLElement {
  return h("span", {}, h("span", { class: "swatch", "style.background": colour.startsWith("--") ? `var(${colour})` : colour }), meaning);
}
