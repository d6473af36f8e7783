// Checks the error of every rejected text: status, line, offending text, rule, and accepted forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {
namespace {

using testing::HasSubstr;

struct Rejected {
  const char* label;
  std::string text;
  Status status;
  const char* message;
};

constexpr Status kInvalid = Status::invalid_argument;
constexpr Status kUnsupported = Status::unsupported;
const std::string kHead = ".version 9.0\n.target sm_80\n.address_size 64\n";

std::string body(const std::string& statements) {
  return kHead + ".entry k(.param .u64 a)\n{\n" + statements + "\n}\n";
}

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// clang-format off
const std::vector<Rejected> kRejected = {
    {"Empty", "", kInvalid, "PTX line 1, the end of the text: PTX begins with .version"},
    {"NoTarget", ".version 9.0\n", kInvalid, "PTX line 2, the end of the text: .target follows .version"},
    {"BadVersion", ".version 9", kInvalid, "'9': a PTX version is major.minor"},
    {"Address32", ".version 9.0 .target sm_80 .address_size 32", kUnsupported, "'32': only 64-bit addresses"},
    {"StrangeCharacter", kHead + "\x01", kInvalid, "PTX line 4, '?': no PTX token begins"},
    {"OpenComment", kHead + "/* ", kInvalid, "this comment does not end"},
    {"OpenString", kHead + ".file 1 \"a\n\"", kInvalid, "this string does not end on its line"},
    {"UnknownDirective", kHead + ".texref x;", kUnsupported, "'.texref': this directive is not read at module scope; known: .entry"},
    {"VariableTwice", kHead + ".global .b8 x;\n.global .b8 x;", kInvalid, "PTX line 5, 'x': this name is declared twice"},
    {"FunctionTwice", kHead + ".entry k { ret; }\n.entry k { ret; }", kInvalid, "'k': this function is defined twice"},
    {"UnknownType", kHead + ".global .b24 x;", kInvalid, "'.b24': a variable cannot have this type; accepted: .pred"},
    {"OddAlignment", kHead + ".global .align 3 .b8 x;", kInvalid, "'3': an alignment is a power of two"},
    {"HugeArray", kHead + ".global .b8 x[1099511627776][2];", kUnsupported, "more than 1099511627776 elements"},
    {"TooManyValues", kHead + ".global .b8 x[2] = {1, 2, 3};", kInvalid, "3 initial values for 2 elements"},
    {"NestedValues", kHead + ".global .b8 x[2][1] = {{1}, {2}};", kUnsupported, "nested initialisers are not read"},
    {"UnknownAddress", kHead + ".global .u64 x = y;", kInvalid, "'y': no variable of this name was declared before"},
    {"OpenSection", kHead + ".section .debug_str { a: .b8 1", kInvalid, "'{': this brace is not closed"},
    {"UnknownRegister", body("mov.b32 %r1, 0;"), kInvalid, "PTX line 6, '%r1': no such register in this scope"},
    {"RegisterPastRange", body(".reg .b32 %r<2>; mov.b32 %r2, 0;"), kInvalid, "'%r2': no such register"},
    {"RegisterTwice", body(".reg .b32 r, r;"), kInvalid, "'r': this name is declared twice in one scope"},
    {"RegisterOfAnotherScope", body("{ .reg .b32 %t; } mov.b32 %t, 0;"), kInvalid, "'%t': no such register in this scope"},
    {"UnknownLabel", body("bra nowhere;"), kInvalid, "'nowhere': no such label, register or variable in this scope"},
    {"LabelOfAnInnerScope", body("{ in: ret; } bra in;"), kInvalid, "'in': no such label"},
    {"LabelTwice", body("a: a: ret;"), kInvalid, "'a': this name is declared twice"},
    {"GuardIsNoPredicate", body(".reg .b32 r; @r ret;"), kInvalid, "'r': a guard is a predicate register"},
    {"NegatedVariable", body("mov.b32 !a, 0;"), kInvalid, "'a': only a predicate register can be negated"},
    {"HugeInteger", body("mov.b32 18446744073709551616, 0;"), kInvalid, "this integer does not fit 64 bits"},
    {"HugeNegative", body("mov.b32 -9223372036854775809, 0;"), kInvalid, "this negative integer does not fit 64 bits"},
    {"BadDigits", body("mov.b32 08, 0;"), kInvalid, "'08': this is not a number; accepted: 12, 0x1F, 017"},
    {"ShortFloat", body("mov.b32 0f3F, 0;"), kInvalid, "a float is 0f and 8 hexadecimal digits"},
    {"MissingSemicolon", body("ret"), kInvalid, "PTX line 7, '}': an operand was expected here"},
    {"MissingComma", body("mov.b32 1 2;"), kInvalid, "'2': ';' was expected here"},
    {"OpenVector", body("mov.b32 {1, 2;"), kInvalid, "';': '}' was expected here"},
    {"AddressOfASpecial", body("ld.b32 [%tid.x], 0;"), kInvalid, "an address begins with a register, a variable or an integer"},
    {"ComponentOfASpecial", body("mov.b32 %tid.q, 0;"), kInvalid, "'.q': a special register has the components"},
    {"VectorRegisters", body(".reg .v4 .b32 r;"), kUnsupported, "'.v4': vector registers are not read"},
    {"UnknownInBody", body(".callprototype x;"), kUnsupported, "'.callprototype': this directive is not read in a function"},
    {"TargetsWithoutLabel", body(".branchtargets a;"), kInvalid, "a label must stand before .branchtargets"},
    {"BadPlace", body(".loc 1 2 3, elsewhere"), kInvalid, "'elsewhere': function_name or inlined_at was expected"},
    {"Unfinished", kHead + ".entry k {", kInvalid, "the end of the text: an instruction, a label, a directive or a brace"},
    {"TooManyRegisters", body(".reg .b32 %r<1000000>, %f<100000>;"), kUnsupported, "'%f': a module has at most 1048576 registers"},
    {"TooDeep", body(repeat("{", 1000)), kUnsupported, "'{': braces are nested deeper than 64"},
};
// clang-format on

class Rejects : public testing::TestWithParam<Rejected> {};

TEST_P(Rejects, WithAMessageThatHelps) {
  try {
    parse(GetParam().text);
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), GetParam().status);
    EXPECT_THAT(failure.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, Rejects, testing::ValuesIn(kRejected),
                         [](const auto& test) { return std::string(test.param.label); });

TEST(Errors, InliningIsBounded) {
  std::string text = ".loc 1 1 0\n";
  for (int i = 2; i < 300; ++i) {
    text += ".loc 1 " + std::to_string(i) + " 0, function_name f, inlined_at 1 " + std::to_string(i - 1) + " 0\n";
  }
  try {
    parse(body(text));
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("calls are inlined deeper than 256"));
  }
}

TEST(Errors, ALongTokenIsCutShort) {
  try {
    parse(body("mov.b32 " + std::string(10'000'000, 'x') + ", 0;"));
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_LT(std::string(failure.what()).size(), 200u);
  }
}

}  // namespace
}  // namespace cubit::runtime::ptx
