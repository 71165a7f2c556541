// Shows the run's configuration with a line filter.
import { Run, ask } from "./api";
import { h, replace } from "./dom";
import { raw } from "./message";
import { View } from "./view";
import { linesWith } from "./yaml_lines";

export class ConfigView implements View {
  readonly title = "Configuration";
  readonly follows = false;
  constructor(private readonly place: HTMLElement) {}

  async update(run: Run): Promise<void> {
    const { yaml } = await ask<{ yaml: string }>("config");
    const shown = h("div", { "aria-live": "polite" }, raw(yaml));
    const filter = h("input", { type: "search", "aria-label": "lines with", placeholder: "lines with",
      oninput: () => replace(shown, raw(linesWith(yaml, (filter as HTMLInputElement).value))) });
    replace(this.place, h("h2", {}, "Configuration"), h("p", { class: "soft" }, `${run.folder}/config.yaml, with all defaults. \`ingot config explain KEY\` describes a key. `,
      "`ingot view` on the folder that contains the runs shows which keys differ."), h("p", {}, filter), h("div", { class: "card" }, shown));
  }
}
