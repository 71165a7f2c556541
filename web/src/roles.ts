// Groups an episode's calls by role, such as the players in a game.
import { EpisodeTree } from "./api";

// `reward` is the episode's own reward plus the rewards of the role's calls. "" = calls without a role.
export interface Role { role: string; calls: number; trained: number; reward: number }

// Returns the roles in the order of their first calls; empty = no call names a role.
export function rolesOf(episode: EpisodeTree): Role[] {
  const { calls } = episode;
  if (!calls.some((call) => call.role)) return [];
  const own = calls.reduce((left, call) => left - call.reward, episode.reward);
  const roles = new Map<string, Role>();
  for (const call of calls) {
    const one = roles.get(call.role) ?? { role: call.role, calls: 0, trained: 0, reward: own };
    roles.set(call.role, { ...one, calls: one.calls + 1, trained: one.trained + (call.trained ? 1 : 0), reward: one.reward + call.reward });
  }
  return [...roles.values()];
}
