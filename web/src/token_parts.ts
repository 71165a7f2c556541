// Computes what happened to the sampled tokens. Pure.
import { Part } from "./api";
import { count } from "./dom";

// `tokens` is from /api/time. The remainder is neither trained nor counted for a dropped group, and its name says which tokens it
// includes.
export function tokenParts(tokens: Record<string, number>): Part[] {
  const rest = Math.max(0, tokens.sampled - tokens.trained - tokens.stale - tokens.dropped);
  const deleted = tokens.dropped_groups_deleted ?? 0;
  const uncounted = Math.max(0, tokens.dropped_groups - tokens.dropped_groups_counted - deleted);
  const groups = [uncounted ? `${count(uncounted, "dropped or failed group")} not counted yet` : "",
    deleted ? `${count(deleted, "dropped or failed group")} with deleted trees` : ""].filter((one) => one);
  return [
    { name: "trained", amount: tokens.trained },
    { name: "too old to train", amount: tokens.stale },
    { name: "dropped and failed groups", amount: tokens.dropped },
    { name: groups.length ? `not separable: ${groups.join(", ")}, and evaluation, probes, failed attempts, in progress` :
      "evaluation, probes, failed attempts, in progress", amount: rest },
  ];
}
