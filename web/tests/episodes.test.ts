// Tests the order of the episode list.
import assert from "node:assert/strict";
import test from "node:test";
import { Episode } from "../src/api";
import { Order, clicked, inOrder, kColumns } from "../src/episode_order";

const kEpisodes = [["a", 1, "task 10"], ["b", 0.5, "task 9"], ["c", 1, "Task 9"], ["d", -2, ""]].map(([id, reward, task]) => ({ id, reward, task }) as Episode);
const column = (title: string) => kColumns.findIndex(([one]) => one.replace("#", "") === title);
const ids = (order: Order) => inOrder(kEpisodes, order).map((one) => one.id).join("");

test("numbers begin with the greatest, equal ones as they were found, and a second click reverses them", () => {
  const order = clicked({ column: -1, descending: false }, column("reward"));
  assert.equal(ids(order), "acbd");
  assert.equal(ids(clicked(order, column("reward"))), "dbac");
});

test("texts begin with the first, and numbers in them count as numbers", () => {
  assert.equal(ids(clicked({ column: column("reward"), descending: true }, column("task"))), "dbca");
});

test("without a chosen column the order is the server's", () => {
  assert.equal(ids({ column: -1, descending: true }), "abcd");
});
