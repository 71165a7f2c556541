"""Tests scripts/sass_report.py on small programs: which loop, which way through it, which pipe, and the comparison."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import kernel_work  # noqa: E402
import sass_report  # noqa: E402
from sass_loops import Instruction, blocks_of, inner_loop, loops_of, parse  # noqa: E402


def listing(*lines, name="Kernel", code="sm_80"):
    """Returns what cuobjdump prints for instructions at 0x0000, 0x0010, ..."""
    out = ["", f"\tcode for {code}", f"\t.target\t{code}", "", f"\t\tFunction : {name}", '\t.headerflags\t@"EF_CUDA"']
    for i, line in enumerate(lines):
        out.append(f"        /*{16 * i:04x}*/                   {line} ;     /* 0x0000000000000000 */")
        out.append("                                                      /* 0x000fe400078e00ff */")
    return "\n".join(out) + "\n\t\t..........\n"


# Two nested loops. The inner one skips a mask (0x40-0x50) if P1 holds.
NESTED = listing(
    "MOV R1, c[0x0][0x28]",       # 0x00
    "IADD3 R2, R2, 0x1, RZ",      # 0x10  outer loop
    "LDS.128 R4, [R3]",           # 0x20  inner loop
    "@P1 BRA 0x60",               # 0x30
    "ISETP.GE.AND P2, PT, R2, R3, PT",
    "FSEL R4, R4, -INF, P2",
    "HMMA.16816.F32.BF16 R8, R4, R6, R8",  # 0x60
    "MUFU.EX2 R9, R8",
    "FFMA R9, R9, R8, R8",
    "@!P0 BRA 0x20",              # 0x90
    "STL [R1], R9",               # 0xa0: in the outer loop only
    "@P3 BRA 0x10",
    "EXIT",
    "BRA 0xd0",                   # 0xd0: the padding after the end is a loop of its own
    "NOP")


def loop_of(text, name="Kernel", code="sm_80"):
    kernel = parse(text)[code, name]
    return inner_loop(kernel, sass_report.math_of(kernel))


class Loops(unittest.TestCase):
    def test_reads_kernels_predicates_and_modifiers(self):
        kernels = parse(NESTED + listing("EXIT", name="Other", code="sm_90a"))
        self.assertEqual(list(kernels), [("sm_80", "Kernel"), ("sm_90a", "Other")])
        code = kernels["sm_80", "Kernel"]
        self.assertEqual(code[2], Instruction(0x20, "LDS.128", "R4, [R3]", ""))
        self.assertEqual((code[9].predicate, code[9].base, code[9].at), ("@!P0", "BRA", 0x90))

    def test_takes_the_inner_loop_and_skips_the_mask(self):
        self.assertEqual([one.base for one in loop_of(NESTED)], ["LDS", "BRA", "HMMA", "MUFU", "FFMA", "BRA"])

    def test_keeps_the_math_where_a_branch_could_avoid_it(self):
        around = listing("IADD3 R2, R2, 0x1, RZ", "@P1 BRA 0x40", "FFMA R1, R1, R1, R1", "FFMA R2, R1, R1, R1",
                         "@P0 BRA 0x0", "EXIT")
        self.assertEqual([one.base for one in loop_of(around)], ["IADD3", "BRA", "FFMA", "FFMA", "BRA"])

    def test_passes_through_all_products_and_copies_that_lie_on_one_way(self):
        """A warp without rows skips both products, and the last iteration has no tile to copy."""
        text = listing("BAR.SYNC 0x0", "@P1 BRA 0x40", "HMMA.16816.F32 R8, R4, R6, R8", "HMMA.16816.F32 R8, R4, R6, R8",
                       "@P2 BRA 0x60",                   # 0x40
                       "LDGSTS.E.BYPASS.128 [R1], [R2]",
                       "@P1 BRA 0xa0",                   # 0x60
                       "@P3 BRA 0x90",
                       "FSEL R4, R4, -INF, P2",
                       "HMMA.16816.F32 R8, R4, R6, R8",  # 0x90
                       "@P0 BRA 0x0", "EXIT")            # 0xa0
        self.assertEqual([one.base for one in loop_of(text)], ["BAR", "BRA", "HMMA", "HMMA", "BRA", "LDGSTS", "BRA", "BRA",
                                                               "HMMA", "BRA"])

    def test_tensor_instructions_mark_the_loop_even_if_another_has_more_products(self):
        both = listing("HMMA.16816.F32 R8, R4, R6, R8", "@P0 BRA 0x0", "FFMA R1, R1, R1, R1", "FFMA R1, R1, R1, R1",
                       "@P0 BRA 0x20", "EXIT")
        self.assertEqual([one.base for one in loop_of(both)], ["HMMA", "BRA"])

    def test_knows_the_jumps_that_carry_their_condition_as_an_operand(self):
        text = listing("FFMA R1, R1, R1, R1", "BRA.DIV UR4, 0x40", "BRA P0, 0x0", "EXIT", "WARPSYNC R2", "BRA 0x20")
        blocks = blocks_of(parse(text)["sm_80", "Kernel"])
        self.assertEqual([sorted(block.after) for block in blocks], [[1, 3], [0, 2], [], [1]])
        self.assertEqual([one.base for one in loop_of(text)], ["FFMA", "BRA", "BRA"])

    def test_a_loop_that_is_entered_in_its_middle_is_counted_from_there(self):
        text = listing("BRA 0x20", "FFMA R1, R1, R1, R1", "IADD3 R2, R2, 0x1, RZ", "@P0 BRA 0x10", "EXIT")
        self.assertEqual([one.base for one in loop_of(text)], ["IADD3", "BRA", "FFMA"])

    def test_a_kernel_without_a_loop_or_without_math_has_none(self):
        self.assertEqual(loop_of(listing("FFMA R1, R1, R1, R1", "EXIT")), [])
        self.assertEqual(loop_of(listing("IADD3 R1, R1, R1, R1", "@P0 BRA 0x0", "EXIT")), [])
        self.assertEqual(parse("no machine code here\n"), {})


class Counts(unittest.TestCase):
    def test_counts_by_hand(self):
        counts = sass_report.count(loop_of(NESTED))
        self.assertEqual(counts, {"issue": 6, "tensor": 1, "fma": 1, "alu": 0, "exp": 1, "fp64": 0, "shared": 4,
                                  "global": 0, "local": 0})

    def test_pipes(self):
        for name, pipe in {"IMAD.MOV.U32": "fma", "LOP3.LUT": "alu", "F2FP.BF16.PACK_AB": "alu", "MUFU.EX2": "exp",
                           "DFMA": "fp64", "LDGSTS.E.BYPASS.128": "global", "LDL.LU": "local", "UIADD3": "other",
                           "R2UR": "other", "BAR.SYNC": "other", "SHFL.BFLY": "shared"}.items():
            self.assertEqual(sass_report.pipe(Instruction(0, name)), pipe, name)
        self.assertEqual(sass_report.pipe(Instruction(0, "LDS", "RZ, [RZ]", "@!PT")), "other")

    def test_wavefronts_and_tensor_steps(self):
        for name, count in {"LDS": 1, "LDS.64": 2, "STS.128": 4, "LDSM.16.M88.4": 4, "LDSM.16.MT88.2": 2}.items():
            self.assertEqual(sass_report.wavefronts(Instruction(0, name)), count, name)
        self.assertEqual(sass_report.tensor_steps(Instruction(0, "HMMA.1688.F32.TF32")), 0.5)
        # 64 x 128 x 16 products of four warps: 32,768 a warp, 16 times m16n8k16.
        self.assertEqual(sass_report.tensor_steps(Instruction(0, "HGMMA.64x128x16.F32.BF16")), 16)

    def test_shares(self):
        """256 products, 883 instructions on an A100: 883 / (256 * 8) = 0.43."""
        counts = {"issue": 883, "tensor": 256, "fma": 276, "alu": 184, "exp": 69, "fp64": 0, "shared": 353}
        found, whole = sass_report.shares(counts, "A100")
        self.assertEqual(whole, "tensor")
        self.assertEqual({name: round(value, 2) for name, value in found.items()},
                         {"issue": 0.43, "tensor": 1.0, "fma": 0.27, "alu": 0.18, "exp": 0.27, "fp64": 0.0, "shared": 0.69})
        self.assertEqual(sass_report.shares({**counts, "tensor": 0}, "A100")[1], "shared")

    def test_resident_blocks(self):
        # 178 registers: 5,888 a warp with rounding, so 11 warps: one block of 8.
        self.assertEqual(sass_report.resident(178, 43776, 256, "A100"), 1)
        # 128 registers, 65 KiB, 4 warps: 4 by registers; 2 (A100), 3 (H100), and 1 (4090) by shared memory.
        self.assertEqual([sass_report.resident(128, 65 << 10, 128, gpu) for gpu in ("A100", "H100", "4090")], [2, 3, 1])
        self.assertEqual(sass_report.resident(255, 65 << 10, 128, "H100"), 2)  # by registers
        self.assertEqual(sass_report.resident(24, 0, 256, "4090"), 6)  # 48 warps

    def test_resources_and_threads(self):
        usage = "Resource usage:\n Common:\n  GLOBAL:0\n Function K:\n  REG:178 STACK:8 SHARED:43776 LOCAL:0 CONSTANT[0]:528\n"
        self.assertEqual(sass_report.resources(usage), {"K": {"registers": 178, "stack": 8, "shared_bytes": 43776}})
        elf = (".nv.info.J\n\t<0x1>\n\tAttribute:\tEIATTR_PARAM_CBANK\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x6 0xe80160 \n\n\n"
               ".nv.info.K\n\t<0x1>\n\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x80 0x2 0x1 \n")
        self.assertEqual(sass_report.threads_of(elf), {"K": 256})


class Report(unittest.TestCase):
    def setUp(self):
        usage = "Function Kernel:\n  REG:255 STACK:0 SHARED:0 LOCAL:0\n"
        self.rows = sass_report.analyze(NESTED, usage, "")

    def test_says_that_there_is_no_tensor_instruction(self):
        plain = sass_report.analyze(listing("FFMA R1, R1, R1, R1", "@P0 BRA 0x0", "EXIT"), "", "")
        self.assertIn("| none |", sass_report.table(plain).splitlines()[2])
        self.assertNotIn("none", sass_report.table(self.rows))

    def test_reports_growth_spills_and_lost_kernels(self):
        self.assertEqual(sass_report.compare(self.rows, copy.deepcopy(self.rows)), [])
        grown = copy.deepcopy(self.rows)
        grown[0]["loop"]["issue"] = 5
        self.assertEqual(sass_report.compare(self.rows, grown), ["Kernel (sm_80): issue grew from 5 to 6"])
        within = [{**self.rows[0], "registers": 245}]  # 4.1 %
        self.assertEqual(sass_report.compare(self.rows, within), [])
        spills = copy.deepcopy(self.rows)
        spills[0]["loop"]["local"] = 2
        self.assertEqual(len(sass_report.compare(spills, spills)), 1, "a spill is never expected")
        self.assertIn("no such kernel", sass_report.compare([], self.rows)[0])

    def test_peers_are_shown_and_not_compared(self):
        peer = {**self.rows[0], "kernel": "CUTLASS forward, width 64", "peer": True}
        spilling = copy.deepcopy(peer)
        spilling["loop"]["local"] = 27
        self.assertEqual(sass_report.compare(self.rows, [*self.rows, spilling]), [])
        self.assertIn("| peer: CUTLASS forward, width 64, A100 | tensor |", sass_report.table([spilling]))

    def test_work_by_hand(self):
        """A row of 128 numbers: two reads of 256 bytes and a write of 4; a product and a sum each."""
        delta = kernel_work.WORK[0]
        self.assertEqual((delta.bytes, delta.operations), (516, 256))
        name, time = kernel_work.limit(delta, "A100")
        self.assertEqual((name, round(time)), ("memory", 253))  # 516,000 bytes at 2,039 a nanosecond
        busy = kernel_work.Work("K", "row", "", 1, 1000)
        self.assertEqual(kernel_work.limit(busy, "A100")[0], "fp32")
        self.assertEqual(len(kernel_work.work_table().splitlines()), 2 + len(kernel_work.WORK))

    def test_writes_the_page_between_its_markers(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("before\n<!-- one -->\nold\n<!-- /one -->\nafter\n")
            for _ in range(2):
                sass_report.write_page(page, "one", "| new |")
                self.assertEqual(page.read_text(), "before\n<!-- one -->\n| new |\n<!-- /one -->\nafter\n")

    def test_without_a_compiler_it_is_skipped_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            copied = pathlib.Path(folder, "scripts")
            copied.mkdir()
            for name in ("sass_report.py", "sass_loops.py", "kernel_work.py"):
                (copied / name).write_text((ROOT / "scripts" / name).read_text())
            environment = {**os.environ, "PATH": folder, "INGOT_CUDA_HOME": ""}
            done = subprocess.run([sys.executable, copied / "sass_report.py"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stdout, r"^SKIPPED sass_report: no nvcc in .*setup.sh cuda")

    def test_the_committed_counts_are_those_of_the_page(self):
        rows = json.loads((ROOT / "tests/kernels/sass/expected.json").read_text())
        page = (ROOT / "docs/guide/gpu.md").read_text()
        for marker, table in ((sass_report.TABLE, sass_report.table(rows)), (sass_report.WORK_TABLE, kernel_work.work_table())):
            self.assertIn(f"<!-- {marker} -->\n{table}\n<!-- /{marker} -->", page)


if __name__ == "__main__":
    unittest.main()
