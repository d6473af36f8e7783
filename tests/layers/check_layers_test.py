"""Proves that check_layers.py can fail: a small tree breaks each rule once, and lines that resemble violations pass."""

import tempfile
import unittest
from pathlib import Path

import check_layers

# Each entry is a file, a line that breaks a rule, and a part of the message.
VIOLATIONS = [
    ("templates/sm80_x.cuh", "#include <stdint.h>", "a template includes nothing but"),
    ("templates/sm80_x.cuh", '#include "codegen/architecture.hpp"', "a template includes nothing but"),
    ("templates/sm80_x.cuh", '#include "absent.cuh"', "a template includes nothing but"),
    ("templates/core/x.cuh", '#include "types.cuh"', "a template includes nothing but"),
    ("templates/x_arguments.h", "#include <cstdint>", "a template includes nothing but"),
    ("templates/embedded.cpp", '#include "runtime/engine.hpp"', "templates may not include"),
    ("codegen/x.cpp", '#include "runtime/engine.hpp"', "codegen may not include"),
    ("codegen/x.cpp", '#include "templates/embedded.hpp"', "codegen may not include"),
    ("codegen/x.cpp", "#include <fstream>", "codegen knows no I/O"),
    ("codegen/x.cpp", "#include <filesystem>", "codegen knows no I/O"),
    ("codegen/x.hpp", "#include <chrono>", "codegen knows no I/O"),
    ("codegen/x.cpp", "#include <cstdlib>", "codegen knows no I/O"),
    ("codegen/x.cpp", "#include <cubit/cubit.h>", "codegen does not know the public surface"),
    ("codegen/x.cpp", '#include "architecture.hpp"', "names its file from the root"),
    ("runtime/x.cpp", '#include "ops/operator.hpp"', "runtime may not include"),
    ("runtime/cuda/x.cpp", '#include "ops/operator.hpp"', "runtime may not include"),
    ("runtime/x.cpp", '#include "capi/handles.hpp"', "runtime may not include"),
    ("ops/gqa/x.cpp", '#include "tools/main.hpp"', "ops may not include"),
    ("ops/gqa/x.cpp", '#include "capi/handles.hpp"', "ops may not include"),
    ("ops/gqa/x.cpp", '#include "check/problem.hpp"', "ops may not include"),
    ("ops/gemm/x.cpp", '#include "ops/gqa/gqa.hpp"', "ops/gemm knows no operator"),
    ("ops/gemm/sm80/x.cpp", "#include <cubit/gqa.h>", "ops/gemm knows no operator"),
    ("ops/gemm/include/cubit/x.hpp", "#include <cubit/gqa.h>", "ops/gemm knows no operator"),
    ("runtime/x.cpp", '#include "check/problem.hpp"', "runtime may not include"),
    ("codegen/x.cpp", '#include "check/problem.hpp"', "codegen may not include"),
    ("capi/x.cpp", '#include "check/problem.hpp"', "capi may not include"),
    ("check/gqa/x.cpp", '#include "capi/handles.hpp"', "check may not include"),
    ("check/gqa/x.cpp", '#include "runtime/engine.hpp"', "check may not include"),
    ("check/gqa/x.cpp", '#include "tools/main.hpp"', "check may not include"),
    ("check/gqa/x.cpp", '#include "problem.hpp"', "names its file from the root"),
    ("files/x.cpp", '#include "tools/main.hpp"', "files may not include"),
    ("files/x.cpp", '#include "runtime/engine.hpp"', "files may not include"),
    ("calibrate/x.cpp", '#include "ops/operator.hpp"', "calibrate may not include"),
    ("calibrate/x.cpp", 'void f() { std::cout << "x"; }', "never prints"),
    ("bench/x.cpp", '#include "files/header.hpp"', "bench sees only"),
    ("tools/main.cpp", '#include "calibrate/statistics.hpp"', "tools sees only"),
    ("check/x.cpp", 'void f() { std::cout << "x"; }', "never prints"),
    ("tools/main.cpp", '#include "check/problem.hpp"', "tools sees only"),
    ("tools/main.cpp", '#include "runtime/engine.hpp"', "tools sees only"),
    ("tools/main.cpp", '#include "../runtime/engine.hpp"', "tools sees only"),
    ("tools/main.cpp", "#include <runtime/engine.hpp>", "included in quotes"),
    ("tools/main.cpp", '#include "engine.hpp"', "tools sees only"),
    ("runtime/x.cpp", "#include <ops/operator.hpp>", "included in quotes"),
    ("bench/x.cpp", '#include "ops/operator.hpp"', "bench sees only"),
    ("bench/x.cpp", '#include "runtime/engine.hpp"', "bench sees only"),
    ("bench/engine_bench.cpp", '#include "ops/operator.hpp"', "bench sees only"),
    ("examples/x/main.cpp", '#include "codegen/architecture.hpp"', "examples sees only"),
    ("tests/consumer/main.cpp", '#include "base/error.hpp"', "tests/consumer sees only"),
    ("include/cubit/cubit.hpp", '#include "base/error.hpp"', "a public header includes only"),
    ("ops/gqa/include/cubit/gqa.h", '#include "base/error.hpp"', "a public header includes only"),
    ("include/cubit/cubit.hpp", "#include <fmt/format.h>", "a public header includes only"),
    ("runtime/x.cpp", 'void f() { std::cout << "x"; }', "never prints"),
    ("capi/x.cpp", 'void f() { printf("x"); }', "never prints"),
    ("ops/x.cpp", 'void f() { std::fprintf(stderr, "x"); }', "never prints"),
    ("ops/x.cpp", 'void f() { fmt::print("x"); }', "never prints"),
    ("runtime/x.cpp", "void f() { std::exit(1); }", "never ends the process"),
    ("codegen/x.cpp", "void f() { abort(); }", "never ends the process"),
    ("runtime/x.cpp", "void f() { assert(true); }", "never ends the process"),
    ("runtime/x.cpp", 'auto f() { return std::getenv("X"); }', "never reads the environment"),
]

# Lines that resemble a violation but are allowed.
ALLOWED = [
    ("templates/sm80_x.cuh", '#include "plan.cuh"'),
    ("templates/kernels/sm80_x.cuh", '#include "core/types.cuh"'),
    ("templates/embedded.hpp", "#include <span>"),
    ("codegen/x.cpp", "#include <algorithm>"),
    ("codegen/x.cpp", '#include "base/error.hpp"'),
    ("codegen/x.cpp", "// std::cout << 1, printf(1), exit(1)"),
    ("codegen/x.cpp", "/* abort();\n   exit(1); */"),
    ("codegen/x.cpp", 'const char* f() { return "printf(1)"; }'),
    ("codegen/x.cpp", 'const char* f() { return R"(abort(); std::cout)"; }'),
    ("runtime/x.cpp", "int n = 1'000; // '"),
    ("runtime/x.cpp", "void f() { snprintf(buffer, 4, format); }"),
    ("runtime/x.cpp", "void f(Task& task) { task.abort(); task->exit(1); on_exit(2); }"),
    ("runtime/x.cpp", "#include <fstream>"),
    ("runtime/settings.cpp", 'auto f() { return std::getenv("X"); }'),
    ("ops/gqa/x.cpp", '#include "runtime/engine.hpp"'),
    ("ops/gemm/sm80/x.cpp", '#include "ops/gemm/gemm.hpp"'),
    ("ops/gemm/x.cpp", '#include "ops/operator.hpp"'),
    ("ops/gemm/x.cpp", "#include <cubit/element.hpp>"),
    ("ops/gqa/x.cpp", '#include "ops/gemm/gemm.hpp"'),
    ("capi/x.cpp", "#include <cubit/cubit.h>"),
    ("check/gqa/x.cpp", '#include "ops/operator.hpp"'),
    ("check/gqa/x.cpp", '#include "base/error.hpp"'),
    ("check/gqa/x.cpp", '#include "check/problem.hpp"'),
    ("check/x.cpp", "#include <cubit/check.h>"),
    ("tools/main.cpp", "#include <cubit/cubit.hpp>"),
    ("tools/main.cpp", '#include "tools/own.hpp"'),
    ("tools/main.cpp", '#include "generated_commit.hpp"'),
    ("tools/main.cpp", '#include "files/header.hpp"'),
    ("calibrate/x.cpp", '#include "files/header.hpp"'),
    ("bench/engine_bench.cpp", '#include "runtime/engine.hpp"'),
    ("tools/main.cpp", 'void f() { std::cout << "x"; std::exit(1); }'),
    ("examples/x/kernel.cuh", '#include "core/types.cuh"'),
]

AROUND = ["templates/core/types.cuh", "codegen/architecture.hpp", "base/error.hpp", "runtime/engine.hpp", "tools/own.hpp",
          "ops/operator.hpp", "ops/gemm/gemm.hpp", "ops/gqa/gqa.hpp", "ops/gqa/include/cubit/gqa.h",
          "ops/element/include/cubit/element.hpp", "capi/handles.hpp", "check/problem.hpp", "templates/embedded.hpp",
          "files/header.hpp"]


def complaints(file: str, line: str) -> list[str]:
    """The checker's output for a tree in which the second line of `file` is `line`."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in [*((around, "") for around in AROUND), (file, f"// a file\n{line}\n")]:
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text, encoding="utf-8")
        return [str(violation) for violation in check_layers.check_tree(Path(folder))]


class CheckLayers(unittest.TestCase):
    def test_each_planted_violation_is_found_once_and_named(self):
        for file, line, rule in VIOLATIONS:
            with self.subTest(file=file, line=line):
                found = complaints(file, line)
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(f"{file}:2: "), found)
                self.assertIn(rule, found[0])

    def test_what_resembles_a_violation_passes(self):
        for file, line in ALLOWED:
            with self.subTest(file=file, line=line):
                self.assertEqual(complaints(file, line), [])

    def test_long_files_and_folders_are_named(self):
        self.assertEqual(complaints("tools/main.cpp", "//\n" * 447 + "//"), [])
        found = complaints("tools/main.cpp", "//\n" * 449 + "//")
        self.assertEqual(found, ["tools/main.cpp:451: a source file has at most 450 lines; split it by its topics"])

    def test_folders_of_many_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tools").mkdir()
            for i in range(25):
                (Path(folder) / "tools" / f"{i}.cpp").touch()
            self.assertEqual(check_layers.check_tree(Path(folder)), [])
            (Path(folder) / "tools/one_more.cpp").touch()
            found = [str(violation) for violation in check_layers.check_tree(Path(folder))]
            self.assertEqual(found, ["tools:26: a folder has at most 25 source files; group them by their roles"])


if __name__ == "__main__":
    unittest.main()
