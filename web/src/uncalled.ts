// Shows open episodes whose clients have made no call, with buttons to end them. A run without an admin key has no buttons, but
// shows the command that ends them.
import { Run, end } from "./api";
import { Child, h, refresh, replace, table } from "./dom";

function title(run: Run): string {
  const { count, oldest_s } = run.uncalled!;
  const age = `${Math.floor(oldest_s)} s`;
  return count === 1 ? `1 episode has made no call yet (${age} old)` : `${count} episodes have made no call yet (oldest ${age})`;
}

function rows(run: Run): Child[][] {
  return run.uncalled!.episodes.map((one) => [one.id, `${Math.floor(one.age_s)} s`, one.kind, one.group, one.sample, one.task,
    run.can_end ? h("button", { type: "button", "data-end": `id=${encodeURIComponent(one.id)}`, "aria-label": `End episode ${one.id}` }, "End") : null]);
}

export class Uncalled {
  readonly element = h("section", { "aria-label": "Episodes without a call" });
  private readonly list = h("div", { onclick: (event: MouseEvent) => this.clicked(event) });
  private readonly key = h("input", { type: "password", autocomplete: "off", size: 40, "aria-label": "the run's admin key" }) as HTMLInputElement;
  private readonly entry = h("p", {}, h("label", {}, "Admin key, from the file gateway.admin_key_file: ", this.key));
  private readonly said = h("p", { role: "status" });

  // When the list changes, the key field keeps its value and focus.
  update(run: Run): void {
    if (!run.uncalled) {
      if (this.list.isConnected) replace(this.element, this.said);
      return;
    }
    if (!this.list.isConnected) replace(this.element, this.list, this.entry, this.said);
    this.entry.hidden = !run.can_end;
    refresh(this.list, h("h2", {}, title(run)),
      h("p", { class: "soft" }, "Their clients may have died after opening them. Each episode ends automatically after gateway.episode_first_call_s. ",
        run.can_end ? h("button", { type: "button", "data-end": "all=1" }, "End all") :
          "`ingot episodes end RUN` ends them now."),
      table("Oldest first", ["episode", "#age", "kind", "#group", "#sample", "task", ""], rows(run)));
  }

  private clicked(event: MouseEvent): void {
    const wanted = (event.target as HTMLElement).closest("[data-end]")?.getAttribute("data-end");
    if (wanted) void this.end(wanted);
  }

  private async end(wanted: string): Promise<void> {
    const key = this.key.value.trim();
    if (!key) {
      this.say("Enter the admin key first.", true);
      this.key.focus();
      return;
    }
    try {
      const ended = await end(wanted, key);
      this.say(ended === 1 ? "1 episode was ended." : `${ended} episodes were ended.`);
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), true);
    }
  }

  private say(text: string, bad = false): void {
    this.said.textContent = text;
    this.said.className = bad ? "error" : "";
  }
}
