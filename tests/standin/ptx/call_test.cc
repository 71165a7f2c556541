// Calls of device functions, lists of labels, and assertions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

using ::testing::HasSubstr;

// a * b + 1, by way of a function that multiplies; the larger of two 64-bit numbers; the sum of three in an array of parameters.
const std::string kFunctions = R"(
.func (.param .b32 result) product(.param .b32 a, .param .b32 b) {
.reg .b32 %r<4>;
ld.param.u32 %r1, [a];
ld.param.u32 %r2, [b];
mul.lo.u32 %r3, %r1, %r2;
st.param.b32 [result], %r3;
ret;
}
.visible .func (.param .b32 result) product_plus_one(.param .b32 a, .param .b32 b) {
.reg .b32 %r<4>;
ld.param.u32 %r1, [a];
ld.param.u32 %r2, [b];
{
.param .b32 param0;
st.param.b32 [param0], %r1;
.param .b32 param1;
st.param.b32 [param1], %r2;
.param .b32 retval0;
call.uni (retval0), product, (param0, param1);
ld.param.b32 %r3, [retval0];
}
add.u32 %r3, %r3, 1;
st.param.b32 [result], %r3;
ret;
}
.func (.param .b64 result) larger(.param .b64 a, .param .b64 b) {
.reg .b64 %rd<4>;
.reg .pred %p<2>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
setp.lt.u64 %p1, %rd1, %rd2;
@%p1 bra SECOND;
st.param.b64 [result], %rd1;
ret;
SECOND:
st.param.b64 [result], %rd2;
ret;
}
.func (.param .b32 result) sum(.param .align 8 .b8 numbers[16]) {
.reg .b32 %r<4>;
ld.param.v2.b32 {%r1, %r2}, [numbers];
ld.param.b32 %r3, [numbers+8];
add.u32 %r1, %r1, %r2;
add.u32 %r1, %r1, %r3;
st.param.b32 [result], %r1;
}
)";

// %r2 = function(%r0, argument).
std::string Call(const std::string& function, const std::string& argument, const std::string& guard = "") {
  return "{\n.param .b32 param0;\nst.param.b32 [param0+0], %r0;\n.param .b32 param1;\nst.param.b32 [param1+0], " +
         argument + ";\n.param .b32 retval0;\n" + guard + " call (retval0), " + function + ", (param0, param1);\n" +
         guard + " ld.param.b32 %r2, [retval0+0];\n}\n";
}

Outcome RunCalls(const std::string& body, std::vector<uint32_t>& got, const std::string& functions = kFunctions) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(256, 256);
  const Outcome outcome = RunText(KernelText("mov.u32 %r2, 77;\nmov.u32 %r4, 3;\n" + body +
                                                 "\nmul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd0, "
                                                 "%rd5;\nst.global.u32 [%rd5], %r2;\n",
                                             functions),
                                  memory, {out}, {{1, 1, 1}, {64, 1, 1}, 0});
  got = memory.Get<uint32_t>(out, 64);
  return outcome;
}

void Expect(const std::string& body, const std::function<uint32_t(uint32_t)>& want,
            const std::string& functions = kFunctions) {
  SCOPED_TRACE(body);
  std::vector<uint32_t> got;
  const Outcome outcome = RunCalls(body, got, functions);
  for (const Report& r : outcome.reports) ADD_FAILURE() << r.kind << ": " << r.text;
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], want(i)) << "thread " << i;
}

std::string ErrorOf(const std::string& body, const std::string& functions = kFunctions) {
  std::vector<uint32_t> got;
  try {
    RunCalls(body, got, functions);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PtxCalls, PassParametersAndResults) {
  Expect(Call("product", "%r4"), [](uint32_t i) { return 3 * i; });
  Expect(Call("product", "%r4") + "mov.u32 %r4, %r2;\n" + Call("product_plus_one", "%r4"),
         [](uint32_t i) { return 3 * i * i + 1; });
}

// Scopes declare parameters of the same name and other sizes.
TEST(PtxCalls, KeepTheParametersOfScopesApart) {
  const std::string wide =
      "cvt.u64.u32 %rd5, %r0;\n{\n.param .b64 param0;\nst.param.b64 [param0], %rd5;\n.param .b64 param1;\n"
      "st.param.b64 [param1], 40;\n.param .b64 retval0;\ncall (retval0), larger, (param0, param1);\n"
      "ld.param.b64 %rd6, [retval0];\n}\ncvt.u32.u64 %r4, %rd6;\n";
  Expect(Call("product", "%r4") + wide + Call("product", "%r4"), [](uint32_t i) { return i * std::max(i, 40u); });
  Expect(
      "{\n.param .align 8 .b8 param0[16];\nst.param.v2.b32 [param0], {%r0, %r4};\nst.param.b32 [param0+8], %r0;\n"
      ".param .b32 retval0;\ncall.uni (retval0), sum, (param0);\nld.param.b32 %r2, [retval0];\n}\n",
      [](uint32_t i) { return 2 * i + 3; });
}

// Lanes that do not call, and those that return early, meet the others after the call: the reduction needs all 32.
TEST(PtxCalls, LanesPartAndMeet) {
  const std::string sum = "redux.sync.add.u32 %r6, 1, -1;\nadd.u32 %r2, %r2, %r6;\n";
  Expect("setp.lt.u32 %p1, %r0, 20;\n" + Call("product", "%r4", "@%p1") + sum,
         [](uint32_t i) { return (i < 20 ? 3 * i : 77) + 32; });
  Expect("setp.lt.u32 %p1, %r0, 64;\n" + Call("product", "%r4", "@!%p1") + sum, [](uint32_t) { return 109; });
  const std::string parts = R"(
.func (.param .b32 result) parts(.param .b32 a, .param .b32 b) {
.reg .b32 %r<4>;
.reg .pred %p<3>;
ld.param.u32 %r1, [a];
st.param.b32 [result], 5;
and.b32 %r2, %r1, 1;
setp.eq.u32 %p1, %r2, 0;
@%p1 ret;
setp.gt.u32 %p2, %r1, 60;
@%p2 exit;
st.param.b32 [result], 6;
ret;
}
)";
  std::vector<uint32_t> got;
  const Outcome outcome =
      RunCalls(Call("parts", "%r4") + "redux.sync.add.u32 %r6, 1, -1;\nadd.u32 %r2, %r2, %r6;\n", got, parts);
  EXPECT_EQ(Kinds(outcome), "");
  EXPECT_EQ(got[2], 37u);
  EXPECT_EQ(got[3], 38u);
  EXPECT_EQ(got[62], 35u);  // lanes 61 and 63 have ended
  EXPECT_EQ(got[61], 0u);
}

// A function's local memory is each lane's own, and its shared memory the block's.
TEST(PtxCalls, FunctionsHaveLocalAndSharedMemory) {
  const std::string functions = R"(
.shared .align 4 .b8 box[256];
.func (.param .b32 result) swap(.param .b32 a, .param .b32 b) {
.local .align 4 .b8 own[8];
.reg .b32 %r<9>;
ld.param.u32 %r1, [a];
st.local.u32 [own+4], %r1;
mov.u32 %r2, box;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
st.shared.u32 [%r4], %r1;
bar.sync 0;
xor.b32 %r5, %r3, 252;
add.u32 %r6, %r2, %r5;
ld.shared.u32 %r7, [%r6];
bar.sync 0;
ld.local.u32 %r8, [own+4];
mad.lo.u32 %r7, %r8, 1000, %r7;
st.param.b32 [result], %r7;
ret;
}
)";
  Expect(Call("swap", "%r4"), [](uint32_t i) { return 1000 * i + (63 - i); }, functions);
  Expect(Call("swap", "%r4") + Call("swap", "%r4"), [](uint32_t i) { return 1000 * i + (63 - i); }, functions);
}

TEST(PtxCalls, RefuseWhatIsNotBuiltByName) {
  const std::string itself =
      ".func (.param .b32 r) itself(.param .b32 a, .param .b32 b) {\ncall (r), itself, (a, b);\nret;\n}\n";
  EXPECT_THAT(ErrorOf(Call("itself", "%r4"), itself), HasSubstr("recursive calls are not built"));
  EXPECT_THAT(ErrorOf(Call("vprintf", "%r4"), ".extern .func (.param .b32 r) vprintf(.param .b32 a, .param .b32 b);\n"),
              HasSubstr("the function \"vprintf\" is not in the module"));
  EXPECT_THAT(ErrorOf("call %rd1, PROTOTYPE;\n"), HasSubstr("indirect calls are not built"));
  EXPECT_THAT(ErrorOf("call product;\n"), HasSubstr("another number of parameters"));
  EXPECT_THAT(ErrorOf(Call("larger", "%r4")), HasSubstr("parameter 0 of the function has another size"));
  EXPECT_THAT(ErrorOf("{\n.param .b32 p;\nmov.u32 %r2, p;\n}\n"), HasSubstr("addresses of a call's parameters"));
}

TEST(PtxCalls, ReportAssertions) {
  const std::string declarations =
      ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
      ".global .align 1 .b8 text[4] = {105, 62, 48, 0};\n.global .align 1 .b8 file[3] = {102, 99, 0};\n";
  std::string body = "setp.ne.u32 %p1, %r0, 40;\n@%p1 bra END;\nmov.u64 %rd6, text;\nmov.u64 %rd7, file;\n{\n";
  for (const auto& [name, type, value] : {std::tuple{"p0", "b64", "%rd6"},
                                          {"p1", "b64", "%rd7"},
                                          {"p2", "b32", "12"},
                                          {"p3", "b64", "%rd7"},
                                          {"p4", "b64", "1"}}) {
    body += std::string(".param .") + type + " " + name + ";\nst.param." + type + " [" + name + "], " + value + ";\n";
  }
  std::vector<uint32_t> got;
  const Outcome outcome = RunCalls(body + "call.uni __assertfail, (p0, p1, p2, p3, p4);\n}\nEND:\n", got, declarations);
  ASSERT_EQ(Kinds(outcome), "assert");
  EXPECT_THAT(outcome.reports[0].text, ::testing::AllOf(HasSubstr("warp 1, lane 8"), HasSubstr("fc:12: i>0")));
}

TEST(PtxBranches, TakeTheLabelOfAnIndex) {
  const std::string body =
      "rem.u32 %r5, %r0, 3;\nLIST: .branchtargets A, B, C;\nbrx.idx %r5, LIST;\nA:\nmov.u32 %r2, 10;\nbra.uni "
      "END;\nB:\n"
      "mov.u32 %r2, 20;\nbra.uni END;\nC:\nmov.u32 %r2, 30;\nEND:\nredux.sync.add.u32 %r6, 1, -1;\nadd.u32 %r2, %r2, "
      "%r6;\n";
  Expect(body, [](uint32_t i) { return 10 * (i % 3 + 1) + 32; });
  std::vector<uint32_t> got;
  const std::string outside = "LIST: .branchtargets A;\nbrx.idx %r0, LIST;\nA:\n";
  EXPECT_EQ(Kinds(RunCalls(outside, got)), "bounds");
  EXPECT_THAT(ErrorOf("brx.idx %r0, NOWHERE;\n"), HasSubstr("\"NOWHERE\" is not declared"));
}

}  // namespace
}  // namespace ingot::standin::ptx
