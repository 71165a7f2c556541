// Which foldable sections are open, remembered by this browser for the page's address. Closed unless it was opened. Without a
// store, as in a browser that keeps none for this page, what is open is forgotten with the page.
const kKey = "ingot.open-sections";

type Store = Pick<Storage, "getItem" | "setItem">;

export class Folds {
  private readonly open = new Set<string>();
  constructor(private readonly store: Store | null) {
    try {
      const stored: unknown = JSON.parse(store?.getItem(kKey) ?? "[]");
      if (Array.isArray(stored)) for (const title of stored) if (typeof title === "string") this.open.add(title);
    } catch { /* a damaged store: everything is closed */ }
  }

  isOpen(title: string): boolean {
    return this.open.has(title);
  }

  set(title: string, open: boolean): void {
    if (open) this.open.add(title);
    else this.open.delete(title);
    try {
      this.store?.setItem(kKey, JSON.stringify([...this.open].sort()));
    } catch { /* a full store: remembered until the page is closed */ }
  }
}

// The browser's store; null = it keeps none for this page.
export function browserStore(): Store | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
