// The columns of the list of episodes, and its order. Pure.
import { Episode } from "./api";

export const kColumns: [string, (episode: Episode) => string | number][] = [
  ["episode", (episode) => episode.id], ["#group", (episode) => episode.group], ["#sample", (episode) => episode.sample],
  ["#attempt", (episode) => episode.attempt], ["state", (episode) => episode.state], ["#reward", (episode) => episode.reward],
  ["#time", (episode) => episode.seconds], ["task", (episode) => episode.task], ["domain", (episode) => episode.domain],
  ["scaffold", (episode) => episode.scaffold], ["cause", (episode) => episode.cause || episode.detail]];

export interface Order { column: number; descending: boolean }  // column -1: as the server found them

// A click on a column: numbers begin with the greatest, texts with the first, and the next click reverses them.
export function clicked(order: Order, column: number): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: kColumns[column][0].startsWith("#") };
}

// Episodes that are equal in the column stay in the order in which they were found.
export function inOrder(episodes: Episode[], { column, descending }: Order): Episode[] {
  if (column < 0) return episodes;
  const value = kColumns[column][1], sign = descending ? -1 : 1;
  return [...episodes].sort((a, b) => {
    const x = value(a), y = value(b);
    if (typeof x === "string" || typeof y === "string") return sign * String(x).localeCompare(String(y), "en", { numeric: true });
    return sign * (x - y) || 0;
  });
}
