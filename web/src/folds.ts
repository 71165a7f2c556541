// Stores which foldable sections are open, in this browser and for the page's address. Sections start closed. If the browser has
// no store for this page, the state is lost when the page closes.
const kKey = "ingot.open-sections";

type Store = Pick<Storage, "getItem" | "setItem">;

export class Folds {
  private readonly open = new Set<string>();
  constructor(private readonly store: Store | null) {
    try {
      const stored: unknown = JSON.parse(store?.getItem(kKey) ?? "[]");
      if (Array.isArray(stored)) for (const title of stored) if (typeof title === "string") this.open.add(title);
    } catch { /* the store is damaged, so all sections are closed */ }
  }

  isOpen(title: string): boolean {
    return this.open.has(title);
  }

  set(title: string, open: boolean): void {
    if (open) this.open.add(title);
    else this.open.delete(title);
    try {
      this.store?.setItem(kKey, JSON.stringify([...this.open].sort()));
    } catch { /* the store is full, so the state lasts until the page closes */ }
  }
}

// Returns the browser's store, or null if there is none for this page.
export function browserStore(): Store | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
