// What a module may hold, and what is said about one that it may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  TestMemory memory;
  try {
    RunText(text, memory, {memory.Allocate(256, 256)});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PtxModule, FillsItsVariables) {
  TestMemory memory;
  const std::unique_ptr<Module> module = Module::Load(
      KernelText("",
                 ".global .align 4 .u32 counts[4] = {1, 2, 0xff};\n.const .align 8 .f64 pi = 0d400921FB54442D18;\n"
                 ".visible .global .align 8 .u64 pointers[2] = {counts, generic(counts)+4};\n.global .align 1 .b8 "
                 "name[3] = {72, 105, 0};\n"
                 ".extern .func (.param .b32 result) vprintf (.param .b64 a, .param .b64 b);\n"),
      memory);
  const Variable* const counts = module->FindVariable("counts");
  ASSERT_NE(counts, nullptr);
  EXPECT_EQ(counts->bytes, 16u);
  EXPECT_EQ(memory.Get<uint32_t>(counts->address, 4), (std::vector<uint32_t>{1, 2, 255, 0}));
  EXPECT_EQ(memory.Get<double>(module->FindVariable("pi")->address, 1)[0], 3.141592653589793);
  EXPECT_EQ(memory.Get<uint64_t>(module->FindVariable("pointers")->address, 2),
            (std::vector<uint64_t>{counts->address, counts->address + 4}));
  EXPECT_EQ(memory.Get<char>(module->FindVariable("name")->address, 3)[1], 'i');
  EXPECT_EQ(module->FindVariable("nothing"), nullptr);
  EXPECT_EQ(module->FindKernel("nothing"), nullptr);
}

TEST(PtxModule, DescribesItsKernels) {
  TestMemory memory;
  const std::unique_ptr<Module> module = Module::Load(
      ".version 9.0\n.target sm_80, texmode_independent\n.address_size 64\n/* two\nlines */\n"
      ".weak .entry f(.param .u32 n, .param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[12])\n.maxntid 64, 2, "
      "1\n.minnctapersm 2\n{\n"
      ".reg .b32 %r<3>;\n.reg .f64 x, y;\n.reg .pred %p<9>;\n.shared .align 16 .b8 m[100];\n.pragma "
      "\"nounroll\";\n.loc 1 2 3\nret;\n}\n",
      memory);
  const Kernel* const k = module->FindKernel("f");
  ASSERT_NE(k, nullptr);
  ASSERT_EQ(k->parameters.size(), 3u);
  EXPECT_EQ(k->parameters[1].offset, 8u);
  EXPECT_EQ(k->parameters[2].offset, 16u);
  EXPECT_EQ(k->parameter_bytes, 28u);
  EXPECT_EQ(k->static_shared_bytes, 100u);
  EXPECT_EQ(k->max_threads, 128u);
  EXPECT_EQ(k->registers, 7u);
}

// Inline assembly declares registers and labels of its own, more than once.
TEST(PtxModule, NestedScopesHaveTheirOwnNames) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(256, 256);
  const std::string scope =
      "{\n.reg.b32 t;\n.reg .pred p;\nmov.u32 t, %r1;\nAGAIN:\nadd.u32 t, t, 1;\nsetp.lt.u32 p, t, 10;\n@p bra "
      "AGAIN;\nadd.u32 %r2, %r2, t;\n}\n";
  const Outcome outcome = RunText(KernelText("mov.u32 %r1, 3;\nmov.u32 %r2, 0;\n" + scope + "mov.u32 %r1, 20;\n" +
                                             scope + "st.global.u32 [%rd0], %r2;\n"),
                                  memory, {out}, {{1, 1, 1}, {1, 1, 1}, 0});
  EXPECT_EQ(Kinds(outcome), "");
  EXPECT_EQ(memory.Get<uint32_t>(out, 1)[0], 31u);
}

// Dynamic shared memory lies after the kernel's own and the module's that it names.
TEST(PtxModule, LaysOutDynamicSharedMemory) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(256, 256);
  const std::string declarations =
      ".extern .shared .align 128 .b8 dynamic[];\n.shared .align 4 .b8 named[20];\n.shared .align 4 .b8 other[4096];\n";
  const std::string body =
      ".shared .align 4 .b8 own[8];\nmov.u32 %r1, dynamic;\nmov.u32 %r2, named;\nmov.u32 %r3, "
      "%dynamic_smem_size;\nst.shared.u32 [%r1+60], %r1;\nst.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r3};\n";
  const Outcome outcome = RunText(KernelText(body, declarations), memory, {out}, {{1, 1, 1}, {1, 1, 1}, 64});
  EXPECT_EQ(Kinds(outcome), "");
  EXPECT_EQ(memory.Get<uint32_t>(out, 3), (std::vector<uint32_t>{128, 8, 64}));
}

TEST(PtxModule, SpecialRegistersTellTheThread) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(4096, 256);
  const std::string body =
      "mov.u32 %r1, %tid.y;\nmov.u32 %r2, %ntid.x;\nmad.lo.u32 %r3, %r1, %r2, %r0;\nmov.u32 %r4, %ctaid.x;\nmad.lo.u32 "
      "%r5, %r4, 48, %r3;\n"
      "mov.u32 %r6, %laneid;\nmov.u32 %r7, %warpid;\nshl.b32 %r7, %r7, 8;\nor.b32 %r6, %r6, %r7;\nmul.wide.u32 %rd5, "
      "%r5, 4;\nadd.u64 %rd5, %rd0, %rd5;\nst.global.u32 [%rd5], %r6;\n";
  RunText(KernelText(body), memory, {out}, {{2, 1, 1}, {24, 2, 1}, 0});
  const std::vector<uint32_t> got = memory.Get<uint32_t>(out, 96);
  for (uint32_t i = 0; i < 96; ++i) EXPECT_EQ(got[i], i % 48 % 32 + (i % 48 / 32 << 8)) << i;
}

TEST(PtxModule, ErrorsNameLineAndInstruction) {
  EXPECT_THAT(ErrorOf(KernelText("wgmma.fence.sync.aligned;\n")),
              ::testing::AllOf(HasSubstr("line 18, in k"), HasSubstr("wgmma.fence"), HasSubstr("not built")));
  EXPECT_THAT(ErrorOf(KernelText("add.s32 %r1, %rd1, 1;\n")), HasSubstr("another width"));
  EXPECT_THAT(ErrorOf(KernelText("bra NOWHERE;\n")), HasSubstr("\"NOWHERE\" is not declared"));
  EXPECT_THAT(ErrorOf(KernelText("mov.u32 %r1, unknown;\n")), HasSubstr("\"unknown\" is not declared"));
  EXPECT_THAT(ErrorOf(KernelText("add.s32 %r1, %r2\n")), HasSubstr("expected ',' or ';'"));
  EXPECT_THAT(ErrorOf(KernelText("ld.global.u32 %r1, [%rd1;\n")), HasSubstr("expected ']'"));
  EXPECT_THAT(ErrorOf(KernelText("mov.u32 %r1, 12z;\n")), HasSubstr("expected a number instead of \"12z\""));
  EXPECT_THAT(ErrorOf(KernelText("add.s32 %r1;\n")), HasSubstr("number of operands"));
  EXPECT_THAT(ErrorOf(KernelText("setp.lt.s32 %p1;\n")), HasSubstr("too few"));
  EXPECT_THAT(ErrorOf(".version 9.0\nnonsense"), HasSubstr("line 2: expected a directive"));
  EXPECT_THAT(ErrorOf(".visible .entry k(.param .u64 p) {\n.reg .b32 %r<9>;\n"), HasSubstr("but there is the end"));
}

// A word that no rule reads would change an instruction silently.
TEST(PtxModule, RefusesModifiersThatItDoesNotKnow) {
  for (const char* const statement :
       {"min.xorsign.abs.f32 %f1, %f2, %f3;\n", "add.rn.pz.f32 %f1, %f2, %f3;\n", "setp.lt.ftz.f16 %p1, %h1, %h2;\n",
        "ld.global.v2.mmio.u32 {%r1, %r2}, [%rd0];\n", "max.relu.s32 %r1, %r2, %r3;\n",
        "red.async.shared.add.u32 [%r1], %r2;\n", "cvt.rn.satfinite.f16.f32 %h1, %f1;\n", "fence.proxy.async;\n",
        "vote.ballot.b32 %r1, %p1;\n", "add.f32x2 %rd1, %rd2, %rd3;\n"}) {
    EXPECT_THAT(ErrorOf(KernelText(statement)), ::testing::AllOf(HasSubstr("line 18"), HasSubstr("\""))) << statement;
  }
  EXPECT_THAT(ErrorOf(KernelText("mad.hi.sat.s32 %r1, %r2, %r3, %r4;\n")), HasSubstr("the modifier .sat is not built"));
}

// What is not built matters only if it runs.
TEST(PtxModule, RunsPastWhatIsNotBuilt) {
  TestMemory memory;
  const std::string body =
      "setp.ne.u32 %p1, %r0, %r0;\n@%p1 bra RARE;\nbra END;\nRARE:\n{\n.param .b64 param0;\nst.param.b64 [param0+0], "
      "%rd1;\n"
      ".param .b32 retval0;\ncall.uni (retval0), vprintf, (param0, param0);\nld.param.b32 %r9, [retval0+0];\n}\nEND:\n";
  EXPECT_EQ(Kinds(RunText(KernelText(body), memory, {0})), "");
}

// Every prefix of a module ends in a module or an error.
TEST(PtxModule, CutModulesAreRefused) {
  const std::string text =
      KernelText("ld.global.v2.u32 {%r1, %r2}, [%rd0+8];\n@!%p1 bra END;\n/* x */ add.s32 %r1, %r2, -4;\nEND:\n",
                 ".global .align 4 .u32 a[2] = {1, 2};\n");
  for (size_t length = 0; length < text.size(); ++length) {
    TestMemory memory;
    try {
      Module::Load(text.substr(0, length), memory);
    } catch (const Error&) {
    }
  }
}

TEST(PtxModule, RefusesLaunchesThatACardRefuses) {
  TestMemory memory;
  const std::unique_ptr<Module> module = Module::Load(KernelText(""), memory);
  const Kernel& k = *module->FindKernel("k");
  const std::vector<std::byte> parameters(40);
  EXPECT_THROW(module->Run(k, {{1, 1, 1}, {1025, 1, 1}, 0}, parameters, {}), Error);
  EXPECT_THROW(module->Run(k, {{1, 0, 1}, {32, 1, 1}, 0}, parameters, {}), Error);
  EXPECT_THROW(module->Run(k, {{1, 1, 1}, {32, 1, 1}, 0}, std::span(parameters).first(39), {}), Error);
}

}  // namespace
}  // namespace ingot::standin::ptx
