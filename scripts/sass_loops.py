"""Reads the machine code (SASS) that `cuobjdump -sass` prints, and finds the cheapest path through a kernel's inner
loop."""
import heapq
import re
from dataclasses import dataclass, field

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
TARGET = re.compile(r"\b0x([0-9a-f]+)\b")
ENDS = {"EXIT", "RET", "BRX", "JMX", "KILL"}  # control does not continue, unless the instruction is predicated
JUMPS = {"BRA", "JMP"}


@dataclass
class Instruction:
    at: int
    name: str  # with modifiers, such as LDS.128
    operands: str = ""
    predicate: str = ""

    @property
    def base(self):
        return self.name.split(".")[0]


@dataclass
class Block:
    code: list
    after: list = field(default_factory=list)  # indices of the blocks that may follow


def parse(text):
    """Returns {(architecture, mangled name): [Instruction]} for the output of `cuobjdump -sass`."""
    kernels, architecture, code = {}, "", None
    for line in text.splitlines():
        if found := re.match(r"\s*\.target\s+(\w+)|\s*code for (\w+)", line):
            architecture = found[1] or found[2]
        elif found := re.match(r"\s*Function : (\S+)", line):
            code = kernels.setdefault((architecture, found[1]), [])
        elif code is not None and (found := INSTRUCTION.match(line)):
            code.append(Instruction(int(found[1], 16), found[3], found[4].strip(), found[2] or ""))
    return kernels


def target(instruction):
    """Returns the address that a jump names, or None."""
    if instruction.base not in JUMPS:
        return None
    found = TARGET.findall(instruction.operands)
    return int(found[-1], 16) if found else None


def conditional(instruction):
    """A jump may also take a predicate as an operand, such as `BRA P0, 0x120`, or diverge: `BRA.DIV UR4, 0x120`."""
    if instruction.predicate not in ("", "@PT"):
        return True
    return instruction.base in JUMPS and "," in instruction.operands


def blocks_of(code):
    """Cuts code into basic blocks. A call continues after itself: what it calls is not counted."""
    known = {one.at for one in code}
    starts = {code[0].at} | {target(one) for one in code if target(one) in known}
    blocks, at_block = [], {}
    for i, one in enumerate(code):
        before = code[i - 1] if i else None
        if one.at in starts or before is None or before.base in ENDS | JUMPS:
            blocks.append(Block([]))
        at_block[one.at] = len(blocks) - 1
        blocks[-1].code.append(one)
    for i, block in enumerate(blocks):
        last = block.code[-1]
        to = target(last)
        if to in known:
            block.after.append(at_block[to])
        falls = last.base not in ENDS | JUMPS or conditional(last)
        if falls and i + 1 < len(blocks) and i + 1 not in block.after:
            block.after.append(i + 1)
    return blocks


def dominators(blocks):
    """Returns, for each block that can be reached, the set of blocks on every way to it."""
    order, seen, stack = [], {0}, [(0, iter(blocks[0].after))]
    while stack:  # depth first, to get an order in which one pass usually suffices
        i, rest = stack[-1]
        following = next((j for j in rest if j not in seen), None)
        if following is None:
            order.append(i)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].after)))
    order.reverse()
    before = {i: [] for i in order}
    for i in order:
        for j in blocks[i].after:
            before[j].append(i)
    found, changed = {0: {0}}, True
    while changed:
        changed = False
        for i in order[1:]:
            known = [found[j] for j in before[i] if j in found]
            fresh = set.intersection(*known) | {i}
            if found.get(i) != fresh:
                found[i], changed = fresh, True
    return found, before


def loops_of(blocks):
    """Returns {header: set of blocks} of the natural loops. Loops with one header are one loop."""
    over, before = dominators(blocks)
    loops = {}
    for i in over:
        for header in blocks[i].after:
            if header not in over[i]:
                continue
            body, stack = loops.setdefault(header, {header}), [i]
            while stack:
                j = stack.pop()
                if j not in body:
                    body.add(j)
                    stack += before[j]
    return loops


def cheapest(blocks, body, start, ends):
    """Returns the blocks of a way with the fewest instructions from `start` to one of `ends`, both included."""
    queue, best = [(len(blocks[start].code), start, (start,))], {}
    while queue:
        cost, i, way = heapq.heappop(queue)
        if i in best:
            continue
        best[i] = cost
        if i in ends:
            return list(way)
        for j in blocks[i].after:
            if j in body and j not in best:
                heapq.heappush(queue, (cost + len(blocks[j].code), j, (*way, j)))
    return []


def iteration(blocks, body, header, heart, stops):
    """Returns the blocks of the cheapest iteration through `heart` and, in their order, those of `stops` that lie on a way with it."""
    inner, at, way = body - {header}, header, [header]
    for stop in sorted(stops | {heart}):
        leg = cheapest(blocks, inner | {at}, at, {stop})
        met = heart in way or stop == heart or cheapest(blocks, inner | {stop}, stop, {heart})
        if leg and met:
            at, way = stop, way + leg[1:]
    return way + cheapest(blocks, inner | {at}, at, {i for i in body if header in blocks[i].after})[1:]


def inner_loop(code, is_math):
    """Returns the instructions of the cheapest iteration of the loop with the most math.

    The loop is the innermost one around the block with the most instructions for which `is_math` holds (the heart), and
    the iteration passes through that block, blocks with at least half as many of them, and blocks with asynchronous
    copies. So masks and tails that a branch can avoid are left out. Returns [] if no loop has such an instruction.
    """
    blocks = blocks_of(code)
    loops = loops_of(blocks)
    inside = set().union(*loops.values()) if loops else set()
    math = {i: sum(is_math(one) for one in blocks[i].code) for i in inside}
    if not math or max(math.values()) == 0:
        return []
    heart = max(sorted(math), key=lambda i: math[i])
    header, body = min(((h, b) for h, b in loops.items() if heart in b), key=lambda one: len(one[1]))
    stops = {i for i in body if 2 * math[i] >= math[heart] or any(one.base == "LDGSTS" for one in blocks[i].code)}
    return [one for i in iteration(blocks, body, header, heart, stops) for one in blocks[i].code]
