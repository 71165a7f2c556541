import { Run } from "./api";

// One view of the page. `update` is called at once, and again while the run goes on if `follows` is not false.
export interface View {
  readonly title: string;
  readonly follows?: boolean;
  readonly episodes?: boolean;  // it shows episodes, and nothing of a run that has no pool
  update(run: Run): Promise<void>;
  close?(): void;
}
