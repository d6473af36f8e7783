"""Executes the commands and compiles the programs of README.md and docs/, so that no page shows what does not work.

  snippets.py ROOT --tool PATH --library PATH... --include FOLDER... [--cxx NAME] [--cc NAME] [--flags TEXT] [PAGE...]

The words behind the three backticks of a code block say how the block is checked:

  sh                      Every command begins with "cubit ", possibly behind values for variables such as
                          CUBIT_BUNDLES=a.cubit. The block is executed; the exit code must be 0.
  sh no-run               The block needs a GPU, root, a network or a build. It is only parsed, by `bash -n`.
  cpp, c                  A fragment. It must compile as the body of a function that has the names of PRELUDE.
  cpp program, c program  A complete program. It is compiled, linked to the libraries and run without arguments; the exit
                          code must be 0.
  python                  A program with NumPy and the package cubit. It is run; the exit code must be 0.
  python no-run           The block needs PyTorch or a GPU. It is only parsed.
  cuda, cmake, json, text Shown to the reader, not checked.

A further word file=NAME writes the block to the file NAME first, where later commands of the page find it.

All blocks of a page share one temporary folder. The folder holds `examples`, a link to the tree's folder, and the
stand-ins that STAND_INS lists. All pages share one new kernel cache. GPUs are hidden, so that commands run on the CPU
device on every machine. The script needs only Python's standard library; python blocks may need NumPy.
"""

import argparse
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

LANGUAGES = {"sh", "cpp", "c", "python", "cuda", "cmake", "json", "text"}
MODES = {"sh": {"no-run"}, "python": {"no-run"}, "cpp": {"program"}, "c": {"program"}}
TIME_LIMIT = 120  # seconds for one block

# The names that a fragment may use without declaring them.
PRELUDE = {
    "cpp": """#include <cubit/cubit.hpp>
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>
extern const cubit::Engine engine;
extern const cubit::Device device;
extern const cubit::Kernel kernel;
extern cubit_gqa_decode_arguments arguments;
extern cubit_stream stream;
extern void* workspace;
extern std::size_t workspace_bytes;
extern std::string text;
""",
    "c": """#include <cubit/cubit.h>
#include <cubit/gqa_decode.h>
#include <stdio.h>
extern cubit_engine* engine;
extern cubit_device* device;
extern cubit_kernel* kernel;
extern cubit_gqa_decode_arguments arguments;
extern cubit_stream stream;
extern void* workspace;
extern size_t workspace_bytes;
""",
}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wno-unused"]

LAYER = "model.layers.0.mlp.down_proj."


def w4_layer(name: str, n: int) -> dict[str, tuple[str, list[int], bytes]]:
    """A layer of k = 512 and n output features in groups of 128, in the layout of gptq."""
    return {name + ".qweight": ("I32", [64, n], b"\x52\x97"), name + ".qzeros": ("I32", [4, n // 8], b"\x77\x76"),
            name + ".scales": ("F16", [4, n], b"\x00\x20")}


# Files that commands of the pages read: name, then each tensor's type, shape and the bytes that fill it repeatedly.
STAND_INS = {
    "x.safetensors": {"activations": ("F16", [4, 512], b"\x00\x2c")},
    "weights.safetensors": {"weights": ("F16", [256, 512], b"\x66\x2e")},
    "cache.safetensors": {"key_cache": ("U8", [2, 64, 2, 80], b"\x11\x22"),
                          "value_cache": ("U8", [2, 64, 2, 80], b"\x11\x22")},
    "model.safetensors": {LAYER + "qweight": ("I32", [64, 256], b"\x52\x97"),
                          LAYER + "qzeros": ("I32", [4, 32], b"\x77\x77"),
                          LAYER + "scales": ("F16", [4, 256], b"\x00\x20"),
                          **w4_layer("model.layers.0.self_attn.q_proj", 256),
                          **w4_layer("model.layers.0.self_attn.k_proj", 64),
                          **w4_layer("model.layers.0.self_attn.v_proj", 64),
                          **w4_layer("model.layers.0.mlp.gate_proj", 256),
                          **w4_layer("model.layers.0.mlp.up_proj", 256),
                          "lm_head.weight": ("F16", [256, 512], b"\x66\x2e")},
    "dense.safetensors": {"model.layers.0.mlp.up_proj.weight": ("F16", [256, 512], b"\x66\x2e")},
    "x8.safetensors": {"activations": ("I8", [4, 512], b"\x11\xe2"),
                       "activation_scales": ("F32", [4], b"\x00\x00\x80\x3c")},
}


@dataclass
class Block:
    """One fenced code block of a page."""

    page: Path
    line: int  # of the opening fence
    words: list[str]  # behind the backticks
    text: str = ""

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def file_name(self) -> str:
        return next((word[len("file="):] for word in self.words if word.startswith("file=")), "")

    def is_(self, mode: str) -> bool:
        return mode in self.words[1:]


@dataclass
class Tools:
    """What executes and compiles the blocks."""

    root: Path
    tool: str
    libraries: list[Path]
    includes: list[str]
    compilers: dict[str, str]  # by language
    flags: list[str] = field(default_factory=list)
    scratch: Path = Path()

    def environment(self) -> dict[str, str]:
        folders = [*(str(library.parent) for library in self.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        return {**os.environ, "PATH": f"{self.scratch / 'bin'}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "",
                "CUBIT_CACHE_DIR": str(self.scratch / "cache"), "LD_LIBRARY_PATH": ":".join(folders)}


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced code blocks of a page, an unfinished last one included."""
    block = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            if block:
                yield block
                block = None
            else:
                block = Block(page, number, line.strip().strip("`").split())
        elif block:
            block.text += line + "\n"
    if block:
        yield block


def pages_of(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def safetensors(tensors: dict) -> bytes:
    """The bytes of a safetensors file."""
    header, data = {}, b""
    for name, (kind, shape, pattern) in tensors.items():
        count = {"U8": 1, "I8": 1, "F16": 2, "I32": 4, "F32": 4}[kind]
        for size in shape:
            count *= size
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + count]}
        data += (pattern * count)[:count]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def commands(text: str) -> list[str]:
    """The commands of a shell block: continued lines are joined, comments and empty lines left out."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def run(command: list, folder: Path, tools: Tools) -> str:
    """Nothing if the command succeeds, else what it said."""
    try:
        done = subprocess.run(command, cwd=folder, env=tools.environment(), capture_output=True, text=True,
                              timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"{shlex.join(map(str, command))} took more than {TIME_LIMIT} s"
    if done.returncode == 0:
        return ""
    return f"exit code {done.returncode} of {shlex.join(map(str, command))[:300]}\n{done.stdout}{done.stderr}"


def check_shell(block: Block, folder: Path, tools: Tools) -> str:
    if block.is_("no-run"):
        return run(["bash", "-n", "-c", block.text], folder, tools)
    foreign = [command for command in commands(block.text) if not re.match(r"(CUBIT_\w+=(\$\([^)]*\)|\S)* +)*cubit ", command)]
    if foreign:
        return f"{foreign[0]} does not begin with \"cubit \"; mark the block no-run if a test cannot execute it"
    return run(["bash", "-e", "-o", "pipefail", "-c", block.text], folder, tools)


def fragment(block: Block) -> str:
    """The source of a fragment: its #include lines, then its statements as the body of a function."""
    lines = block.text.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    parameters = "" if block.language == "cpp" else "void"
    head = f"void fragment({parameters});\nvoid fragment({parameters}) {{"
    return "\n".join([PRELUDE[block.language], *includes, head, *body, "}"]) + "\n"


def check_code(block: Block, folder: Path, tools: Tools) -> str:
    source = folder / f"block{block.line}.{block.language}"
    standard = "-std=c++20" if block.language == "cpp" else "-std=c11"
    compile_it = [tools.compilers[block.language], standard, *WARNINGS, *tools.flags,
                  *(f"-I{include}" for include in tools.includes)]
    if not block.is_("program"):
        source.write_text(fragment(block), encoding="utf-8")
        return run([*compile_it, "-fsyntax-only", source], folder, tools)
    source.write_text(block.text, encoding="utf-8")
    program = source.with_suffix("")
    failed = run([*compile_it, source, "-o", program, *tools.libraries], folder, tools)
    return failed or run([program], folder, tools)


def check(block: Block, folder: Path, tools: Tools) -> str:
    """What is wrong with a block, or nothing."""
    if block.language not in LANGUAGES:
        return f"\"{block.language}\" is not a language of code blocks; accepted: {', '.join(sorted(LANGUAGES))}"
    unknown = [word for word in block.words[1:]
               if word not in MODES.get(block.language, set()) and not word.startswith("file=")]
    if unknown:
        return f"\"{unknown[0]}\" says nothing about a {block.language} block"
    if block.file_name:
        (folder / block.file_name).write_text(block.text, encoding="utf-8")
    if block.language == "sh":
        return check_shell(block, folder, tools)
    if block.language == "python":
        checked = [f"compile({block.text!r}, 'block', 'exec')"] if block.is_("no-run") else [block.text]
        return run([sys.executable, "-B", "-c", *checked], folder, tools)
    return check_code(block, folder, tools) if block.language in PRELUDE else ""


def furnish(folder: Path, tools: Tools) -> None:
    """Puts the files that commands read into a page's folder."""
    folder.mkdir()
    (folder / "examples").symlink_to(tools.root / "examples")
    for name, tensors in STAND_INS.items():
        (folder / name).write_bytes(safetensors(tensors))


def wrong_blocks(pages: list[Path], tools: Tools) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as scratch:
        tools.scratch = Path(scratch)
        (tools.scratch / "bin").mkdir()
        (tools.scratch / "bin/cubit").symlink_to(tools.tool)
        for index, page in enumerate(pages):
            folder = tools.scratch / f"page{index}"
            furnish(folder, tools)
            for block in blocks_of(page):
                wrong = check(block, folder, tools)
                if wrong:
                    yield f"{page.relative_to(tools.root)}:{block.line}: {wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the code blocks of README.md and docs/.")
    parser.add_argument("root", type=Path)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--library", required=True, type=Path, nargs="+", dest="libraries")
    parser.add_argument("--include", nargs="+", default=[])
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--flags", default="")
    given = parser.parse_args()
    root = given.root.resolve()
    includes = [os.path.abspath(folder) for folder in given.include]
    tools = Tools(root, os.path.abspath(given.tool), [library.resolve() for library in given.libraries], includes,
                  {"cpp": given.cxx, "c": given.cc}, shlex.split(given.flags))
    pages = [page.resolve() for page in given.pages] or pages_of(root)
    wrong = list(wrong_blocks(pages, tools))
    print("\n".join(wrong) if wrong else f"the code blocks of {len(pages)} pages are good")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
