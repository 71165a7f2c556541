import { Run } from "./api";

// One view of the page. `update` runs at once, and again while the run is live unless `follows` is false.
export interface View {
  readonly title: string;
  readonly follows?: boolean;
  readonly episodes?: boolean;  // it shows episodes, so nothing for a run without a pool
  update(run: Run): Promise<void>;
  close?(): void;
}
