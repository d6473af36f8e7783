// Tests of the include closure and of assembly: exactly the texts that the compiler will read, in one order, or a
// sentence that says what is missing.
#include "codegen/kernel_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

using testing::ElementsAre;

std::string failure_text(auto&& action) {
  try {
    action();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    return failure.what();
  }
  return "no failure";
}

std::vector<std::string> closure_names(const std::string& text, const HeaderLibrary& available) {
  std::vector<std::string> names;
  for (const Header& header : include_closure({"k.cuh", text}, available)) names.push_back(header.name);
  return names;
}

std::vector<std::string> closure_names(const std::string& text, std::vector<Header> available) {
  return closure_names(text, HeaderLibrary(std::move(available)));
}

const HeaderLibrary& library() {
  static const HeaderLibrary kLibrary(std::vector<Header>{
      {"types.cuh", "#pragma once\n"},
      {"mma.cuh", "#include \"types.cuh\"\n"},
      {"softmax.cuh", "#include \"math.cuh\"\n#include \"mma.cuh\"\n"},
      {"math.cuh", "#include \"softmax.cuh\"\n"},  // a cycle
      {"unused.cuh", "#include <cuda_fp16.h>\n"},
  });
  return kLibrary;
}

TEST(IncludeClosure, IsTransitiveSortedAndEndsOnCycles) {
  EXPECT_THAT(closure_names("#include \"softmax.cuh\"\n", library()),
              ElementsAre("math.cuh", "mma.cuh", "softmax.cuh", "types.cuh"));
  EXPECT_THAT(closure_names("#include \"mma.cuh\"", library()), ElementsAre("mma.cuh", "types.cuh"));
  EXPECT_THAT(closure_names("", library()), ElementsAre());
}

TEST(IncludeClosure, DoesNotDependOnTheOrderOfWhatIsAvailable) {
  const HeaderLibrary reversed({library().headers().rbegin(), library().headers().rend()});
  EXPECT_EQ(include_closure({"k.cuh", "#include \"softmax.cuh\"\n"}, library()),
            include_closure({"k.cuh", "#include \"softmax.cuh\"\n"}, reversed));
}

TEST(IncludeClosure, KeepsTheTextsAsTheyAre) {
  const std::vector<Header> closure = include_closure({"k.cuh", "#include \"types.cuh\""}, library());
  EXPECT_THAT(closure, ElementsAre(Header{"types.cuh", "#pragma once\n"}));
}

TEST(HeaderLibrary, KnowsEachHeadersIncludes) {
  const Header* const types = library().find("types.cuh");
  const Header* const mma = library().find("mma.cuh");
  ASSERT_NE(mma, nullptr);
  ASSERT_NE(types, nullptr);
  const std::vector<Include>& includes = library().includes(*mma);
  ASSERT_EQ(includes.size(), 1U);
  EXPECT_EQ(includes.front().operand, "\"types.cuh\"");
  EXPECT_TRUE(library().includes(*types).empty());
  EXPECT_EQ(library().find("mma"), nullptr);
}

TEST(HeaderLibrary, NamesAreItsOwn) {
  const std::string rest =
      ": a header of this name exists already and may not be replaced; give the header another name";
  EXPECT_EQ(failure_text([] {
              const HeaderLibrary twice(std::vector<Header>{{"a.cuh", "1"}, {"a.cuh", "2"}});
            }),
            "library header \"a.cuh\"" + rest);
  EXPECT_EQ(failure_text([] {
              const HeaderLibrary plan(std::vector<Header>{{"plan.cuh", ""}});
            }),
            "library header \"plan.cuh\"" + rest);
}

TEST(IncludeClosure, ATemplateIsNoHeader) {
  EXPECT_THAT(failure_text([] {
                include_closure({"mma.cuh", "#include \"softmax.cuh\"\n"}, library());
              }),
              testing::StartsWith("#include \"mma.cuh\" in softmax.cuh, line 2: templates include only"));
}

TEST(HeaderLibrary, AFileOfALibrarysNameWithAnotherTextIsScannedItself) {
  const auto names = [](const std::string& text) {
    std::vector<std::string> result;
    for (const Header& header : include_closure({"mma.cuh", text}, library())) result.push_back(header.name);
    return result;
  };
  EXPECT_THAT(names("#include \"types.cuh\"\n"), ElementsAre("types.cuh"));
  EXPECT_THAT(names(""), ElementsAre());
}

TEST(IncludeClosure, ReadsDirectivesAsThePreprocessorDoes) {
  for (const char* text : {"  #  include   \"types.cuh\"  ", "#include\"types.cuh\"", "#include \"types.cuh\"\r\n",
                           "/* a */ #include \"types.cuh\" // b", "int a; /* x\n */ #include \"types.cuh\"",
                           "#if 0\n#include \"types.cuh\"\n#endif", "#/**/include/**/\"types.cuh\"",
                           "int x = 1'000'000;\n#include \"types.cuh\"", "char c = '\"';\n#include \"types.cuh\"",
                           "const char* s = \"/*\";\n#include \"types.cuh\"",
                           "auto s = \"\\\"/*\";\n#include \"types.cuh\"", "R\"(don't)\";\n#include \"types.cuh\""}) {
    EXPECT_THAT(closure_names(text, library()), ElementsAre("types.cuh")) << text;
  }
}

TEST(IncludeClosure, IgnoresWhatThePreprocessorIgnores) {
  for (const char* text :
       {"// #include \"types.cuh\"", "/* \n#include \"types.cuh\"\n */", "/*\n#include \"types.cuh\"",
        "x #include \"types.cuh\"", "#included \"types.cuh\"", "#include_x \"types.cuh\"",
        R"("#include \"types.cuh\"")", "#pragma once", "#define include \"types.cuh\""}) {
    EXPECT_THAT(closure_names(text, library()), ElementsAre()) << text;
  }
}

TEST(IncludeClosure, NothingHidesAnIncludeThatTheCompilerReads) {
  // NVRTC 13.0 reads the header in each of these spellings.
  for (const char* text : {"#inc\\\nlude \"types.cuh\"",
                           "#inc\\\r\nlude \"types.cuh\"\r\n",
                           "\\\n#include \"types.cuh\"",
                           "#include \\\n \"types.cuh\"",
                           "#include \"types\\\n.cuh\"",
                           "%:include \"types.cuh\"",
                           "%\\\n:include \"types.cuh\"",
                           "# /* a\n b */ include \"types.cuh\"",
                           "int a; /* a\n */ int b; /*\n*/ #include \"types.cuh\"",
                           "\v\f#\vinclude \"types.cuh\"",
                           "/* a *\\\n/\n#include \"types.cuh\"",
                           "/\\\n/ a\n#include \"types.cuh\"",
                           "// a \\ \n#include \"types.cuh\"",
                           "// a \?\?/\n#include \"types.cuh\"",
                           "auto s = R\"x(\" /* )x\";\n#include \"types.cuh\"",
                           "auto s = u8R\"(\" /* )\";\n#include \"types.cuh\"",
                           "auto s = R\"(\\\n)\"; // )\"\n#include \"types.cuh\"",
                           "auto s = R\\\n\"(\" /* )\";\n#include \"types.cuh\"",
                           "auto s = xR\"(\" ; // /* )\";\n#include \"types.cuh\"",
                           "auto c = u8'\"'; auto s = \"/*\";\n#include \"types.cuh\"",
                           "auto s = 1R\"(\" ;\n#include \"types.cuh\"\n//)\"",
                           "auto x = 0x1'0; auto s = \"/*\";\n#include \"types.cuh\"",
                           "auto x = 1.e+1'0; char c = '\"';\n#include \"types.cuh\""}) {
    EXPECT_THAT(closure_names(text, library()), ElementsAre("types.cuh")) << text;
  }
  // NVRTC does not read this include, because its trigraphs are off. A compiler with trigraphs would.
  EXPECT_THAT(closure_names("\?\?=include \"types.cuh\"", library()), ElementsAre("types.cuh"));
}

TEST(IncludeClosure, WhatASpliceOrARawStringHidesIsHidden) {
  for (const char* text : {"// a \\\n#include \"types.cuh\"", "auto s = R\"(\n#include \"types.cuh\"\n)\";",
                           "#define X \\\n#include \"types.cuh\"", "auto s = R\"x()\"\n#include \"none\"\n)x\";"}) {
    EXPECT_THAT(closure_names(text, library()), ElementsAre()) << text;
  }
}

TEST(IncludeClosure, LinesAreCountedAcrossSplicesCommentsAndRawStrings) {
  for (const char* text : {"a \\\n\\\n b\n#include \"none\"", "/*\n\n*/\n#include \"none\"",
                           "R\"(\n\n)\"\n#include \"none\"", "\n\n\n#incl\\\nude \"none\""}) {
    EXPECT_THAT(failure_text([&] { closure_names(text, std::vector<Header>()); }),
                testing::StartsWith("#include \"none\" in k.cuh, line 4: "))
        << text;
  }
}

TEST(IncludeClosure, RefusesOtherWaysToReadAFile) {
  for (const char* word : {"include_next", "import", "embed"}) {
    EXPECT_EQ(failure_text([&] { closure_names("\n# " + std::string(word) + " \"types.cuh\"", library()); }),
              "#" + std::string(word) +
                  " in k.cuh, line 2: templates read files by #include \"name\" only; write #include \"name\" with the "
                  "name of a header that was given");
  }
  EXPECT_THAT(failure_text([] {
                closure_names("#include \"h\"", std::vector<Header>{{"h", "%:im\\\nport <x>"}});
              }),
              testing::StartsWith("#import in h, line 1: "));
  for (const char* word : {"__has_include", "__has_include_next", "__has_embed"}) {
    EXPECT_EQ(failure_text([&] { closure_names("#if " + std::string(word) + "(\"types.cuh\")\n#endif", library()); }),
              std::string(word) +
                  " in k.cuh, line 1: a kernel must not depend on the files of a machine; include one of the given "
                  "headers, or "
                  "leave the check out");
  }
  EXPECT_THAT(failure_text([] { closure_names("auto s = R\"(\n#include \"types.cuh\"", library()); }),
              testing::StartsWith("a raw string in k.cuh, line 1: the raw string does not end"));
  // NVRTC ends the name at the first quote, and would look for a file.
  EXPECT_THAT(failure_text([] {
                closure_names("#include \"x\\\".cuh\"", std::vector<Header>{{"x\\\".cuh", ""}});
              }),
              testing::StartsWith("#include \"x\\\".cuh\" in k.cuh, line 1: templates include only"));
}

TEST(IncludeClosure, RefusesTheClockOutsideOfCommentsAndStrings) {
  for (const std::string word : {"__DATE__", "__TIME__", "__TIMESTAMP__"}) {
    for (const std::string& text :
         {"const char* s = " + word + ";", "#define S f(" + word + ")", "__\\\n" + word.substr(2)}) {
      EXPECT_EQ(failure_text([&] { closure_names(text, std::vector<Header>()); }),
                word +
                    " in k.cuh, line 1: a kernel must not depend on the time of its compilation; pass the value in "
                    "the plan header or an argument");
    }
    for (const std::string& text :
         {"// " + word, "/* " + word + " */", "\"" + word + "\"", "R\"(" + word + ")\"", "x" + word, word + "x"}) {
      EXPECT_THAT(closure_names(text, std::vector<Header>()), ElementsAre()) << text;
    }
  }
}

TEST(IncludeClosure, NamesTheFirstMissingHeaderAndWhereItIs) {
  EXPECT_EQ(failure_text([] { closure_names("\n/*\n*/\n#include \"mma.cuh\"\n#include \"none.cuh\"\n", library()); }),
            "#include \"none.cuh\" in k.cuh, line 5: templates include only cubit's headers and the headers given with "
            "them; available: math.cuh, mma.cuh, softmax.cuh, types.cuh, unused.cuh");
  EXPECT_EQ(failure_text([] { closure_names("#include \"a\"", std::vector<Header>()); }),
            "#include \"a\" in k.cuh, line 1: templates include only cubit's headers and the headers given with them; "
            "no header is available");
}

TEST(IncludeClosure, RejectsSystemHeadersAndComputedIncludes) {
  EXPECT_THAT(failure_text([] { closure_names("#include \"unused.cuh\"", library()); }),
              testing::StartsWith("#include <cuda_fp16.h> in unused.cuh, line 1: templates include only"));
  EXPECT_THAT(failure_text([] { closure_names("#include HEADER", library()); }),
              testing::StartsWith("#include HEADER in k.cuh, line 1: "));
  EXPECT_THAT(failure_text([] { closure_names("#include", library()); }),
              testing::StartsWith("#include nothing in k.cuh, line 1: "));
  EXPECT_THAT(failure_text([] { closure_names("#include \"\"", library()); }),
              testing::StartsWith("#include \"\" in k.cuh, line 1: "));
}

const Header kKernel = {"k.cuh", "#include \"plan.cuh\"\n#include \"mma.cuh\"\n"};

KernelSource assembled(const Header& kernel, std::string plan, const std::vector<Header>& extra,
                       std::string entry_point = "k") {
  return assemble("text:of=it", kernel, std::move(plan), find_architecture("sm_90a"), std::move(entry_point),
                  {.threads = 128, .dynamic_shared_memory = 4096}, library(), extra);
}

TEST(Assemble, GathersExactlyWhatTheCompilerReads) {
  const KernelSource source =
      assembled(kKernel, "#include \"score.cuh\"\n", {{"score.cuh", "// mine"}, {"idle.cuh", ""}});
  EXPECT_EQ(source.descriptor, "text:of=it");
  EXPECT_EQ(source.template_name, "k.cuh");
  EXPECT_EQ(source.template_text, kKernel.text);
  EXPECT_THAT(source.headers,
              ElementsAre(Header{"mma.cuh", "#include \"types.cuh\"\n"}, Header{"plan.cuh", "#include \"score.cuh\"\n"},
                          Header{"score.cuh", "// mine"}, Header{"types.cuh", "#pragma once\n"}));
  EXPECT_EQ(source.options, default_options());
  EXPECT_EQ(source.target, "sm_90a");
  EXPECT_EQ(source.entry_point, "k");
  EXPECT_EQ(source.launch.threads, 128);
  EXPECT_EQ(source.launch.dynamic_shared_memory, 4096);
}

TEST(Assemble, ATemplateMayLieInTheLibraryItself) {
  std::vector<Header> headers = library().headers();
  headers.push_back(kKernel);
  const HeaderLibrary with_kernel(std::move(headers));
  const KernelSource source = assemble("d", kKernel, "//", find_architecture("sm_80"), "k", {}, with_kernel);
  EXPECT_EQ(source.headers.size(), 3U);
}

TEST(Assemble, ATemplateWithoutAPlanNeedsNone) {
  EXPECT_TRUE(assembled({"k.cuh", "// nothing"}, "", {}).headers.empty());
  EXPECT_EQ(failure_text([] {
              assembled({"k.cuh", "// nothing"}, "// plan", {});
            }),
            "template k.cuh: the template is given a plan header and does not include it; add #include \"plan.cuh\"");
}

TEST(Assemble, NoHeaderMayBeReplaced) {
  for (const char* name : {"mma.cuh", "unused.cuh", "plan.cuh", "k.cuh"}) {
    EXPECT_EQ(failure_text([&] {
                assembled(kKernel, "//", {{name, "// other"}});
              }),
              "extra header \"" + std::string(name) +
                  "\": a header of this name exists already and may not be replaced; give the header another name");
  }
  EXPECT_THAT(failure_text([] {
                assembled(kKernel, "//", {{"a.cuh", "1"}, {"a.cuh", "2"}});
              }),
              testing::StartsWith("extra header \"a.cuh\": "));
}

TEST(Assemble, TheEntryPointIsAnIdentifier) {
  for (const char* name : {"", "a b", "f<int>", "9k"}) {
    EXPECT_EQ(failure_text([&] { assembled(kKernel, "//", {}, name); }),
              "entry point \"" + std::string(name) +
                  "\": not a C++ identifier; name an extern \"C\" __global__ function of the template");
  }
}

TEST(DefaultOptions, SetTheLanguageAndAskForTheReport) {
  EXPECT_THAT(default_options(), ElementsAre("--std=c++17", "--ptxas-options=-v", "--no-cache", "--minimal"));
}

}  // namespace
}  // namespace cubit::codegen
