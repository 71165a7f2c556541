// Defines the columns and the order of the episode list. Pure.
import { Episode } from "./api";

export const kColumns: [string, (episode: Episode) => string | number][] = [
  ["episode", (episode) => episode.id], ["#group", (episode) => episode.group], ["#sample", (episode) => episode.sample],
  ["#attempt", (episode) => episode.attempt], ["state", (episode) => episode.state], ["#reward", (episode) => episode.reward],
  ["#time", (episode) => episode.seconds], ["task", (episode) => episode.task], ["domain", (episode) => episode.domain],
  ["scaffold", (episode) => episode.scaffold], ["cause", (episode) => episode.cause || episode.detail]];

export interface Order { column: number; descending: boolean }  // column -1 = the order of the server

// Returns the order after a click on a column. Numbers start with the largest, and text in alphabetical order. Another click
// reverses the order.
export function clicked(order: Order, column: number): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: kColumns[column][0].startsWith("#") };
}

// Sorts stably: episodes with equal values keep the order of the server.
export function inOrder(episodes: Episode[], { column, descending }: Order): Episode[] {
  if (column < 0) return episodes;
  const value = kColumns[column][1], sign = descending ? -1 : 1;
  return [...episodes].sort((a, b) => {
    const x = value(a), y = value(b);
    if (typeof x === "string" || typeof y === "string") return sign * String(x).localeCompare(String(y), "en", { numeric: true });
    return sign * (x - y) || 0;
  });
}
