import { Run } from "./api";

// A view of the page. `update` runs immediately and, unless `follows` is false, again while the run is live.
export interface View {
  readonly title: string;
  readonly follows?: boolean;
  readonly episodes?: boolean;  // true = it shows episodes, so it is empty for a run without a pool
  update(run: Run): Promise<void>;
  close?(): void;
}
